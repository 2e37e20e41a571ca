package docker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// The test program runs itself as a client that can be killed: childSpec
// holds the Spec to open, childState the state folder.
const (
	childSpec  = "SANDBOX_TEST_CHILD_SPEC"
	childState = "SANDBOX_TEST_CHILD_STATE"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(childSpec); spec != "" {
		fmt.Println("child:", runChild(spec, os.Getenv(childState)))
		os.Exit(1)
	}
	if spec := os.Getenv(childCreate); spec != "" {
		fmt.Println(runCreate(spec, os.Getenv(childState), os.Getenv(childStop)))
		return
	}
	testenv.AtOnce(4)
	os.Exit(m.Run())
}

// runChild starts the escapee and copies its output; it does not return
// before that ends.
func runChild(spec, state string) error {
	var s sandbox.Spec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	api, err := container.Dial()
	if err != nil {
		return err
	}
	st, err := statedir.Open(state)
	if err != nil {
		return err
	}
	ctx := context.Background()
	sb, err := docker.New(container.New(api, testenv.Patient()), docker.Options{Sockets: st}).Open(ctx, s)
	if err != nil {
		return err
	}
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", escapee}, Stdout: os.Stdout})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// TestOutlastClient kills the client's process, with everything that it has
// running inside: what it started goes with it, and nothing else does.
func TestOutlastClient(t *testing.T) {
	t.Parallel()
	overBoth(t, "client", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		other := w.Reopen(s)
		kept, _ := background(t, other, "sh", "-c", "echo ready; exec sleep 86500")
		spec, err := json.Marshal(s)
		must(t, err)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childSpec+"="+string(spec), childState+"="+w.State.Path())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		if strings.TrimSpace(line) != "ready" {
			_ = cmd.Process.Kill()
			t.Fatalf("the client says %q, %v", line, err)
		}
		// What the client started says ready before its last children have
		// become what they are.
		soon(t, 10*time.Second, "all of the client's processes run", func() bool {
			return len(insideOf(t, other.Info().PID)) >= 5
		})
		must(t, cmd.Process.Kill())
		begin := time.Now()
		_ = cmd.Wait()
		soon(t, 10*time.Second, "what the client started is gone", func() bool {
			left := insideOf(t, other.Info().PID)
			return len(left) == 1 && strings.Contains(fmt.Sprint(left), "86500")
		})
		t.Logf("gone %v after the kill", time.Since(begin).Round(time.Millisecond))
		if out, code := sh(t, other, "echo still here"); out != "still here" || code != 0 {
			t.Errorf("another session: %q, %d", out, code)
		}
		must(t, kept.Kill(context.Background()))
		emptied(t, other.Info().PID)
	})
}

// TestOutlastUnread has a command write 1 GB to a client that never reads.
func TestOutlastUnread(t *testing.T) {
	t.Parallel()
	overBoth(t, "unread", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		sb := w.Reopen(s)
		pid := sb.Info().PID
		sh(t, sb, "true")
		before, guestBefore := hostMemory(), residentOf(t, pid)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		never := &stuckWriter{called: make(chan struct{}), release: make(chan struct{})}
		defer close(never.release)
		p, err := sb.Start(ctx, sandbox.Command{Args: []string{"head", "-c", "1073741824", "/dev/zero"}, Stdout: never})
		must(t, err)
		<-never.called
		for range 100 {
			if out, _ := sh(t, sb, "echo alive"); out != "alive" {
				t.Fatalf("a command beside it: %q", out)
			}
		}
		outside, inside := hostMemory()-before, residentOf(t, pid)-guestBefore
		t.Logf("%d KiB more outside, %d KiB more in the guest", outside>>10, inside>>10)
		if outside > 8<<20 || inside > 8<<20 {
			t.Errorf("memory grew by %d bytes outside and %d in the guest", outside, inside)
		}
		soon(t, patience, "the producer alone is there, and waits", func() bool { return len(insideOf(t, pid)) == 1 })
		cancel()
		waited(t, p, 10*time.Second, "")
		emptied(t, pid)
	})
}

// stuckWriter never returns from its first Write until it is released.
type stuckWriter struct{ called, release chan struct{} }

func (w *stuckWriter) Write(p []byte) (int, error) {
	select {
	case <-w.called:
	default:
		close(w.called)
	}
	<-w.release
	return 0, io.ErrClosedPipe
}

// TestOutlastMuchOutput takes in thirty times what it may cost in memory.
// A gigabyte goes through the same client and guest without a container.
func TestOutlastMuchOutput(t *testing.T) {
	t.Parallel()
	overSocket(t, "giga", "much output that is read, through the relay of TestOutlastUnread", func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		sb := w.Reopen(s)
		pid := sb.Info().PID
		sh(t, sb, "true")
		before, guestBefore := hostMemory(), residentOf(t, pid)
		n := &counting{}
		begin := time.Now()
		p, err := sb.Start(context.Background(), sandbox.Command{Args: []string{"head", "-c", "250000000", "/dev/zero"}, Stdout: n})
		must(t, err)
		exit, err := p.Wait()
		took := time.Since(begin)
		if err != nil || exit.Code != 0 || n.n != 250e6 {
			t.Errorf("%d bytes, %+v, %v", n.n, exit, err)
		}
		outside, inside := hostMemory()-before, residentOf(t, pid)-guestBefore
		t.Logf("%.0f MB/s, %d KiB more outside, %d KiB more in the guest", 250/took.Seconds(), outside>>10, inside>>10)
		if outside > 8<<20 || inside > 8<<20 {
			t.Errorf("memory grew by %d bytes outside and %d in the guest", outside, inside)
		}
		emptied(t, pid)
	})
}

type counting struct{ n int64 }

func (c *counting) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }
