// Package proxy defines the interface between the code that runs commands and
// the egress proxy: plain data and small interfaces, so that programs that
// start commands do not link the proxy. Its implementation is egress.Server.
package proxy

import (
	"context"
	"net/netip"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// A Server opens the egress sessions of sandboxes. It is safe for concurrent
// use.
type Server interface {
	// Open opens an egress session through a listener that it opens inside.
	// ctx bounds the opening alone. Errors are *[sandbox.Error]; on error
	// nothing is left open.
	Open(ctx context.Context, inside sandbox.Listener, o Options) (Session, error)
}

// Options say which hosts one sandbox may reach, and for which tenant, agent
// and session.
type Options struct {
	Sandbox string
	Owner   sandbox.Owner
	Rules   sandbox.EgressRules
	Limits  config.NetworkLimits
	Secrets []config.BoundSecret
	CA      []byte   // certificates as PEM trusted for hosts of secrets, in addition to the system's roots
	Exposed []string // canonical host folders writable from some sandbox; no secret is read from there
	Require bool     // every connection has to be recorded before it passes
	Fixed   bool     // use the port of the rules or fail; never choose another one

	// Ask answers questions about hosts that no rule names. Permitted returns
	// an earlier approval that is still valid. If nil, both deny.
	Ask       func(context.Context, Question) Answer
	Permitted func(Question) (Answer, bool)

	// Resolve is called with the loopback addresses to which host names have
	// to resolve inside while a command uses the session. Open calls it at
	// most once. If it is nil, no name gets an address.
	Resolve func(names map[string][]netip.Addr)

	// Warn is called for deviations from the settings.
	Warn func(error, string)
}

// A Session is an egress session of one sandbox. It is safe for concurrent use.
type Session interface {
	// Command registers a command.
	Command(id string, o Command) Caller
	// Narrow applies rules in addition to those of the session, and ends the
	// connections that they do not allow. After an error the session has to be
	// closed.
	Narrow(rules sandbox.EgressRules) error
	// Traffic returns the bytes that have passed into and out of the sandbox so far,
	// also after Close.
	Traffic() (in, out int64)
	// Done returns a channel that is closed when the session has ended, by
	// Close or with its sandbox.
	Done() <-chan struct{}
	// Close ends the session, and returns when all its connections are closed.
	Close() error
}

// A Command is the attribution of a command in the record.
type Command struct {
	Tenant, Agent, Session string
	Program                string // started program; empty if Line is set
	Line                   string // the whole command
	// Span returns the span below which the command's connections are traced, or
	// nil. It is called for each connection; a nil function traces none.
	Span func() *sandbox.Span
}

// A Caller is a command that may use an egress session.
type Caller interface {
	// Env returns the variables that point the command's programs to the
	// proxy. The caller owns the map.
	Env() map[string]string
	// Refused returns the refusals of the command so far, oldest first,
	// limited to the last ones.
	Refused() []sandbox.Violation
	// Reached returns the hosts that the command was let through to so far, in the
	// order of their first connection, limited to the first ones.
	Reached() []Reached
	// Waited returns how long connections of the command were queued because
	// of limits.connections, or nil if none was.
	Waited() *sandbox.Waited
	// End unregisters the command, and returns its refusals as Refused does.
	// It may be called again.
	End() []sandbox.Violation
}

// Reached is a port of a host that a command was let through to. That a connection
// was allowed does not say that the host answered.
type Reached struct {
	Host        string `json:"host"` // canonical
	Port        uint16 `json:"port"`
	Connections int    `json:"connections"` // or requests that were read
	BytesIn     int64  `json:"bytesIn"`     // into the sandbox, of connections that have ended
	BytesOut    int64  `json:"bytesOut"`
}

// A Question is an approval request about a host. Its texts can be shown.
type Question struct {
	Caller string // id of the command; empty when it is not known
	Target string // host:port
	Reason string
}

// An Answer is the answer to a Question. Rule names what decided; Note is
// shown to the refused program.
type Answer struct {
	Allowed    bool
	Rule, Note string
}
