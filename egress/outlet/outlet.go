// Package outlet is the words between who runs commands and who lets them reach
// hosts: plain data and small interfaces, so that what starts a command links
// no proxy. Package egress/serve is the outlet that there is.
package outlet

import (
	"context"
	"net/netip"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// An Outlet opens the ways out of sandboxes. It is safe for concurrent use.
type Outlet interface {
	// Open opens a way out through a listener that it opens inside. ctx bounds
	// the opening alone. Errors are *[sandbox.Error]; nothing is left open then.
	Open(ctx context.Context, inside sandbox.Listener, o Options) (Way, error)
}

// Options say what one sandbox may reach, and on whose behalf.
type Options struct {
	Sandbox string
	Owner   sandbox.Owner
	Rules   sandbox.EgressRules
	Limits  config.NetworkLimits
	Secrets []config.BoundSecret
	CA      []byte   // certificates as PEM that hosts of secrets may have, beside the system's roots
	Exposed []string // canonical folders of the host that code in some sandbox can write; no secret comes from there
	Require bool     // nothing passes that is not on record
	Fixed   bool     // the port of the rules or none: nobody looks for another one

	// Ask answers questions about hosts that no rule names, and Permitted what
	// was said yes to before and still holds. Nil answers no.
	Ask       func(context.Context, Question) Answer
	Permitted func(Question) (Answer, bool)

	// Resolve gets the addresses of the loopback interface that names of hosts
	// are to have inside while a command uses the way. It is called at most once,
	// by Open. Nil: no name has one.
	Resolve func(names map[string][]netip.Addr)

	// Warn hears of what is done in another way than the settings ask for.
	Warn func(error, string)
}

// A Way lets the commands of one sandbox reach hosts. It is safe for
// concurrent use.
type Way interface {
	// Command gives a command its part of the way.
	Command(id string, o Command) Caller
	// Narrow has rules that came later hold beside those of the way, and ends
	// what passes by it and they do not allow. After an error it is to be closed.
	Narrow(rules sandbox.EgressRules) error
	// Done is closed when the way has ended, by Close or with its sandbox.
	Done() <-chan struct{}
	// Close ends the way, and returns when nothing passes any more.
	Close() error
}

// A Command is what the record tells of who reaches something.
type Command struct {
	Tenant, Agent, Session string
	Program                string // that was started; empty where Line tells
	Line                   string // the whole command
}

// A Caller is a command that may use a way.
type Caller interface {
	// Env are the variables that lead the command's programs to the way. The
	// map is the caller's.
	Env() map[string]string
	// Refused returns what the command was refused so far, oldest first, a
	// bounded number: the last ones.
	Refused() []sandbox.Violation
	// Waited returns what connections of the command have waited for their turn
	// because of limits.connections, or nil for nothing.
	Waited() *sandbox.Waited
	// End takes the way from the command, and returns what it was refused,
	// oldest first, a bounded number. It may be called again.
	End() []sandbox.Violation
}

// A Question is what somebody is asked about a host. Its texts are fit to be
// shown.
type Question struct {
	Caller string // id of the command; empty when it is not known
	Target string // host:port
	Reason string
}

// An Answer is what was said. Rule names what decided; Note is for who was
// refused.
type Answer struct {
	Allowed    bool
	Rule, Note string
}
