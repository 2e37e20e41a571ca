//go:build linux

package manager_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestNetworkLimitsBite checks that each limit of the network has an effect,
// that the program's error names the limit, and that the limit is on record.
func TestNetworkLimitsBite(t *testing.T) {
	size := func(n int) *config.Size { return new(config.Size(n)) }
	long := func(d time.Duration) *config.Duration { return new(config.Duration(d)) }
	status := " -s -o /dev/null -w '%{http_code} %header{x-sandbox-rule}\\n' --max-time 60 "
	rows := []struct {
		what   string
		limits config.NetworkLimitSettings
		line   string // with FILES, HELD, ZEROS and ECHO
		want   string // of the last line
	}{
		{"connections", config.NetworkLimitSettings{Connections: new(int64(2))}, "for n in 1 2; do curl -sN --max-time 2 -o /dev/null HELD & done; sleep 0.5; s=$(curl" + status + "FILES); wait; echo $s", "200"},
		{"bytes in", config.NetworkLimitSettings{BytesIn: size(100 << 10)}, "curl" + status + "ZEROS >/dev/null; curl" + status + "FILES", "429 limits.bytesIn"},
		{"bytes out", config.NetworkLimitSettings{BytesOut: size(100 << 10)}, "head -c 200000 /dev/zero | curl" + status + "--data-binary @- ECHO >/dev/null; curl" + status + "FILES", "429 limits.bytesOut"},
		{"request bytes", config.NetworkLimitSettings{RequestBytes: size(1000)}, "head -c 2000 /dev/zero | curl" + status + "--data-binary @- ECHO", "413 limits.requestBytes"},
		{"chunked", config.NetworkLimitSettings{RequestBytes: size(1000)}, "head -c 2000 /dev/zero | curl" + status + "-T - ECHO", "413 limits.requestBytes"},
		{"idle", config.NetworkLimitSettings{Idle: long(2 * time.Second)}, "curl" + status + "SILENT", "504 reach"},
		{"total", config.NetworkLimitSettings{Total: long(time.Second)}, "curl -sN -o /dev/null HELD; curl" + status + "FILES", "429 limits.total"},
	}
	for _, kind := range []string{"docker", "local"} {
		t.Run(kind, func(t *testing.T) {
			f := newFort(t, kind)
			f.net.Handle("silent.test", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
			before := f.load()
			for _, tt := range rows {
				f.part(tt.what, &before, func() {
					f.reloadWith(func(s *config.SandboxSettings) {
						s.Network = f.allowing(testenv.Files, testenv.Echo, held, "silent.test").Network
						s.Network.Limits = &tt.limits
					})
					earlier := len(f.recorded())
					line := strings.NewReplacer(
						"FILES", f.net.URL("http", testenv.Files, "/greeting.txt"), "ZEROS", f.net.URL("http", testenv.Files, "/zeros?n=1000000"),
						"HELD", f.net.URL("http", held, "/"), "ECHO", f.net.URL("http", testenv.Echo, "/"), "SILENT", f.net.URL("http", "silent.test", "/"),
					).Replace(tt.line)
					r, err := f.try(nil, line)
					must(f.t, err)
					lines := strings.Split(strings.TrimSpace(string(r.Stdout)), "\n")
					if got := lines[len(lines)-1]; got != tt.want {
						f.t.Errorf("%q, want %q", got, tt.want)
					}
					f.nothingUnderWay()
					if tt.limits.Connections == nil && !f.onRecord(earlier, strings.Fields(tt.want)[1]) {
						f.t.Error("it is not on record")
					}
				})
			}
		})
	}
}

// recorded returns what is on record, the latest first.
func (f *fort) recorded() (all []egress.Event) {
	must(f.t, f.recorder.Flush(f.t.Context()))
	for r, err := range f.evidence.Query(f.t.Context(), evidence.Filter{}) {
		must(f.t, err)
		all = append(all, decoded(f.t, r.Data))
	}
	return all
}

// onRecord reports whether the evidence has, beyond so many earlier records, a
// refusal by the rule, or something that ended early.
func (f *fort) onRecord(earlier int, rule string) bool {
	all := f.recorded()
	return slices.ContainsFunc(all[:len(all)-earlier], func(e egress.Event) bool { return e.Rule == rule || e.Error != "" })
}

// TestCommandThatHangsInTheProxyEnds holds that a time limit is one also while
// the proxy waits for a host.
func TestCommandThatHangsInTheProxyEnds(t *testing.T) {
	onForts(t, func(f *fort) {
		before := f.load()
		start := time.Now()
		r, err := f.try(nil, "curl -sN '"+f.net.URL("http", held, "/")+"'", func(r *manager.Request) { r.Timeout = 2 * time.Second })
		must(f.t, err)
		if took := time.Since(start); !r.TimedOut || took > 30*time.Second {
			f.t.Errorf("%+v after %v", r, took)
		}
		f.nothingUnderWay()
		must(f.t, f.Close())
		f.left(before)
	})
}

// TestManyCommandsAtOnce checks that the record distinguishes each of many
// commands in one sandbox.
func TestManyCommandsAtOnce(t *testing.T) {
	onForts(t, func(f *fort) {
		const many = 20
		f.net.Handle("each.test", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		f.reload("each.test")
		f.inside("true") // all of them find it ready
		var wg sync.WaitGroup
		for i := range many {
			wg.Go(func() {
				r, err := f.try(nil, "curl -s '"+f.net.URL("http", "each.test", fmt.Sprintf("/%d/first", i))+"'; curl -s '"+f.net.URL("http", "each.test", fmt.Sprintf("/%d/second", i))+"'")
				if err != nil || r.ExitCode != 0 {
					f.t.Errorf("%+v, %v", r, err)
				}
			})
		}
		wg.Wait()
		must(f.t, f.recorder.Flush(f.t.Context()))
		paths := map[string]map[string]bool{} // by command
		for r, err := range f.evidence.Query(f.t.Context(), evidence.Filter{}) {
			must(f.t, err)
			e := decoded(f.t, r.Data)
			if e.Host != "each.test" || r.Command == "" || r.Command != e.Caller {
				f.t.Errorf("on record for %q: %+v", r.Command, e)
				continue
			}
			if paths[r.Command] == nil {
				paths[r.Command] = map[string]bool{}
			}
			paths[r.Command][e.Path] = true
		}
		if len(paths) != many {
			f.t.Errorf("%d commands are on record", len(paths))
		}
		for id, got := range paths {
			var of string
			for p := range got {
				of = strings.Split(p, "/")[1]
			}
			if len(got) != 2 || !got["/"+of+"/first"] || !got["/"+of+"/second"] {
				f.t.Errorf("command %s has asked for %v", id, got)
			}
		}
	})
}

// TestRemovedWithManyConnections removes a container through which a hundred
// answers are under way.
func TestRemovedWithManyConnections(t *testing.T) {
	for _, kind := range []string{"docker", "relay"} {
		t.Run(kind, func(t *testing.T) {
			if kind == "relay" {
				testenv.Exhaustive(t, "another way to the guest of a container")
			}
			f := newFort(t, kind)
			before := f.load()
			done := make(chan struct{})
			go func() {
				defer close(done)
				f.try(nil, "curl -sNZ --parallel-immediate --parallel-max 100 -o /dev/null '"+f.net.URL("http", held, "/[1-100]")+"'")
			}()
			f.within("a hundred answers are under way", func() bool { return f.heldNow() == 100 })
			must(t, f.rig.engine.Remove(t.Context(), f.name))
			<-done
			f.nothingUnderWay()
			f.left(before)
			if c := f.plane.Counters(); c.Open != 0 || c.Panics != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}
