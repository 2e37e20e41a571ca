package client_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// TestProcessesAreCountedBySandbox fills two sandboxes of one user: neither has
// less room because of the other.
func TestProcessesAreCountedBySandbox(t *testing.T) {
	p := observing()
	p.config.Processes = 64
	var made []int
	for range 2 {
		w := p.start(t)
		in, hold := io.Pipe()
		defer hold.Close()
		out := &firstLine{full: make(chan struct{})}
		cmd := probe("crowd", "200")
		cmd.Stdin, cmd.Stdout = in, out
		callers, err := w.Start(t.Context(), cmd)
		must(t, err)
		select {
		case <-out.full:
		case <-time.After(patience):
			t.Fatal("the crowd does not tell its size")
		}
		made = append(made, int(findings(t, out.buf.String())["made"]))
		defer callers.Kill(context.Background()) // and until then it counts
	}
	t.Logf("the sandboxes took %v processes", made)
	// The rest of the 64 are threads: the guest's, and those of the probe.
	if made[0] < 8 || made[0] > 56 || made[1] < made[0]-8 {
		t.Errorf("the sandboxes took %v processes", made)
	}
}

// TestFullSandboxLives has commands use up all processes while others make calls
// that are observed. The guest is counted too, and must not need another thread.
func TestFullSandboxLives(t *testing.T) {
	long(t)
	p := observing()
	p.config.Processes = 100
	w := p.start(t)
	var all []sandbox.Process
	for range 4 {
		cmd := probe("endless")
		ready := make(chan struct{})
		cmd.Stdout = &onFirstWrite{done: ready}
		busy, err := w.Start(t.Context(), cmd)
		must(t, err)
		<-ready
		all = append(all, busy)
	}
	out := &firstLine{full: make(chan struct{})}
	in, hold := io.Pipe()
	defer hold.Close()
	cmd := probe("crowd", "200")
	cmd.Stdin, cmd.Stdout = in, out
	callers, err := w.Start(t.Context(), cmd)
	must(t, err)
	select {
	case <-out.full:
	case <-time.After(patience):
		t.Fatal("the crowd does not tell its size")
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		must(t, w.Ping(t.Context()))
		if p, err := w.Start(t.Context(), sh("echo x > /usr/x")); err == nil {
			_, _ = p.Wait() // it may not have got what it needs
		}
	}
	for _, p := range append(all, callers) {
		must(t, p.Kill(t.Context()))
	}
	if attempts, r := observed(t, w, sh("echo x > /usr/after")); len(attempts) != 1 {
		t.Errorf("afterwards: %+v, %+v", attempts, r)
	}
}

// A firstLine is a writer that says when it has a whole line.
type firstLine struct {
	buf  bytes.Buffer
	full chan struct{}
}

func (l *firstLine) Write(b []byte) (int, error) {
	if had := bytes.IndexByte(l.buf.Bytes(), '\n') >= 0; !had && bytes.IndexByte(b, '\n') >= 0 {
		defer close(l.full)
	}
	return l.buf.Write(b)
}

// TestGuestRefusesConfiguration holds that a guest which cannot do what it is
// to do does not start.
func TestGuestRefusesConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		config []byte
		want   string
	}{
		{"malformed", nil, []byte("{}"), "malformed configuration"},
		{"none", nil, nil, "malformed configuration"},
		{"later version", nil, append([]byte{9}, wire.Config{}.Encode()[1:]...), "malformed configuration"},
		{"too few processes", nil, wire.Config{Processes: 5}.Encode(), "processes is below the least one"},
		{"filter that is none", nil, wire.Config{Filter: make([]byte, 8)}.Encode(), "could not set the filter"},
		{"observer without its filter", nil, wire.Config{Filter: make([]byte, 8), Observe: true}.Encode(), "not the one for this observer"},
		{"descriptor of standard error", []string{"--config=2"}, nil, "below 3"},
		{"descriptor that is not there", []string{"--config=77"}, nil, "bad file descriptor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var said bytes.Buffer
			code, conn := rawGuest(t, tt.args, tt.config, &said)
			if status := code(); status != 1 || !strings.Contains(said.String(), tt.want) {
				t.Errorf("exit %d, %q", status, said.String())
			}
			conn.Close()
		})
	}
}

