package client_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A pipeConn is the two ends of a relay.
type pipeConn struct {
	io.Reader
	io.WriteCloser
	stop func()
}

func (p pipeConn) Close() error {
	err := p.WriteCloser.Close()
	p.stop()
	return err
}

// relay starts a relay the way an engine does: from outside, into the
// namespaces of the guest.
func (g *guest) relay() io.ReadWriteCloser {
	g.t.Helper()
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		testenv.Lack(g.t, "nsenter", "it is not installed")
	}
	id := strconv.Itoa(guestUID)
	cmd := exec.Command(nsenter, "-t", strconv.Itoa(g.pid()), "-p", "-m", "-n", "-S", id, "-G", id, binary.path(g.t), "relay")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(g.t, err)
	out, err := cmd.StdoutPipe()
	must(g.t, err)
	must(g.t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	g.t.Cleanup(func() {
		_ = in.Close()
		select {
		case <-ended:
		case <-time.After(patience):
			g.t.Error("the relay does not end")
			_ = cmd.Process.Kill()
		}
	})
	return pipeConn{Reader: out, WriteCloser: in, stop: func() {}}
}

func TestRelay(t *testing.T) {
	g := startGuest(t)
	g.connect().Close() // it is up
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.New(ctx, g.relay(), client.Options{})
	must(t, err)
	if got := run(t, c, sh("echo through; exit 3")); got.stdout != "through\n" || got.exit.Code != 3 {
		t.Errorf("got %+v", got)
	}
	n := &countWriter{}
	run(t, c, sandbox.Command{Args: []string{"head", "-c", "104857600", "/dev/zero"}, Stdout: n})
	if n.n != 100<<20 {
		t.Errorf("%d bytes", n.n)
	}
	_, _ = start(t, context.Background(), c, sh("setsid sleep 1000 & sleep 0.05; echo ready; wait"))
	c.Close()
	eventually(t, 5*time.Second, "nothing but the relay is left", func() bool { return len(g.inside()) <= 1 })
}
