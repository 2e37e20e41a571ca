package display_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// Pages that use as many resources as they can get, once they have loaded.
const (
	memoryHog = `<!doctype html><title>Hog</title><script>
const kept = [];
const grow = () => { kept.push(new Uint8Array(16 << 20).fill(1)); setTimeout(grow, 1) };
onload = () => setTimeout(grow, 1);
</script>`
	threadHog = `<!doctype html><title>Hog</title><script>
const kept = [];
const spawn = () => { kept.push(new Worker('worker.js')); if (kept.length < 400) setTimeout(spawn, 5) };
onload = () => setTimeout(spawn, 1);
</script>`
)

// A group is a container's control group, as the host sees it.
type group struct {
	t  testing.TB
	of map[string]string // folders by controller; "" is that of version 2
}

func groupOf(t testing.TB, name string) group {
	t.Helper()
	out, err := exec.Command("docker", "inspect", "--format", "{{.State.Pid}}", name).Output()
	must(t, err)
	text, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(out)), "cgroup"))
	must(t, err)
	g := group{t: t, of: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 {
			g.of[parts[1]] = filepath.Join("/sys/fs/cgroup", parts[1], parts[2])
		}
	}
	return g
}

// read returns the number in the file of either version, or that of its line
// with the key.
func (g group) read(controller, first, second, key string) int64 {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.of[controller], first))
	if err != nil {
		text, err = os.ReadFile(filepath.Join(g.of[""], second))
	}
	must(g.t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if key == "" || len(fields) == 2 && fields[0] == key {
			n, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			must(g.t, err)
			return n
		}
	}
	g.t.Fatalf("no %q in %q", key, text)
	return 0
}

// hogs serves these pages by name, and a page that uses nothing.
func hogs(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	switch r.URL.Path {
	case "/memory":
		io.WriteString(w, memoryHog)
	case "/threads":
		io.WriteString(w, threadHog)
	case "/worker.js":
		w.Header().Set("Content-Type", "text/javascript")
		io.WriteString(w, "setInterval(() => 0, 1000)")
	default:
		io.WriteString(w, "<title>Here</title>")
	}
}

// neighbour visits pages in the browser of another scope until stop, which
// returns how many there were.
func (r *rig) neighbour(session string) (stop func() int) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(patient(r.t))
	r.workspacePage(of(session), "page.html", "<title>Neighbour</title>")
	s, err := r.Session(ctx, of(session), browser.Rights{})
	must(r.t, err)
	visits, first := 0, make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		defer s.Close()
		reported := sync.OnceFunc(func() { close(first) })
		defer reported()
		for visits < 190 && ctx.Err() == nil { // a session has 200
			p, err := s.Navigate(ctx, "page.html")
			if ctx.Err() != nil {
				return
			}
			if err != nil || p.Title != "Neighbour" {
				r.t.Errorf("the neighbour's page: %+v, %v", p, err)
				return
			}
			visits++
			reported()
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond): // the hog wants the processors
			}
		}
	})
	<-first
	return func() int {
		cancel()
		work.Wait()
		return visits
	}
}

// TestLimitsHold checks that a page that takes memory, or starts threads, gets
// what the settings give its container and not more, that its browser runs
// again for the next use, and that the browser of another scope is not
// affected.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	const memory, pids = 1 << 30, 200
	r := on(t, "", fmt.Sprintf(`"docker":{"memory":"%dm","memorySwap":"%dm","pidsLimit":%d}`, memory>>20, memory>>20, pids))
	ctx := patient(t)
	stop := r.neighbour("neighbour")
	hog, _ := r.shopping("hog")
	r.net.Handle(testenv.Files, http.HandlerFunc(hogs))
	started, err := r.Start(ctx, hog)
	must(t, err)
	g := groupOf(t, started.Name)
	for _, c := range []struct {
		name string
		full func() bool
	}{
		{"memory", func() bool {
			return g.read("memory", "memory.max_usage_in_bytes", "memory.peak", "") > memory*9/10 &&
				g.read("memory", "memory.oom_control", "memory.events", "oom_kill") > 0
		}},
		{"threads", func() bool { return g.read("pids", "pids.events", "pids.events", "max") > 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := r.Session(ctx, hog, browser.Rights{})
			must(t, err)
			// Whether the page still answers then is up to the kernel.
			_, _ = s.Navigate(ctx, r.net.URL("http", testenv.Files, "/"+c.name))
			until(t, "the limit is reached", c.full)
			if n := g.read("memory", "memory.max_usage_in_bytes", "memory.peak", ""); n > memory {
				t.Errorf("it had %d bytes", n)
			}
			if n := g.read("pids", "pids.current", "pids.current", ""); n > pids {
				t.Errorf("it has %d processes", n)
			}
			s.Close()
			until(t, "the browser answers", func() bool {
				s, err := r.Session(ctx, hog, browser.Rights{})
				if err != nil {
					t.Logf("not yet: %v", err)
					return false
				}
				defer s.Close()
				p, err := s.Navigate(ctx, r.net.URL("http", testenv.Files, "/"))
				if err != nil {
					t.Logf("not yet: %v", err)
				}
				return err == nil && p.Title == "Here"
			})
		})
	}
	if n := stop(); n == 0 {
		t.Error("the neighbour saw no page")
	} else {
		t.Logf("the neighbour saw %d pages", n)
	}
}
