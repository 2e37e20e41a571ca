// Package browser holds the words of the browser: what runs one (a
// [Container]), what it may do ([Settings], [Limits], [Rights]), and what is
// done with it (a [Session]). It does nothing by itself; packages below it do:
//
//	settings → visit (pure) → supervise → bridge → page
//
// A browser runs in a container of its own, one for each scope, which has no
// network and no port: everything speaks to it through the guest inside.
package browser

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A Container is an open handle to the container of one browser, under a
// lease: while it is open nobody removes the container. It is safe for
// concurrent use.
type Container interface {
	// Name is that of the container.
	Name() string

	// Settings are those the container was opened with.
	Settings() Settings

	// Dial connects to an address inside, as [sandbox.Dialer] does.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)

	// Start runs a command inside, as [sandbox.Sandbox] does.
	Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error)

	// Way opens a way out by the rules of the settings, at a loopback port
	// inside: the given one, or a free one for 0. ok is false where the rules
	// allow nothing, so that there is no way. [sandbox.CodeBusy] says that
	// another program has the port. The way ends with end, and with the
	// container; it is nobody's port on the host.
	Way(ctx context.Context, port int) (addr netip.AddrPort, end func(), ok bool, err error)

	// Workspace is the folder of the host that is the workspace of the same
	// scope, and whose its files are. What lies in it is untrusted: it is
	// opened through os.Root alone. The container does not see it.
	Workspace(ctx context.Context) (Workspace, error)

	// Close lets go of the container and ends what was started through it,
	// unless detached.
	Close() error
}

// A Workspace is a folder of the host.
type Workspace struct {
	Dir      string // absolute
	UID, GID int    // whose files it holds
	Refusal  error  // of every change of it; nil where downloads may be put there
}

// ProxyPort is the loopback port inside at which browsers look for their way
// out, unless a session names another.
const ProxyPort = 3128

// RunDir is the folder inside that belongs to the supervisor of the browser;
// it lies in memory.
const RunDir = "/run/sandbox-browser"

// LogFile is what display, browser and servers have written, the end of it
// at least.
const LogFile = RunDir + "/log"

// VNCPasswords is the file that the VNC server reads whenever somebody
// connects: the password that lets do everything, a line "__BEGIN_VIEWONLY__",
// and the one that lets only look. It begins with random ones that nobody
// knows. It must always be there: without it the VNC server ends.
const VNCPasswords = RunDir + "/vnc.passwd"

// Program is the name of the supervisor inside.
const Program = "sandbox-browser"

// Settings say how a browser is started and what it may do. They are plain
// data, made from the settings of its scope.
type Settings struct {
	CDPPort   int // inside, on loopback
	VNCPort   int // inside, on loopback
	NoVNCPort int // inside, on loopback

	Headless  bool // no display
	VNC       bool // the display can be watched
	NoSandbox bool // without Chromium's own sandbox
	Direct    bool // a network of the engine, not the way out

	Schemes   []string // that may be opened: http, https, and data where it is allowed
	Downloads bool     // may be made, into the workspace

	StartTimeout time.Duration
	Sources      netip.Prefix // who may use bridges; not valid: loopback
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

// Rights are what the caller of a session was granted beyond looking.
type Rights struct {
	// Write lets click, type, upload and download, which change something
	// somewhere.
	Write bool

	// Visit is asked about every document that the main frame is to load, when
	// settings and rules have let it pass: those that a caller opens, and where
	// clicks, scripts, forms, refreshes, redirects and the way back lead. The
	// address is as package visit spells it, "workspace:PATH" for files. hop
	// counts the redirects of one navigation, so 0 is where it begins. nil
	// allows all.
	//
	// Its error keeps the document from being asked for, and is what the
	// action that led there returns. It has to return when ctx ends, which is
	// soon: no answer in time, a panic, and an error that is no
	// *[sandbox.Error] refuse too. It may be called from several goroutines.
	//
	// Not asked about are empty pages (about:blank), which load nothing,
	// frames within the page, and windows, of which none is ever opened.
	Visit func(ctx context.Context, address string, hop int) error

	// Read is asked before a file of the workspace is read for a page, whatever
	// has asked for it: the page itself, frames, pictures and scripts in it.
	// file is the path below the workspace. It answers as Visit does. nil allows
	// all.
	Read func(ctx context.Context, file string) error

	// Received is told of bytes that pages have received, with all that is in
	// them, as they come. It must not block. nil does not want to know.
	Received func(bytes int64)

	// Transfer is asked before a file goes to a page, and before one that was
	// downloaded comes into the workspace. Its error is what the action
	// returns. nil allows all.
	Transfer func(ctx context.Context, t Transfer) error
}

// A Transfer is a file on its way between the workspace and a page.
type Transfer struct {
	Upload bool  // to a page
	Bytes  int64 // of the file
}

// Environment returns the variables that tell the supervisor inside how to
// start the browser. They hold no secret.
func (s Settings) Environment() map[string]string {
	return environment(s)
}

// Kept returns s for a browser that was made with other settings, whose
// variables env are, and kept. How it is spoken to and what holds it is as it
// was made; a session in it may do what both let.
func (s Settings) Kept(env map[string]string) Settings {
	return kept(s, env)
}
