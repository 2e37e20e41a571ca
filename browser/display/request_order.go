// This file holds the requests for the browser of a scope and their results,
// as plain data.

package display

import (
	"net"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
)

// A Request names the scope of a browser, and the settings that this call
// changes. Flags is nil if it changes none.
type Request struct {
	Who   config.Who
	Flags *config.SandboxSettings

	// For bounds how long a display may be watched if the caller does not
	// close it; 0 is an hour.
	For time.Duration
}

// A Started is a browser that answers.
type Started struct {
	Name     string        // of the container; empty for a browser of the host
	Version  string        // as reported by the browser: untrusted, one line
	Created  bool          // the container was made by this call
	Ready    time.Duration // from the call until the browser answered
	Sandbox  bool          // Chromium keeps its own sandbox
	Headless bool
	Network  string // none, own, or the name of a network of the engine

	// NotIsolated reports a browser of the host, which runs without isolation.
	// Sandbox, display and network are not known then.
	NotIsolated bool
}

// A Life is something that continues after the call that started it. Its
// methods are safe for concurrent use.
type Life interface {
	// Done returns a channel that is closed when it has ended, by Close or
	// otherwise.
	Done() <-chan struct{}

	// Err returns why it ended, once Done is closed: nil if Close ended it.
	Err() error

	// Close ends it, and returns when everything of it is released. It may be
	// called again.
	Close() error
}

// A Served is a running CDP proxy for clients of the DevTools protocol. It
// ends with the browser's container.
type Served struct {
	Life

	Name                 string
	HTTPURL              string // for clients that request /json/version; contains the token
	WebSocketDebuggerURL string // for clients that connect directly; contains the token
	Token                string // secret: neither logged nor put into errors
	NotIsolated          bool   // see Started
}

// A Watched is a display that a person can view until it ends.
type Watched struct {
	Life

	Name     string
	URL      string    // can be opened once; contains secrets
	Password string    // of the display; secret
	ViewOnly bool      // keys and pointer of the person do nothing
	Expires  time.Time // time after which the URL cannot be opened
}

// A Viewed is a display of which a viewer has the connection. It takes no input.
type Viewed struct {
	Life

	Conn     net.Conn // of the VNC server: what it sends is untrusted
	Password string   // of the display; secret
}

// Folders are the host folders that reads and writes of a browser depend on.
// All are absolute and canonical.
type Folders struct {
	Workspace string   // of the scope of the browser
	Exposed   []string // writable from some sandbox, so that code inside can place links there
}
