// Order: this part of the package says what is asked of a browser of a scope, and what comes of
// it, in plain data.

package display

import (
	"time"

	"github.com/bulkhead-dev/sandbox/config"
)

// A Request says whose browser is meant, and what this call changes of its
// settings. Flags is nil when it changes nothing.
type Request struct {
	Who   config.Who
	Flags *config.SandboxSettings

	// For is how long a display may be watched, whoever forgets to close it;
	// 0 is an hour.
	For time.Duration
}

// A Started is a browser that answers.
type Started struct {
	Name     string        // of the container; empty for a browser of the host
	Version  string        // as the browser says it: untrusted, one line
	Created  bool          // the container was made by this call
	Ready    time.Duration // from the call until the browser answered
	Sandbox  bool          // Chromium keeps its own sandbox
	Headless bool
	Network  string // none, own, or the name of a network of the engine

	// NotIsolated is a browser of the host, which no wall surrounds. What is
	// said of sandbox, display and network is not known then.
	NotIsolated bool
}

// A Life is something that goes on after the call that began it. Its methods
// are safe for concurrent use.
type Life interface {
	// Done is closed when it has ended, whoever ended it.
	Done() <-chan struct{}

	// Err says why it ended, once Done is closed: nil when Close ended it.
	Err() error

	// Close ends it, and returns when nothing of it is left. It may be called
	// again.
	Close() error
}

// A Served is a bridge that lets clients of the DevTools protocol in while it
// lives. It ends with the browser's container.
type Served struct {
	Life

	Name                 string
	HTTPURL              string // for clients that ask /json/version; holds the token
	WebSocketDebuggerURL string // for clients that connect at once; holds the token
	Token                string // secret: neither logged nor put into errors
	NotIsolated          bool   // see Started
}

// A Watched is a display that a person can look at while it lives.
type Watched struct {
	Life

	Name     string
	URL      string    // can be opened once; holds secrets
	Password string    // of the display; secret
	ViewOnly bool      // keys and pointer of the person do nothing
	Expires  time.Time // when the address can no longer be opened
}

// Folders are folders of the host that what is read and written for a browser
// depends on. All are absolute and canonical.
type Folders struct {
	Workspace string   // of the scope of the browser
	Exposed   []string // in which code in sandboxes can put links: all that any may write
}
