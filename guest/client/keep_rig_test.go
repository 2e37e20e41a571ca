package client_test

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"golang.org/x/sys/unix"
)

// socketPair returns both ends of a new pair of Unix sockets. The first one is
// polled. Both stay open until the end of the test, unless it closes them: the
// finalizer of an unreferenced file would close it while the test still uses
// its number.
func socketPair(t testing.TB, kind int) (ours, theirs *os.File) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.SetNonblock(pair[0], true)) // before NewFile, which looks
	ours, theirs = os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
	})
	return ours, theirs
}

// A fallible is a guest that was born with its connection and with the channel
// for descriptors, as the first process of namespaces.
type fallible struct {
	*guest
	c *client.Client
}

// startSandbox starts a guest as a provider without an engine does.
func startSandbox(t testing.TB, o client.Options) fallible {
	t.Helper()
	conn, theirs := socketPair(t, unix.SOCK_STREAM)
	side, theirSide := socketPair(t, unix.SOCK_SEQPACKET)
	g := startGuest(t, withArg("--fd=3"), withArg("--fds=4"), func(c *exec.Cmd) { c.ExtraFiles = []*os.File{theirs, theirSide} })
	theirs.Close()
	theirSide.Close()
	o.Descriptors = side
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.New(ctx, conn, o)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return fallible{g, c}
}

// fall kills the guest and waits until it is gone and the client has noticed.
func (w fallible) fall() {
	w.t.Helper()
	must(w.t, w.cmd.Process.Signal(syscall.SIGKILL))
	<-w.c.Done()
	_ = w.cmd.Wait()
}

// keptShell opens a shell in w, from the state in from unless that is nil.
func keptShell(t testing.TB, w fallible, o sandbox.ShellOptions, from *client.ShellState) client.StateKeeper {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if from != nil {
		s, err := w.c.OpenShellFrom(ctx, o, sandbox.Limits{}, from)
		must(t, err)
		return s
	}
	s, err := w.c.OpenShell(ctx, o, sandbox.Limits{})
	must(t, err)
	return s.(client.StateKeeper)
}

// stateNow returns the state of a shell.
func stateNow(t testing.TB, s client.StateKeeper) *client.ShellState {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	state, err := s.State(ctx)
	must(t, err)
	return state
}
