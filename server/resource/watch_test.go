package resource_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// A watchRig is a daemon that serves watches of a sandbox.
type watchRig struct {
	*served.Rig
	watches *resource.WatchResource
	name    string // of the sandbox
}

func watchOnProviders(t *testing.T, o resource.WatchOptions, test func(t *testing.T, r *watchRig, base string)) {
	for _, wall := range []string{"memory", "docker"} {
		t.Run(wall, func(t *testing.T) {
			r := &watchRig{}
			r.Rig = served.New(t, served.Options{Wall: wall, Resources: func(s *served.Rig) []resource.Resource {
				r.watches = resource.NewWatchResource(s.Manager, o)
				return []resource.Resource{r.watches}
			}})
			r.name = r.Ready("acme", "s1")
			test(t, r, "/v1/sandboxes/"+r.name)
		})
	}
}

// between runs a line between two scans, so that no scan sees a file that was
// made and not yet written.
func (r *watchRig) between(t *testing.T, line string) {
	t.Helper()
	leave, err := r.watches.Still(t.Context(), r.name)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	r.Run("acme", "s1", line)
}

// A listener receives the events of a watch.
type listener struct {
	t     *testing.T
	lines *bufio.Scanner
	end   func()
}

func listen(t *testing.T, r *watchRig, as, path string) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only what fails lasts so long
	res, err := r.Send(ctx, as, http.MethodGet, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	end := func() { cancel(); res.Body.Close() }
	t.Cleanup(end)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != api.ContentEvents {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	return &listener{t, bufio.NewScanner(res.Body), end}
}

// next returns the next event.
func (l *listener) next() (name, data string) {
	l.t.Helper()
	for l.lines.Scan() {
		if text, ok := strings.CutPrefix(l.lines.Text(), "event: "); ok {
			name = text
		}
		if text, ok := strings.CutPrefix(l.lines.Text(), "data: "); ok {
			return name, text
		}
	}
	l.t.Fatalf("the watch has ended: %v", l.lines.Err())
	return "", ""
}

// change returns the next event as a change, in short form.
func (l *listener) change() string {
	l.t.Helper()
	name, data := l.next()
	var c api.Change
	if err := json.Unmarshal([]byte(data), &c); err != nil || name != api.EventChange {
		l.t.Fatalf("%s %s %v", name, data, err)
	}
	return fmt.Sprintf("%s %s %s %d", c.Kind, c.Type, c.Path, c.Size)
}

func TestWatch(t *testing.T) {
	watchOnProviders(t, resource.WatchOptions{Interval: 20 * time.Millisecond}, func(t *testing.T, r *watchRig, base string) {
		r.Run("acme", "s1", "mkdir old; echo a > old/file")
		l := listen(t, r, "acme", base+"/watch")
		if name, data := l.next(); name != api.EventReady || data != `{"entries":3}` {
			t.Fatalf("%s %s", name, data)
		}
		for _, step := range []struct{ line, want string }{
			{"echo hello > new", "created file /workspace/new 6"},
			{"echo more >> new", "modified file /workspace/new 11"},
			{"mkdir dir", "created dir /workspace/dir 0"},
			{"ln -s new link", "created symlink /workspace/link 3"},
			{"rm old/file", "removed file /workspace/old/file 2"},
			{"rm new", "removed file /workspace/new 11"},
		} {
			r.between(t, step.line)
			if got := l.change(); got != step.want {
				t.Errorf("%s: %s, want %s", step.line, got, step.want)
			}
		}
		below := listen(t, r, "acme-s1", base+"/watch?path=dir")
		below.next()
		r.between(t, "echo x > dir/y")
		if got := below.change(); got != "created file /workspace/dir/y 2" {
			t.Error(got)
		}
	})
}

func TestWatchSaysWhatItDoesNotSee(t *testing.T) {
	for name, o := range map[string]resource.WatchOptions{
		"entries": {Entries: 5},
		"paths":   {Bytes: len("/workspace") + 4*len("/workspace/a")},
	} {
		o.Interval = 20 * time.Millisecond
		t.Run(name, func(t *testing.T) {
			watchOnProviders(t, o, func(t *testing.T, r *watchRig, base string) {
				r.Run("acme", "s1", "for i in a b c d e f g; do echo $i > $i; done")
				l := listen(t, r, "acme", base+"/watch")
				if name, data := l.next(); name != api.EventReady || data != `{"entries":5}` {
					t.Errorf("%s %s", name, data)
				}
				if name, data := l.next(); name != api.EventNote || !strings.Contains(data, "more entries") {
					t.Errorf("%s %s", name, data)
				}
				r.between(t, "rm g; echo xx > b")
				if got := l.change(); got != "modified file /workspace/b 3" {
					t.Error(got)
				}
			})
		})
	}
}

func TestWatchRefuses(t *testing.T) {
	watchOnProviders(t, resource.WatchOptions{Interval: 20 * time.Millisecond}, func(t *testing.T, r *watchRig, base string) {
		for _, tt := range []struct {
			as, path string
			status   int
		}{
			{"evil", "/watch", 404}, {"acme-s2", "/watch", 404}, {"nobody", "/watch", 401}, {"acme", "/watch?path=none", 404},
			{"acme", "/watch?path=/etc", 403}, {"acme", "/watch?path=../x", 422}, {"acme", "/watch?path=" + r.State.Workspaces(), 0}, {"acme", "/watch?depth=1", 422},
		} {
			a := r.Ask(tt.as, "GET", base+tt.path, "")
			if a.Status != tt.status && !(tt.status == 0 && (a.Status == 403 || a.Status == 404)) {
				t.Errorf("%s %s: %d %s", tt.as, tt.path, a.Status, a.Body)
			}
		}
		var all []*listener
		for range 8 {
			l := listen(t, r, "acme", base+"/watch")
			l.next()
			all = append(all, l)
		}
		r.Want(429, "acme", "GET", base+"/watch", "")
		all[0].end()
		for deadline := time.Now().Add(30 * time.Second); ; {
			ctx, cancel := context.WithCancel(t.Context())
			res, err := r.Send(ctx, "acme", "GET", base+"/watch", nil)
			cancel()
			if err == nil {
				res.Body.Close()
			}
			if err == nil && res.StatusCode == 200 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the seat is not free: %v %v", res, err)
			}
		}
	})
}
