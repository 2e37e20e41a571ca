package client_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A rawSandbox is a real guest behind both of its sockets, without a client.
type rawSandbox struct {
	traitor // sends descriptors as one does
	*guest
	conn   *os.File
	r      *wire.Reader
	w      *wire.Writer
	stream uint32
}

func startRawSandbox(t testing.TB) *rawSandbox {
	t.Helper()
	conn, theirs := socketPair(t, unix.SOCK_STREAM)
	side, theirSide := socketPair(t, unix.SOCK_SEQPACKET)
	g := startGuest(t, withArg("--fd=3"), withArg("--fds=4"), func(c *exec.Cmd) { c.ExtraFiles = []*os.File{theirs, theirSide} })
	theirs.Close()
	theirSide.Close()
	t.Cleanup(func() {
		conn.Close()
		side.Close()
	})
	w := &rawSandbox{traitor: traitor{t, side}, guest: g, conn: conn, r: wire.NewReader(conn, wire.MaxData), w: wire.NewWriter(conn)}
	must(t, conn.SetReadDeadline(time.Now().Add(2*time.Minute))) // some requests wait for seconds
	must(t, w.w.Write(wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: 1, Max: 1}.Encode()}))
	f, err := w.r.Next()
	must(t, err)
	hello, err := wire.DecodeHello(f.Payload)
	must(t, err)
	if !hello.Has(wire.FeatureKeptShell) {
		t.Fatalf("the guest has %v", hello.Features)
	}
	return w
}

// asks sends a request and returns the type of the answer, and the kind of
// the failure if it is one.
func (w *rawSandbox) asks(ty wire.Type, payload []byte) (wire.Type, wire.Kind) {
	t := w.traitor.t
	t.Helper()
	w.stream++
	must(t, w.w.Write(wire.Frame{Type: ty, Stream: w.stream, Payload: payload}))
	for {
		f, err := w.r.Next()
		must(t, err)
		if f.Type == wire.TypeGoAway {
			t.Fatalf("the guest goes away: %q", f.Payload)
		}
		if f.Stream != w.stream {
			continue
		}
		m, err := wire.DecodeFailed(f.Payload)
		if f.Type != wire.TypeFailed || err != nil {
			return f.Type, 0
		}
		return f.Type, m.Kind
	}
}

func (w *rawSandbox) wants(what string, ty wire.Type, payload []byte, want wire.Type, kind wire.Kind) {
	w.traitor.t.Helper()
	if got, k := w.asks(ty, payload); got != want || k != kind {
		w.traitor.t.Errorf("%s: answered with %#x, kind %d", what, got, k)
	}
}

func restore(ticket byte) string {
	return "BKFD\x02\x01\x00\x00" + string([]byte{ticket}) + "\x00\x00\x00"
}

// kept asks for a shell from the state with that ticket.
func kept(ticket uint32) []byte { return wire.KeptShell{Ticket: ticket, From: "bash"}.Encode() }

// TestKeptShellOfNothing checks that a request for a state that is not handed
// over fails.
func TestKeptShellOfNothing(t *testing.T) {
	long(t)
	t.Parallel() // it waits for most of its time
	startRawSandbox(t).wants("nothing was handed over", wire.TypeKeptShell, kept(1), wire.TypeFailed, wire.KindInvalid)
}

// TestKeptShellRequests holds what the guest makes of requests for shells
// without what they need, and that it lives on.
func TestKeptShellRequests(t *testing.T) {
	long(t)
	t.Parallel() // it waits for most of its time
	w := startRawSandbox(t)
	from := kept
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	w.hands(restore(2), pipe[0])
	w.wants("a pipe", wire.TypeKeptShell, from(2), wire.TypeFailed, wire.KindInvalid)
	large := memory(t, "")
	must(t, unix.Ftruncate(large, 16<<20+1))
	w.hands(restore(3), large)
	w.wants("too much", wire.TypeKeptShell, from(3), wire.TypeFailed, wire.KindInvalid)
	w.hands(restore(4), memory(t, "exit 3"))
	w.wants("a state that ends the shell", wire.TypeKeptShell, from(4), wire.TypeFailed, wire.KindInternal)
	w.hands(restore(5), memory(t, ""))
	w.wants("a state of nothing", wire.TypeKeptShell, from(5), wire.TypeOpened, 0)
	shell := w.stream
	line := wire.Line{Shell: shell, Flags: wire.FlagNoStdin | wire.FlagNoStdout | wire.FlagNoStderr, Text: ":"}.Encode()
	w.wants("its first line", wire.TypeLine, line, wire.TypeFailed, wire.KindInternal)
	w.wants("its second line", wire.TypeLine, line, wire.TypeStarted, 0)
	for i := range 30 {
		w.hands(restore(byte(60+i)), memory(t, ""))
	}
	// The guest reads its two sockets at the same time: that it has come to
	// the last state tells that those before it have pushed out the first.
	w.wants("what came last", wire.TypeKeptShell, from(89), wire.TypeOpened, 0)
	w.wants("what has waited for too long", wire.TypeKeptShell, from(61), wire.TypeFailed, wire.KindInvalid)
	w.side.Close()
	w.wants("nowhere to hand the state to", wire.TypeKeptShell, wire.KeptShell{Ticket: 100}.Encode(), wire.TypeFailed, wire.KindResource)
	w.wants("nothing can come any more", wire.TypeKeptShell, from(201), wire.TypeFailed, wire.KindInvalid)
	w.wants("a shell that is not kept", wire.TypeShell, wire.Shell{}.Encode(), wire.TypeOpened, 0)
}

// TestKeptShellWithoutSide is the same for a guest without the channel.
func TestKeptShellWithoutSide(t *testing.T) {
	g := startGuest(t)
	conn := g.connect()
	defer conn.Close()
	r, w := wire.NewReader(conn, wire.MaxData), wire.NewWriter(conn)
	must(t, w.Write(wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: 1, Max: 1}.Encode()}))
	f, err := r.Next()
	must(t, err)
	if hello, err := wire.DecodeHello(f.Payload); err != nil || hello.Has(wire.FeatureKeptShell) {
		t.Errorf("got %v, %v", hello.Features, err)
	}
	must(t, w.Write(wire.Frame{Type: wire.TypeKeptShell, Stream: 1, Payload: wire.KeptShell{Ticket: 1}.Encode()}))
	f, err = r.Next()
	must(t, err)
	if m, err := wire.DecodeFailed(f.Payload); f.Type != wire.TypeFailed || err != nil || m.Kind != wire.KindUnsupported {
		t.Errorf("got %#x, %+v", f.Type, m)
	}
}

// TestGarbageBesideGuest holds that a guest whose channel is not spoken as it
// should ends the connection, and says why.
func TestGarbageBesideGuest(t *testing.T) {
	m := memory(t, "")
	for name, packets := range map[string][]string{
		"garbage":        {"garbage"},
		"a state":        {"BKFD\x01\x01\x00\x00\x01\x00\x00\x00"},
		"a ticket twice": {restore(1), restore(1)},
		"two files":      {"BKFD\x02\x02\x00\x00\x01\x00\x00\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			w := startRawSandbox(t)
			for _, p := range packets {
				w.hands(p, m)
			}
			f, err := w.r.Next()
			if err != nil || f.Type != wire.TypeGoAway {
				t.Fatalf("got %#x, %v", f.Type, err)
			}
			if _, err := w.r.Next(); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("then %v", err)
			}
			must(t, w.cmd.Wait()) // its connection was all it lived for
		})
	}
}
