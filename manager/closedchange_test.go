//go:build linux

package manager_test

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestSettingsThatTakeAway holds that settings which take something from a
// sandbox do so at its next command, also for what runs there still: where they
// take hosts, connections to those end and their requests are refused, while
// connections to others go on; where they take something else all ends.
func TestSettingsThatTakeAway(t *testing.T) {
	files := func(f *fort, change func(*config.NetworkSettings)) {
		f.reloadWith(func(s *config.SandboxSettings) {
			s.Network = f.allowing(testenv.Files, held).Network
			change(s.Network)
		})
	}
	onForts(t, func(f *fort) {
		before := f.load()
		for what, tt := range map[string]struct {
			reload func(*fort)
			status string // of the usual host, for the next command
			old    string // the same for the one that runs
			held   bool   // what is under way to another host goes on
		}{
			"another host":   {func(f *fort) { f.reload(testenv.Other) }, "403", "403", false},
			"one of two":     {func(f *fort) { f.reload(held) }, "403", "403", true},
			"the held one":   {func(f *fort) { f.reload(testenv.Files) }, "200", "200", false},
			"nothing at all": {func(f *fort) { f.reloadWith(func(*config.SandboxSettings) {}) }, "", "000", false},
			"a denial": {func(f *fort) {
				files(f, func(n *config.NetworkSettings) { n.DeniedDomains = []string{testenv.Files} })
			}, "403", "403", true},
			"a limit": {func(f *fort) {
				files(f, func(n *config.NetworkSettings) { n.Limits = &config.NetworkLimitSettings{BytesIn: new(config.Size(1))} })
			}, "429", "000", false},
			"without a record": {func(f *fort) {
				f.reloadWith(func(s *config.SandboxSettings) {
					s.Network, s.RequireEvidence = f.allowing(testenv.Files, held).Network, new(true)
				})
			}, "200", "000", false},
		} {
			f.part(what, &before, func() {
				p := f.poll()
				tt.reload(f)
				line := `test -z "$HTTP_PROXY"`
				if tt.status != "" {
					line = f.get(testenv.Files, "/greeting.txt") + " >/dev/null 2>&1; " + f.get(testenv.Files, "/greeting.txt") + " | head -1"
				}
				r, err := f.try(nil, line)
				must(f.t, err)
				if got := string(r.Stdout); r.ExitCode != 0 || tt.status != "" && !strings.HasPrefix(got, "HTTP/1.1 "+tt.status) {
					f.t.Errorf("the next command: status %d, %s %s", r.ExitCode, got, r.Stderr)
				}
				if tt.old == "200" {
					p.next(3, tt.old)
				} else {
					p.refused(10, tt.old)
				}
				if tt.held {
					if f.heldNow() == 0 {
						f.t.Error("a connection to a host that is still allowed has ended")
					}
				} else {
					f.nothingUnderWay()
				}
				p.end()
			})
		}
		must(f.t, f.Close())
		f.left(before)
	})
}

// TestSettingsThatGive holds that settings which allow more take nothing from
// what runs, and give it nothing either.
func TestSettingsThatGive(t *testing.T) {
	onForts(t, func(f *fort) {
		before := f.load()
		p := f.poll()
		f.reload(testenv.Files, held, testenv.Other)
		if got := f.fetch(nil, testenv.Other, "/greeting.txt"); !strings.HasPrefix(got, "HTTP/1.1 200") {
			f.t.Errorf("the next command: %s", got)
		}
		p.next(3, "200")
		// Settings that then take away reach what the first ones left running.
		f.reload(testenv.Other)
		if got := f.fetch(nil, testenv.Files, "/greeting.txt"); !strings.HasPrefix(got, "HTTP/1.1 403") {
			f.t.Errorf("the one after it: %s", got)
		}
		p.shut("403")
		p.end()
		must(f.t, f.Close())
		f.left(before)
	})
}

// TestFlagsTakeNothingAway holds that a call without the flags of another one
// in the same sandbox takes nothing from it, and gets nothing; and that other
// flags open what they name for their own call alone.
func TestFlagsTakeNothingAway(t *testing.T) {
	onForts(t, func(f *fort) {
		p := f.poll()
		r, err := f.try(nil, "true")
		must(f.t, err)
		if r.ExitCode != 0 {
			f.t.Errorf("%+v", r)
		}
		p.next(3, "200")
		if got := f.fetch(f.allowing(testenv.Other), testenv.Other, "/greeting.txt"); !strings.HasPrefix(got, "HTTP/1.1 200") {
			f.t.Errorf("what another call's flags open: %s", got)
		}
		p.next(3, "200")
	})
}
