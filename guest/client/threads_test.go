package client_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// threads returns how many threads the guest has.
func (g *guest) threads() int64 { return statusField(g.t, g.pid(), "Threads:") }

// beside calls f side by side.
func beside(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// A guest that needed one more thread while user code has used up the process
// limit would end, and with it the sandbox. So it must never need one more
// than it has made at its start, whatever it is asked for.

func TestLargeRequestsNeedNoThreads(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	beside(48, func(int) { run(t, c, sh("sleep 0.3")) }) // so many shims are ready
	before := g.threads()
	var args []string
	for i := range 16 {
		args = append(args, strings.Repeat(fmt.Sprint(i%10), 100<<10))
	}
	for range 3 {
		beside(48, func(int) {
			got := run(t, c, sandbox.Command{Args: append([]string{"sh", "-c", "echo $#"}, args...)})
			if got.stdout != "15\n" {
				t.Errorf("got %+v", got)
			}
		})
	}
	if now := g.threads(); now > before {
		t.Errorf("%d threads, %d before", now, before)
	}
}

func TestCalledOffWritesNeedNoThreads(t *testing.T) {
	long(t)
	p := newPlaces(t)
	g := startGuest(t)
	c := g.client(client.Options{})
	f := plainFiles(c, p.work)
	must(t, everything(t.Context(), f, p.work+"/d"))
	g.rest(c)
	before, idle := g.threads(), descriptors(t, g.pid())
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var full sync.WaitGroup
		full.Add(40)
		go func() {
			full.Wait()
			cancel()
		}()
		beside(40, func(i int) {
			r := &then{r: io.LimitReader(zeros{}, 4<<20), done: full.Done, wait: ctx.Done()}
			if err := f.Write(ctx, fmt.Sprintf("%s/f%d", p.work, i), r, sandbox.WriteOptions{}); err == nil {
				t.Error("the write has succeeded")
			}
		})
	}
	must(t, c.Ping(t.Context()))
	eventually(t, 10*time.Second, "the files are closed", func() bool { return descriptors(t, g.pid()) <= idle })
	if now := g.threads(); now > before {
		t.Errorf("%d threads, %d before", now, before)
	}
}

// A then reader says when r has ended, and waits then.
type then struct {
	r    io.Reader
	done func()
	wait <-chan struct{}
}

func (s *then) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err == io.EOF {
		s.done()
		<-s.wait
	}
	return n, err
}
