package client_test

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A traitor is a guest that was taken over, with its end of the channel for
// descriptors.
type traitor struct {
	t    testing.TB
	side *os.File
}

// hands sends a packet with descriptors.
func (g traitor) hands(packet string, fds ...int) {
	raw, err := g.side.SyscallConn()
	must(g.t, err)
	must(g.t, raw.Write(func(fd uintptr) bool {
		_, err = unix.SendmsgN(int(fd), []byte(packet), unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		return err != unix.EAGAIN
	}))
	must(g.t, err)
}

// betrayed returns a client of a traitor that does something when it is asked
// for a shell, and then says that the shell is open.
func betrayed(t testing.TB, do func(g traitor)) *client.Client {
	t.Helper()
	ours, theirs := socketPair(t, unix.SOCK_STREAM)
	side, theirSide := socketPair(t, unix.SOCK_SEQPACKET)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		defer theirSide.Close()
		r, w := wire.NewReader(theirs, wire.MaxRequest), wire.NewWriter(theirs)
		if _, err := r.Next(); err != nil {
			return
		}
		hello := wire.Hello{Version: wire.Version, Features: []string{wire.FeatureShell, wire.FeatureKeptShell}}
		_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: hello.Encode()})
		if _, err := r.Next(); err != nil {
			return
		}
		do(traitor{t, theirSide})
		_ = w.Write(wire.Frame{Type: wire.TypeOpened, Stream: 1, Payload: wire.ShellOpened{Program: "bash"}.Encode()})
		for {
			if f, err := r.Next(); err != nil || f.Type == wire.TypeBye {
				return
			}
		}
	}()
	c, err := client.New(context.Background(), ours, client.Options{Descriptors: side})
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c
}

// statePacket is a packet about three files for the first ticket.
const statePacket = "BKFD\x01\x03\x00\x00\x01\x00\x00\x00"

// memory returns a file in memory with content.
func memory(t testing.TB, content string) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	_, err = unix.Pwrite(fd, []byte(content), 0)
	must(t, err)
	return fd
}

// TestTraitorHandsOver holds that nothing that a guest sends beside the
// connection is taken, but three small files in memory that were asked for;
// that anything else ends the connection; and that nothing of it stays open.
func TestTraitorHandsOver(t *testing.T) {
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	folder, err := unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(folder)
	m, large := memory(t, ""), memory(t, "")
	must(t, unix.Ftruncate(large, 1<<40))
	many := make([]int, 253)
	for i := range many {
		many[i] = m
	}
	for name, do := range map[string]func(g traitor){
		"garbage":                 func(g traitor) { g.hands("garbage") },
		"garbage with files":      func(g traitor) { g.hands("garbage", m, m, m) },
		"an endless packet":       func(g traitor) { g.hands(strings.Repeat("x", 100_000), m) },
		"a ticket of nobody":      func(g traitor) { g.hands("BKFD\x01\x03\x00\x00\x02\x00\x00\x00", m, m, m) },
		"a ticket twice":          func(g traitor) { g.hands(statePacket, m, m, m); g.hands(statePacket, m, m, m) },
		"what only we may send":   func(g traitor) { g.hands("BKFD\x02\x03\x00\x00\x01\x00\x00\x00", m, m, m) },
		"one file":                func(g traitor) { g.hands("BKFD\x01\x01\x00\x00\x01\x00\x00\x00", m) },
		"four files":              func(g traitor) { g.hands("BKFD\x01\x04\x00\x00\x01\x00\x00\x00", m, m, m, m) },
		"more files than it says": func(g traitor) { g.hands(statePacket, m, m, m, m) },
		"as many as there can be": func(g traitor) { g.hands(statePacket, many...) },
		"pipes":                   func(g traitor) { g.hands(statePacket, pipe[0], pipe[1], pipe[0]) },
		"a pipe at the end":       func(g traitor) { g.hands(statePacket, m, m, pipe[0]) },
		"a folder":                func(g traitor) { g.hands(statePacket, folder, m, m) },
		"the channel itself":      func(g traitor) { fd := int(g.side.Fd()); g.hands(statePacket, m, fd, m) },
		"a huge file":             func(g traitor) { g.hands(statePacket, m, large, m) },
		"nothing, and it closes":  func(g traitor) { g.side.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			before := descriptors(t, os.Getpid())
			c := betrayed(t, do)
			s, err := c.OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
			if err == nil { // what is wrong comes after what was right
				<-c.Done()
				err = c.Err()
				must(t, s.Close())
			}
			codeIs(t, err, sandbox.CodeUnavailable)
			if !strings.Contains(err.Error(), "protocol") {
				t.Errorf("got %v", err)
			}
			c.Close()
			eventually(t, 10*time.Second, "nothing stays open", func() bool { return descriptors(t, os.Getpid()) <= before })
		})
	}
}

// TestTraitorHandsNothing checks that no call waits for ever for a guest that
// hands nothing over.
func TestTraitorHandsNothing(t *testing.T) {
	long(t)
	t.Parallel()
	c := betrayed(t, func(traitor) {})
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := c.OpenShell(ctx, sandbox.ShellOptions{}, sandbox.Limits{})
	codeIs(t, err, sandbox.CodeTimeout)
	_, err = betrayed(t, func(traitor) {}).OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
	codeIs(t, err, sandbox.CodeUnavailable)
}

// TestTraitorLies holds that a state that is none is an error, while the
// guest lives and when it is gone, and that it costs no more than it may.
func TestTraitorLies(t *testing.T) {
	record := func(r wire.Record) string {
		b, at := r.Encode()
		return strings.Repeat("\x00", int(at)) + string(b[:])
	}
	over := ^uint32(0)
	lie := wire.Record{Serial: 1, Over: over, Size: 3, Sum: wire.Sum(0, []byte("yes"))}
	third, huge := lie, lie
	third.File, huge.Size = 7, 1<<31
	for name, tt := range map[string]struct{ index, content string }{
		"no index":               {"", "yes"},
		"garbage":                {strings.Repeat("BKSS", 100), "yes"},
		"other content":          {record(lie), "no!"},
		"less content":           {record(lie), "y"},
		"a third file":           {record(third), "yes"},
		"two thousand megabytes": {record(huge), "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			c := betrayed(t, func(g traitor) {
				g.hands(statePacket, memory(t, tt.index), memory(t, tt.content), memory(t, tt.content))
			})
			s, err := c.OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
			must(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			if state, err := s.(client.StateKeeper).State(ctx); err == nil {
				t.Errorf("of a guest that lives: %+v", state)
			}
			c.Close()
			_, err = s.(client.StateKeeper).State(context.Background())
			codeIs(t, err, sandbox.CodeUnavailable)
			must(t, s.Close())
		})
	}
	t.Run("grows when it is taken", func(t *testing.T) {
		grows := memory(t, "yes")
		c := betrayed(t, func(g traitor) { g.hands(statePacket, memory(t, record(lie)), grows, memory(t, "")) })
		s, err := c.OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
		must(t, err)
		must(t, unix.Fallocate(grows, 0, 0, 64<<20))
		state := stateNow(t, s.(client.StateKeeper))
		if state.Size() != 3 {
			t.Errorf("%d bytes", state.Size())
		}
		unix.Ftruncate(grows, 0) // ours is a copy by now
		c.Close()
		eventually(t, 10*time.Second, "the files are closed", func() bool { return memoryFiles(t, syscall.Getpid()) < 1<<20 })
		must(t, s.Close())
	})
}
