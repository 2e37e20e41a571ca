package display_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// concurrentState names the state folder for a test binary that runs as a further
// program that starts the browser.
const concurrentState = "SANDBOX_DISPLAY_TEST_STATE"

// TestManyAtOnce checks that many callers and programs that start the browser of a
// scope at once get the same container with one Chromium.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	var callers sync.WaitGroup
	var mu sync.Mutex
	names, created := map[string]int{}, 0
	others := make([]string, 2)
	for i := range others {
		callers.Go(func() {
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestOneOfMany$", "-test.v")
			cmd.Env = append(os.Environ(), concurrentState+"="+r.state)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("another program: %v: %s", err, out)
			}
			others[i] = string(out)
		})
	}
	for range 8 {
		callers.Go(func() {
			s, err := r.Start(ctx, of("a"))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			names[s.Name]++
			if s.Created {
				created++
			}
		})
	}
	callers.Wait()
	if len(names) != 1 {
		t.Fatalf("started %v", names)
	}
	for name := range names {
		for _, out := range others {
			if !strings.Contains(out, "member has "+name) {
				t.Errorf("another program said %s", out)
			}
			created += strings.Count(out, "created true")
		}
		// A process that is being started has its parent's command line.
		until(t, "there is one browser", func() bool { return len(processes(t, name, chromiumPart)) == 1 })
	}
	if created != 1 {
		t.Errorf("%d have made the container", created)
	}
}

// TestOneOfMany is a helper process of TestManyAtOnce, which starts it and checks
// its output; on its own it does nothing.
func TestOneOfMany(t *testing.T) {
	t.Parallel()
	state := os.Getenv(concurrentState)
	if state == "" {
		return
	}
	d := newDisplays(t, newManager(t, dockertest.At(t, state), testenv.NewInternet(t), settings("", "")))
	s, err := d.Start(patient(t), of("a"))
	must(t, err)
	t.Logf("member has %s, created %v", s.Name, s.Created)
}

// TestScopesAtOnce checks that browsers of two scopes start concurrently,
// and that each session is in its own.
func TestScopesAtOnce(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	var all sync.WaitGroup
	for _, scope := range []string{"a", "b"} {
		all.Go(func() {
			r.workspacePage(of(scope), "page.html", "<title>Page of "+scope+"</title>")
			s, err := r.Session(ctx, of(scope), browser.Rights{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if p, err := s.Navigate(ctx, "page.html"); err != nil || p.Title != "Page of "+scope {
				t.Errorf("page %+v, %v", p, err)
			}
		})
	}
	all.Wait()
}
