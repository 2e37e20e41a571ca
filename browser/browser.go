// Package browser runs and exposes the browser of a scope. It defines the
// container of a browser ([Container]), what the browser may do ([Settings],
// [Limits], [Rights]) and a browser session ([Session]); it starts the browser
// through the guest, proxies the Chrome DevTools Protocol and serves the
// display. The layers depend on each other in this order:
//
//	settings → URL policy (pure) → launcher → CDP proxy → page
//
// Each scope has a browser of its own in a container of its own. The container
// has no network and no published port: every connection goes through its
// guest.
package browser

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A Container is an open handle to the container of one browser. It holds a
// lease: the container is not removed while the handle is open. It is safe for
// concurrent use.
type Container interface {
	// Name returns the name of the container.
	Name() string

	// Settings returns the settings that the container was opened with.
	Settings() Settings

	// Dial connects to an address inside, as [sandbox.Dialer] does.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)

	// Start runs a command inside, as [sandbox.Sandbox] does.
	Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error)

	// OpenEgress opens an egress proxy listener by the egress rules of the settings,
	// at a loopback port inside: at port, or at a free port if port is 0. ok
	// is false if the rules allow no host; no listener is opened then. The
	// error is [sandbox.CodeBusy] if another program has the port. The
	// listener ends when end is called and with the container. It is never a
	// port of the host.
	OpenEgress(ctx context.Context, port int) (addr netip.AddrPort, end func(), ok bool, err error)

	// Workspace returns the host folder that is the workspace of the same
	// scope, and the owner of its files. Its content is untrusted: callers
	// open it through os.Root alone. The container does not see it.
	Workspace(ctx context.Context) (Workspace, error)

	// Close releases the container and ends the processes started through it,
	// except detached ones.
	Close() error
}

// A Workspace is a folder of the host.
type Workspace struct {
	Dir      string // absolute
	UID, GID int    // of the owner of its files
	Refusal  error  // the error for every change of it; nil where downloads are allowed
}

// ProxyPort is the loopback port inside at which a browser finds its egress
// proxy, unless a session names another.
const ProxyPort = 3128

// RunDir is the folder inside, in memory, that belongs to the supervisor of
// the browser.
const RunDir = "/run/sandbox-browser"

// LogFile is the log of the display, the browser and the servers. Only its end
// is certain to be kept.
const LogFile = RunDir + "/log"

// VNCPasswords is the password file of the VNC server, which reads it on every
// connection: the password for full control, a line "__BEGIN_VIEWONLY__", and
// the view-only password. It starts with random passwords that are given to no
// caller. The file must always exist: the VNC server ends without it.
const VNCPasswords = RunDir + "/vnc.passwd"

// Program is the name of the supervisor inside.
const Program = "sandbox-browser"

// Settings say how a browser is started and what it may do. They are plain
// data, resolved from the settings of its scope.
type Settings struct {
	CDPPort   int // inside, on loopback
	VNCPort   int // inside, on loopback
	NoVNCPort int // inside, on loopback

	Headless  bool // no display
	VNC       bool // the display can be watched
	NoSandbox bool // without Chromium's own sandbox
	Direct    bool // on a network of the engine instead of the egress proxy

	Schemes   []string // URL schemes that may be opened: http, https, and data where it is allowed
	Downloads bool     // downloads into the workspace are allowed

	StartTimeout time.Duration
	Sources      netip.Prefix // addresses that may use CDP proxies; not valid: loopback
	Rules        sandbox.EgressRules
	Limits       Limits
}

// Limits bound one [Session]. All are positive.
type Limits struct {
	Navigation           time.Duration // until a page has loaded
	Navigations          int           // pages opened by one session
	Redirects            int           // of one navigation
	PageBytes            int64         // received for one page
	ScreenshotPixels     int64         // of one picture
	ScreenshotsPerMinute int
	TransferBytes        int64 // of one download, upload or PDF
}

// Rights are what the caller of a session was granted beyond reading pages.
type Rights struct {
	// Write allows clicks, typing, uploads and downloads, which change state
	// on the host or on a site.
	Write bool

	// Visit is called before the main frame loads a document that settings and
	// rules allow: documents that the caller opens, and those that clicks,
	// scripts, forms, refreshes, redirects and history lead to. address has
	// the spelling of the URL policy, "workspace:PATH" for files. hop counts
	// the redirects of one navigation and is 0 for its first request. A nil
	// Visit allows all documents.
	//
	// An error keeps the document from being requested, and the action that
	// led there returns it. Visit has to return when ctx ends, which is soon:
	// a missing answer, a panic, and an error that is no *[sandbox.Error]
	// refuse too. It may be called from several goroutines.
	//
	// Visit is not called for empty pages (about:blank), which load nothing,
	// for frames within the page, and for windows, which are never opened.
	Visit func(ctx context.Context, address string, hop int) error

	// Read is called before a file of the workspace is read for a page,
	// whether the page itself, a frame, a picture or a script requests it.
	// file is the path below the workspace. Its result is treated as that of
	// Visit. A nil Read allows all files.
	Read func(ctx context.Context, file string) error

	// Received is called with the number of bytes that pages have received,
	// headers included, as they arrive. It must not block. It may be nil.
	Received func(bytes int64)

	// Transfer is called before a file goes to a page, and before a downloaded
	// file is put into the workspace. The action returns its error. A nil
	// Transfer allows all transfers.
	Transfer func(ctx context.Context, t Transfer) error
}

// A Transfer is a file on its way between the workspace and a page.
type Transfer struct {
	Upload bool  // to a page
	Bytes  int64 // of the file
}

// Environment returns the environment variables that tell the supervisor
// inside how to start the browser. They hold no secret.
func (s Settings) Environment() map[string]string {
	return environment(s)
}

// Kept returns s adjusted to a browser that was made with other settings and
// kept; env are the variables it was made with. The connection to the browser
// and its isolation stay as they were made; a session may do only what both
// settings allow.
func (s Settings) Kept(env map[string]string) Settings {
	return kept(s, env)
}
