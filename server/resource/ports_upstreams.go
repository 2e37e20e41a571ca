// This file keeps connections to programs inside for further requests.

package resource

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

const (
	// upstreamsOne is how many idle connections to the ports of one sandbox are
	// kept, and upstreamsAll how many to all sandboxes together.
	upstreamsOne, upstreamsAll = 16, 512
	// upstreamIdle is how long a connection without a request is kept.
	upstreamIdle = 10 * time.Second
)

// An upstreamKey says which requests may follow each other on one connection:
// those of one caller to one port of one sandbox that runs.
type upstreamKey struct {
	sandbox string // of its provider; another one of the same name has another
	made    int64
	who     config.Who
	tool    string
	token   string // id; empty is a user of this machine
	port    int
}

// An upstream is a connection to a program inside. One request at a time uses it.
type upstream struct {
	of        *upstreams
	key       upstreamKey
	transport *http.Transport

	mu   sync.Mutex               // held while it is dialled
	next *upstreamConn            // for the transport to take
	dial func() (net.Conn, error) // for the request that uses it; nil while none does

	open *upstreamConn // nil where it has ended; guarded by upstreams.mu
}

// upstreams are the idle connections. They keep no sandbox in use: a connection
// ends with its sandbox, which the transport that waits for it notices. Their
// methods may be called concurrently.
type upstreams struct {
	mu   sync.Mutex
	idle map[string][]*upstream // by sandbox, that used last at the end
	n    int
}

// repeatable reports whether a request may share its connection with others: it
// has no body, whose end a program inside could find elsewhere than this server
// does, asks for no other protocol, and may be sent once more where the program
// has closed the connection meanwhile.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		return false
	}
	return r.ContentLength == 0 && len(r.TransferEncoding) == 0 && r.Header["Upgrade"] == nil && r.Header["Expect"] == nil
}

// start returns a connection for a request that has dialled conn.
func (x *upstreams) start(key upstreamKey, conn net.Conn) *upstream {
	u := &upstream{of: x, key: key}
	u.next = x.opened(u, conn)
	u.transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: upstreamIdle, DialContext: u.connect}
	return u
}

// take returns an idle connection, or nil.
func (x *upstreams) take(key upstreamKey) *upstream {
	x.mu.Lock()
	defer x.mu.Unlock()
	of := x.idle[key.sandbox]
	for i := len(of) - 1; i >= 0; i-- {
		if u := of[i]; u.key == key {
			x.without(u, i)
			return u
		}
	}
	return nil
}

// without removes the idle connection i of its sandbox. The caller holds mu.
func (x *upstreams) without(u *upstream, i int) {
	of := x.idle[u.key.sandbox]
	copy(of[i:], of[i+1:])
	of[len(of)-1] = nil
	if x.n--; len(of) == 1 {
		delete(x.idle, u.key.sandbox)
		return
	}
	x.idle[u.key.sandbox] = of[:len(of)-1]
}

// put keeps a connection whose request is over. One that has ended, or for which
// there is no room, is closed.
func (x *upstreams) put(u *upstream) {
	x.mu.Lock()
	keep := u.open != nil && x.n < upstreamsAll && len(x.idle[u.key.sandbox]) < upstreamsOne
	if keep {
		if x.idle == nil {
			x.idle = map[string][]*upstream{}
		}
		x.idle[u.key.sandbox] = append(x.idle[u.key.sandbox], u)
		x.n++
	}
	x.mu.Unlock()
	if !keep {
		u.transport.CloseIdleConnections()
	}
}

// opened returns conn as the connection of u.
func (x *upstreams) opened(u *upstream, conn net.Conn) *upstreamConn {
	c := &upstreamConn{Conn: conn, u: u}
	x.mu.Lock()
	defer x.mu.Unlock()
	u.open = c
	return c
}

// closed forgets a connection that is closed.
func (x *upstreams) closed(c *upstreamConn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c.u.open != c {
		return
	}
	c.u.open = nil
	for i, one := range x.idle[c.u.key.sandbox] {
		if one == c.u {
			x.without(one, i)
			return
		}
	}
}

// connect is called by the transport: with the first request, and where the
// program inside has closed the connection before it could answer.
func (u *upstream) connect(context.Context, string, string) (net.Conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.next; c != nil {
		u.next = nil
		return c, nil
	}
	if u.dial == nil {
		return nil, errors.New("the request is over")
	}
	c, err := u.dial()
	if err != nil {
		return nil, err
	}
	return u.of.opened(u, c), nil
}

// begin gives the connection to a request, which may dial anew with sb until end
// is called.
func (u *upstream) begin(ctx context.Context, sb sandbox.Sandbox, port int) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	u.mu.Lock()
	u.dial = func() (net.Conn, error) { return manager.DialPortOf(ctx, sb, port) }
	u.mu.Unlock()
	return func() {
		cancel() // first, so that it waits for no program that accepts nothing
		u.mu.Lock()
		defer u.mu.Unlock()
		u.dial = nil
		if u.next != nil { // the request has ended before it could be sent
			_ = u.next.Close()
			u.next = nil
		}
	}
}

// An upstreamConn is a connection of which its upstream learns that it is closed.
type upstreamConn struct {
	net.Conn
	u *upstream
}

// Close implements [net.Conn].
func (c *upstreamConn) Close() error {
	c.u.of.closed(c)
	return c.Conn.Close()
}
