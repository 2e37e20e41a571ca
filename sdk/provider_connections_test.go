package sdk_test

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/sdk"
	serverremote "github.com/bulkhead-dev/sandbox/server/remote"
)

// A room is an open sandbox in which can be dialled and listened.
type room struct {
	*yard
	sandbox.Sandbox
	sandbox.Dialer
	sandbox.Listener
}

// room makes a sandbox and opens it.
func (y *yard) room(p *sdk.Provider, key string) room {
	y.Helper()
	s := faked.Spec(key)
	_, err := p.Create(y.Context(), s)
	must(y, err)
	sb, err := p.Open(y.Context(), s)
	must(y, err)
	y.Cleanup(func() { sb.Close() })
	return room{y, sb, sb.(sandbox.Dialer), sb.(sandbox.Listener)}
}

func (r room) listen() net.Listener {
	r.Helper()
	l, err := r.Listen(r.Context(), "tcp", "127.0.0.1:0")
	must(r, err)
	r.Cleanup(func() { l.Close() })
	return l
}

// TestListenersAreBounded holds that one sandbox has so many listeners, which
// are counted while they are there.
func TestListenersAreBounded(t *testing.T) {
	y := newYard(t)
	one := y.room(y.remote, "a")
	var all []net.Listener
	for range 64 {
		all = append(all, one.listen())
	}
	_, err := one.Listen(t.Context(), "tcp", "127.0.0.1:0")
	y.code("one more", err, sandbox.CodeBudgetExceeded)
	y.room(y.remote, "b").listen() // another sandbox has its own
	must(t, all[0].Close())
	testenv.Success(t, func() error { // until the place of one that has ended is given back
		l, err := one.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			y.code("when one has ended", err, sandbox.CodeBudgetExceeded)
			return err
		}
		return l.Close()
	})
}

// TestConnectionsAreBounded holds that one sandbox, one caller and all together
// have so many connections, dialled and accepted ones alike, and that who has
// too many takes nothing from others.
func TestConnectionsAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		bounds serverremote.Connections
		free   func(y *yard) room // who is not bound by what the first has
	}{
		"of a sandbox": {serverremote.Connections{Handle: 4}, func(y *yard) room { return y.room(y.as("one"), "b") }},
		"of a caller":  {serverremote.Connections{Caller: 4}, func(y *yard) room { return y.room(y.as("two"), "b") }},
		"in all":       {serverremote.Connections{All: 4}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, func(o *serverremote.Options) {
				o.Connections = tt.bounds
				o.Caller = func(r *http.Request) string { return r.Header.Get("Sandbox-Agent") }
			})
			r := y.room(y.as("one"), "a")
			l := r.listen()
			accepted := make(chan net.Conn, 8)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					accepted <- c
				}
			}()
			inner, err := y.inner.Open(t.Context(), faked.Spec("a")) // programs inside are bounded by nobody
			must(t, err)
			defer inner.Close()
			connect := func(d sandbox.Dialer) (net.Conn, error) {
				return d.Dial(t.Context(), "tcp", l.Addr().String())
			}
			dialled, err := connect(r) // and its other end, which is two
			must(t, err)
			first := <-accepted
			for range 2 {
				_, err := connect(inner.(sandbox.Dialer))
				must(t, err)
				<-accepted
			}
			_, err = connect(r)
			y.code("one more", err, sandbox.CodeBudgetExceeded)
			late, err := connect(inner.(sandbox.Dialer))
			must(t, err)
			if tt.free != nil {
				other := tt.free(y)
				at := other.listen()
				c, err := other.Dial(t.Context(), "tcp", at.Addr().String())
				must(t, err)
				far, err := at.Accept()
				must(t, err)
				go io.WriteString(c, "free") // a failure shows in what comes
				got := make([]byte, 4)
				if _, err := io.ReadFull(far, got); err != nil || string(got) != "free" {
					t.Errorf("%q, %v", got, err)
				}
			}
			select {
			case <-accepted:
				t.Error("there are more than there may be")
			default:
			}
			must(t, first.Close())
			must(t, dialled.Close())
			c := <-accepted
			go io.WriteString(late, "late") // a failure shows in what comes
			got := make([]byte, 4)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "late" {
				t.Errorf("its turn: %q, %v", got, err)
			}
		})
	}
}
