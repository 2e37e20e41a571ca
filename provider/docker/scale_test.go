package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"go.uber.org/goleak"
)

const (
	// idleBound is what the guest and its stage may take when nothing runs. It
	// leaves room for what a busy machine adds: each thread has memory. What they
	// take on an idle one, TestIdleMemory of guest/client bounds.
	idleBound = 8 << 20
	// growth is what they may take more after thousands of commands.
	growth = 1 << 20
)

// A scene is a sandbox whose processes are looked at from the host.
type scene struct {
	t      testing.TB
	sb     sandbox.Sandbox
	inside func(pid int) bool
}

func newScene(t testing.TB, key string, change func(*sandbox.Spec)) *scene {
	t.Helper()
	testenv.Require(t, "root") // to see the processes of the container
	w := dockertest.New(t)
	s := w.Spec(key)
	s.Resources.NanoCPUs = 2e9
	if change != nil {
		change(&s)
	}
	sb := w.Create(s)
	return &scene{t: t, sb: sb, inside: testenv.Container(sb.Info().ID)}
}

func (s *scene) footprint() testenv.Footprint {
	s.t.Helper()
	f, err := testenv.Of(s.inside)
	must(s.t, err)
	if f.Processes == 0 {
		s.t.Fatal("no process of the container is to be seen")
	}
	return f
}

// threads is how many the guest and a stage may have. A Go program gives none
// back, and makes the more of them the busier the machine is; one that every
// command leaves would make a thousand.
const threads = 100

// settled waits until only the guest and one stage are left, and what they
// take has gone down to most.
func (s *scene) settled(most testenv.Footprint) testenv.Footprint {
	s.t.Helper()
	most.Processes, most.Threads = 2, threads
	var now testenv.Footprint
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if now = s.footprint(); now.Within(most) {
			s.t.Logf("at rest: %v", now)
			return now
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("does not come to rest: %v, want %v", now, most)
		}
	}
}

func (s *scene) true() error {
	p, err := s.sb.Start(context.Background(), sandbox.Command{Args: []string{"/bin/true"}})
	if err != nil {
		return err
	}
	exit, err := p.Wait()
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("exit %+v", exit)
	}
	return err
}

// TestThousandConcurrent holds that many commands at the same time in one
// hardened container, each with its own input and output.
func TestThousandConcurrent(t *testing.T) {
	const commands = 1000
	s := newScene(t, "thousand", func(s *sandbox.Spec) {
		s.Resources.PIDs = 4096
		s.Resources.Memory, s.Resources.MemorySwap = 1<<30, 1<<30
	})
	must(t, s.true())
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	for i := range commands {
		ready.Add(1)
		done.Go(func() {
			in, feed := io.Pipe()
			var out bytes.Buffer
			p, err := s.sb.Start(context.Background(), sandbox.Command{Args: []string{"cat"}, Stdin: in, Stdout: &out})
			ready.Done()
			if err != nil {
				t.Error(i, err)
				return
			}
			<-release
			fmt.Fprint(feed, i)
			feed.Close()
			if exit, err := p.Wait(); err != nil || exit.Code != 0 || out.String() != fmt.Sprint(i) {
				t.Errorf("%d: exit %+v, error %v, output %q", i, exit, err, &out)
			}
		})
	}
	ready.Wait()
	now := s.footprint()
	t.Logf("running: %v", now)
	if now.Processes < 2*commands && !t.Failed() {
		t.Errorf("%d processes run %d commands", now.Processes, commands)
	}
	close(release)
	done.Wait()
	s.settled(testenv.Footprint{Descriptors: 100, Proportional: 12 << 20})
}

// TestTwentyThousandInContainer runs commands one after the other, and looks for
// what they could leave behind on both sides: so many with "make test-all", else
// a tenth, which is many times what the bounds allow to stay. More of them run
// against the same guest without a container.
func TestTwentyThousandInContainer(t *testing.T) {
	commands := testenv.Rounds(2_000, 2_000, 20_000)
	s := newScene(t, "many", nil)
	for range 1000 { // after which everything has its size
		must(t, s.true())
	}
	known := goleak.IgnoreCurrent()
	own := ownDescriptors(t)
	before := s.settled(testenv.Footprint{Descriptors: 100, Proportional: idleBound})
	begin := time.Now()
	for i := range commands {
		if err := s.true(); err != nil {
			t.Fatalf("command %d: %v", i, err)
		}
	}
	t.Logf("%d commands, %v each", commands, time.Since(begin)/time.Duration(commands))
	before.Proportional += growth
	s.settled(before)
	if now := ownDescriptors(t); now > own {
		t.Errorf("%d descriptors, there were %d", now, own)
	}
	testenv.None(t, known)
}

func ownDescriptors(t testing.TB) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(files)
}
