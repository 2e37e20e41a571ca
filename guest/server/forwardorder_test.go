//go:build linux

package server

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A said keeps what a guest writes to its client.
type said struct {
	mu sync.Mutex
	b  []byte
}

// Write implements io.Writer.
func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b = append(s.b, b...)
	return len(b), nil
}

// types returns the types of the frames until now.
func (s *said) types(t testing.TB) (types []wire.Type) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, n := wire.NewReader(bytes.NewReader(s.b), wire.MaxRequest), 0; n < len(s.b); {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		types, n = append(types, f.Type), n+wire.HeaderLen+len(f.Payload)
	}
	return types
}

// TestAcceptedIsReportedAtOnce checks that Accepted has been sent when the listener
// goes on, so that the client receives none after the listener's end: it could
// not distinguish that from a forgery.
func TestAcceptedIsReportedAtOnce(t *testing.T) {
	for range 50 {
		c, s := testConn(), &said{}
		c.w = wire.NewWriter(s)
		g := &gateway{conn: c, id: 1, path: "/s", slots: make(chan struct{}, 1), shut: make(chan struct{})}
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !g.reserve() || !g.admit(fds[0], wire.Endpoint{Family: wire.FamilyUnix}) {
			t.Fatal("the connection is not carried")
		}
		reported := s.types(t)
		unix.Close(fds[1])
		c.disconnect()
		c.wg.Wait()
		if len(reported) != 1 || reported[0] != wire.TypeAccepted {
			t.Fatalf("the client was told %#x", reported)
		}
	}
}

// TestBrokenLinkTakesWhatIsUnderWay breaks connections inside while bytes for
// them come: those that were sent before the client knew are no violation.
func TestBrokenLinkTakesWhatIsUnderWay(t *testing.T) {
	data := wire.Frame{Type: wire.TypeData, Flags: wire.Inward, Payload: []byte("x")}
	for range 2000 {
		ours, theirs := socketPair(t)
		l := newLink(testConn())
		l.file = ours
		begun, dropped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(dropped)
			<-begun
			l.drop()
		}()
		close(begun)
		granted := wire.ConnWindow // to the client, which sends no more than that
		for over := false; !over; {
			select {
			case <-dropped:
				over = true
			default:
			}
			if granted == 0 {
				runtime.Gosched()
				continue
			}
			if granted--; l.event(data) != nil {
				t.Fatal("bytes that were under way are a violation")
			}
			granted += int(l.inbox.Consumed(len(data.Payload)))
		}
		ours.Close()
		theirs.Close()
	}
}