// TestGuestWithoutLandlock holds that a kernel without it is not good enough
// for a sandbox that is to have it, and good enough for one that is not.
func TestGuestWithoutLandlock(t *testing.T) {
	for name, held := range map[string]bool{"asked for": true, "not asked for": false} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			code, conn := rawGuest(t, nil, wire.Config{Landlock: held}.Encode(), &said, denyEnv+"=landlock")
			c, err := client.New(t.Context(), conn, client.Options{})
			if err == nil {
				c.Close()
			}
			if status := code(); (err != nil) != held || (status == 1) != held || strings.Contains(said.String(), "no Landlock of version 2") != held {
				t.Errorf("%v, exit %d, %q", err, status, said.String())
			}
		})
	}
}

// TestHostileAttempts holds that a guest which was taken over can make
// neither memory nor trouble of what it tells.
func TestHostileAttempts(t *testing.T) {
	hint := func(stream uint32, m wire.Attempt) wire.Frame {
		return wire.Frame{Type: wire.TypeAttempt, Stream: stream, Payload: m.Encode()}
	}
	path := "/" + strings.Repeat("x", 4000)
	c := connectTo(t, func(s func(wire.Frame)) {
		s(wire.Frame{Type: wire.TypeStarted, Stream: 1, Payload: wire.Started{PID: 1}.Encode()})
		s(hint(0, wire.Attempt{Path: "/connection"}))
		s(hint(7, wire.Attempt{Path: "/stranger"}))
		s(wire.Frame{Type: 0x9f, Stream: 1, Payload: []byte("a hint of tomorrow")})
		for i := range 1000 {
			m := wire.Attempt{PID: 1<<32 - 1, Path: path[:len(path)-i%500], Program: "\x1b[2J"}
			s(hint(1, m))
			s(hint(1, m))
		}
		s(wire.Frame{Type: wire.TypeExit, Stream: 1, Payload: wire.Exit{}.Encode()})
	})
	p, err := c.Start(t.Context(), sandbox.Command{Args: []string{"x"}})
	must(t, err)
	_, err = p.Wait()
	must(t, err)
	got := pathsOf(p)
	if len(got) != wire.MaxAttempts || len(slices.Compact(got)) != wire.MaxAttempts {
		t.Errorf("%d attempts", len(got))
	}

	c = connectTo(t, func(s func(wire.Frame)) {
		s(wire.Frame{Type: wire.TypeStarted, Stream: 1, Payload: wire.Started{PID: 1}.Encode()})
		s(hint(1, wire.Attempt{Path: "relative"}))
	})
	if p, err := c.Start(t.Context(), sandbox.Command{Args: []string{"x"}}); err == nil {
		_, err = p.Wait()
		codeIs(t, err, sandbox.CodeUnavailable)
	}
}

// rawGuest starts a guest in namespaces, with a connection and a
// configuration of its own. code waits for its end.
func rawGuest(t *testing.T, args []string, config []byte, said io.Writer, env ...string) (code func() int, conn net.Conn) {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Lack(t, "root", "namespaces need it")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	if args == nil {
		args = []string{"--config=4"}
	}
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append([]string{shimEnv + "=" + binary.path(t) + " init --fd=3 " + strings.Join(args, " ")}, env...)
	cmd.Dir, cmd.Stderr = "/", said
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC, Pdeathsig: syscall.SIGKILL,
	}
	guests := os.NewFile(uintptr(pair[1]), "guest")
	cmd.ExtraFiles = []*os.File{guests, inMemory(t, config)}
	must(t, cmd.Start())
	guests.Close()
	ours := os.NewFile(uintptr(pair[0]), "client")
	defer ours.Close()
	conn, err = net.FileConn(ours)
	must(t, err)
	return func() int {
		stuck := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer stuck.Stop()
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}, conn
}
