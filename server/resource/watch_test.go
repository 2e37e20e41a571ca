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

	"github.com/bulkhead-dev/sandbox/internal/testenv"
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

// watchOn runs a test with each of the providers; script is Docker without the
// guest's files. Docker runs only with "make test-all" unless it is the first.
func watchOn(t *testing.T, providers []string, o resource.WatchOptions, test func(t *testing.T, r *watchRig, base string)) {
	for i, wall := range providers {
		t.Run(wall, func(t *testing.T) {
			if wall == "docker" && i > 0 {
				testenv.Exhaustive(t, "the same guest in another provider")
			}
			r, settings := &watchRig{}, ""
			if wall == "script" {
				wall, settings = "docker", `{"agents": {"defaults": {"sandbox": {"fsTransport": "script"}}}}`
			}
			r.Rig = served.New(t, served.Options{Wall: wall, Settings: settings, Resources: func(s *served.Rig) []resource.Resource {
				r.watches = resource.NewWatchResource(s.Manager, o)
				return []resource.Resource{r.watches, resource.NewFilesResource(s.Manager, resource.Limits{})}
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only what fails lasts so long
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
	if !strings.HasSuffix(c.Path, "/"+c.Name) && c.Name != "." {
		l.t.Errorf("%s is not at %s", c.Name, c.Path)
	}
	at := c.Name
	if c.To != "" {
		at += " > " + c.To
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", c.Kind, at, c.Type, c.Mode))
}

// begins checks that the watch begins, and that one that polls says so.
func (l *listener) begins(polls bool) {
	l.t.Helper()
	name, data := l.next()
	var ready api.WatchReady
	if err := json.Unmarshal([]byte(data), &ready); err != nil || name != api.EventReady || ready.Polls != polls {
		l.t.Fatalf("%s %s", name, data)
	}
	if polls {
		if name, data := l.next(); name != api.EventNote || !strings.Contains(data, `"code":"SANDBOX.UNSUPPORTED"`) {
			l.t.Fatalf("%s %s", name, data)
		}
	}
}

func TestWatchPolls(t *testing.T) {
	t.Parallel()
	watchOn(t, []string{"memory"}, resource.WatchOptions{Interval: 20 * time.Millisecond}, func(t *testing.T, r *watchRig, base string) {
		r.Run("acme", "s1", "mkdir old; echo a > old/file")
		l := listen(t, r, "acme", base+"/watch")
		l.begins(true)
		for _, step := range []struct{ line, want string }{
			{"echo hello > new", "create new file 0644"},
			{"echo more >> new", "write new file 0644"},
			{"mkdir dir", "create dir dir 0755"},
			{"ln -s new link", "create link symlink 0777"},
			{"chmod 600 new", "chmod new file 0600"},
			{"rm old/file", "remove old/file file 0644"},
			{"rm new", "remove new file 0600"},
		} {
			r.between(t, step.line)
			if got := l.change(); got != step.want {
				t.Errorf("%s: %s, want %s", step.line, got, step.want)
			}
		}
		below := listen(t, r, "acme-s1", base+"/watch?path=dir&recursive=false")
		below.begins(true)
		r.between(t, "mkdir dir/sub; echo x > dir/sub/hidden")
		if got := below.change(); got != "create sub dir 0755" {
			t.Error(got)
		}
		r.between(t, "echo x > dir/y")
		if got := below.change(); got != "create y file 0644" {
			t.Error(got)
		}
	})
}

// TestWatchOfScripts holds that a watch by scripts says that it polls, and does.
func TestWatchOfScripts(t *testing.T) {
	t.Parallel()
	watchOn(t, []string{"script"}, resource.WatchOptions{Interval: 20 * time.Millisecond}, func(t *testing.T, r *watchRig, base string) {
		l := listen(t, r, "acme", base+"/watch")
		l.begins(true)
		r.between(t, "umask 022; echo hello > new")
		if got := l.change(); got != "create new file 0644" {
			t.Error(got)
		}
	})
}

// TestWatch holds each kind of change as the kernel inside reports it.
func TestWatch(t *testing.T) {
	t.Parallel()
	watchOn(t, []string{"docker", "local"}, resource.WatchOptions{}, func(t *testing.T, r *watchRig, base string) {
		r.Run("acme", "s1", "umask 022; mkdir -p old dir /tmp/away; echo a > old/file; ln -s /tmp out")
		l := listen(t, r, "acme", base+"/watch")
		l.begins(false)
		flat := listen(t, r, "acme-s1", base+"/watch?path=dir&recursive=false")
		flat.begins(false)
		for _, step := range []struct {
			line string
			want []string
		}{
			{"umask 022; echo hello > new", []string{"create new file 0644", "write new file 0644"}},
			{"echo more >> new", []string{"write new file 0644"}},
			{"chmod 600 new", []string{"chmod new file 0600"}},
			{"mv new dir/b", []string{"rename new > dir/b file 0600"}},
			{"rm old/file", []string{"remove old/file"}},
			{"mv old dir/older", []string{"rename old > dir/older dir 0755"}},
			{"umask 027; mkfifo 'dir/older/a bä'", []string{"create dir/older/a bä other 0640"}},
			{"mkdir -p x/y/z", []string{"create x dir 0755", "create x/y dir 0755", "create x/y/z dir 0755"}},
			{"rmdir x/y/z", []string{"remove x/y/z"}},
			{"ln -s nowhere link; : > out/unseen; rm out", []string{"create link symlink 0777", "remove out"}},
		} {
			r.Run("acme", "s1", step.line)
			for _, want := range step.want {
				if got := l.change(); got != want {
					t.Errorf("%s: %s, want %s", step.line, got, want)
				}
			}
		}
		for _, want := range []string{"create b file 0600", "create older dir 0755"} {
			if got := flat.change(); got != want {
				t.Errorf("of the folder alone: %s, want %s", got, want)
			}
		}
		// Files that are written through the daemon are seen as what they are.
		r.Want(201, "acme", "PUT", base+"/files/workspace/put", "1")
		r.Want(200, "acme", "PUT", base+"/files/workspace/put", "2")
		for _, want := range []string{"create put file 0644", "write put file 0644"} {
			if got := l.change(); got != want {
				t.Errorf("written through the daemon: %s, want %s", got, want)
			}
		}
		r.Run("acme", "s1", "rm -r dir")
		for {
			name, data := flat.next()
			if name == api.EventError {
				if !strings.Contains(data, `"code":"SANDBOX.NOT_FOUND"`) {
					t.Error(data)
				}
				break
			}
		}
	})
}

// TestWatchOverflows holds that a client that takes nothing learns that it has
// lost changes, and gets those that come then.
func TestWatchOverflows(t *testing.T) { // not beside others: the client takes nothing for as long as the command runs
	watchOn(t, []string{"docker"}, resource.WatchOptions{}, func(t *testing.T, r *watchRig, base string) {
		l := listen(t, r, "acme", base+"/watch")
		l.begins(false)
		// The queue of the kernel and what is on its way to the client fill up.
		r.Run("acme", "s1", `for i in $(seq 12); do for j in $(seq 4000); do : > f; : > g; done; chmod 600 f; chmod 644 f; done`)
		for {
			name, data := l.next()
			if name == api.EventOverflow {
				if !strings.Contains(data, `"code":"QUOTA.BUDGET_EXCEEDED"`) {
					t.Error(data)
				}
				break
			}
			if name == api.EventChange && strings.Contains(data, `"end"`) {
				t.Fatal("nothing was lost, or it was not reported")
			}
		}
		r.Run("acme", "s1", "mkdir end")
		for {
			if name, data := l.next(); name == api.EventChange && strings.Contains(data, `"name":"end"`) {
				break
			}
		}
	})
}

func TestWatchSaysWhatItDoesNotSee(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]resource.WatchOptions{
		"entries": {Entries: 5},
		"paths":   {Bytes: len("/workspace") + 4*len("/workspace/a")},
	} {
		o.Interval = 20 * time.Millisecond
		t.Run(name, func(t *testing.T) {
			watchOn(t, []string{"memory"}, o, func(t *testing.T, r *watchRig, base string) {
				r.Run("acme", "s1", "for i in a b c d e f g; do echo $i > $i; done")
				l := listen(t, r, "acme", base+"/watch")
				l.begins(true)
				if name, data := l.next(); name != api.EventNote || !strings.Contains(data, "more entries") || !strings.Contains(data, `"code":"QUOTA.BUDGET_EXCEEDED"`) {
					t.Errorf("%s %s", name, data)
				}
				r.between(t, "rm g; echo xx > b")
				if got := l.change(); got != "write b file 0644" {
					t.Error(got)
				}
			})
		})
	}
	watchOn(t, []string{"local", "docker"}, resource.WatchOptions{}, func(t *testing.T, r *watchRig, base string) {
		l := listen(t, r, "acme", base+"/watch")
		l.begins(false)
		r.Run("acme", "s1", "mkdir -m 0 closed; mkdir $(printf 'a\\377')")
		closed, bad := false, false
		for !closed || !bad {
			name, data := l.next()
			closed = closed || name == api.EventNote && strings.Contains(data, `"name":"closed"`) && strings.Contains(data, `"code":"SANDBOX.CAPABILITY_BLOCKED"`)
			bad = bad || name == api.EventNote && strings.Contains(data, `"code":"SCHEMA.VALIDATION_FAILED"`) && strings.Contains(data, "xff")
		}
		r.Run("acme", "s1", "rmdir closed")
	})
}

func TestWatchRefuses(t *testing.T) {
	t.Parallel()
	watchOn(t, []string{"memory", "local", "docker"}, resource.WatchOptions{Interval: 20 * time.Millisecond}, func(t *testing.T, r *watchRig, base string) {
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
