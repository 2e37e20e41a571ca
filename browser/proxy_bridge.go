// Bridge: this part of the package lets clients of the Chrome DevTools Protocol that know
// nothing of us (chromedp, Playwright's connectOverCDP, Puppeteer) use a
// browser that runs in a container without a port. It listens on loopback,
// demands a token that nobody can guess, and speaks to the browser through the
// guest of its container.
//
// # What a client with the token can do
//
// Everything that the protocol can do; the bridge does not look into it. That
// is a decision. Whoever speaks the protocol is to be taken for the browser
// itself: it can attach to pages of the browser's own, run code in them, and
// have files read. A filter of methods would have to know all of them, in every
// version, in sessions within sessions, would break clients that nobody here
// wrote (Playwright sets where downloads go before it does anything), and has
// nothing to keep, because none of our walls is the browser's:
//
//   - Its container has no workspace, no port, no capability, a root that is
//     read-only, and no network. Target.createBrowserContext with another
//     proxy, or none, leads nowhere: the way out is a listener inside that
//     judges hosts outside, and there is no other route. Tethering.bind listens
//     inside.
//   - What the protocol reads (IO, memory, SystemInfo, DOM.setFileInputFiles,
//     which was seen to give a page any file that the browser's user can read)
//     is that container's, and no secret of anybody else. The password of the
//     display opens the display of the same browser, to who is inside already
//     or has a cookie of package watch.
//   - What it writes lands in memory of the container, bounded by its limits,
//     and ends with it. That includes downloads: Browser.setDownloadBehavior
//     was seen to overrule the policy DownloadRestrictions. They gain a client
//     nothing, since it can read every answer as it is; that downloads come
//     into no workspace unless allowed holds, since there is none.
//   - Since clients write files of any name wherever the browser may, nothing in
//     that memory can be run as a program, the folder of policies is closed for
//     writing, and neither is counted on as a wall.
//   - Policies of the administrator were seen to hold for navigations (file:,
//     chrome:, view-source:, data:) and for Extensions.loadUnpacked, in clean
//     profiles as well. They keep honest clients honest and are no wall.
//   - Browser.close, crashes and hangs end what belongs to the same scope, and
//     the next use starts anew.
//
// So a token is worth its scope's browser: looking, clicking, typing and the
// sessions of all its pages. It must be given only to who was granted writing,
// and the limits of package page do not hold for who has it. Where a browser
// was given a network of its own, that network is open to its clients too.
//
// # Which clients know what to do with it
//
// Playwright takes [Bridge.URL], and so does whatever asks /json/version below
// it; Puppeteer and chromedp take [Bridge.WebSocket], because they would cut the
// path off. All can send the token as a header instead. Clients that send an
// Origin have to be told not to, as pages cannot.

package browser

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
)

// An Upstream is a browser that runs, held for one client: nobody removes its
// container before Close.
type Upstream interface {
	// Dial connects to the port of the protocol inside. Connections have a
	// method CloseWrite where they can.
	Dial(ctx context.Context) (net.Conn, error)
	Close() error
}

// Options say what a bridge leads to.
type ProxyOptions struct {
	// Upstream opens the browser for one client, and starts it if it does not
	// run. [sandbox.CodeNotFound] says that it has gone for good, which ends
	// the bridge. It is called by many at once.
	Upstream func(ctx context.Context) (Upstream, error)

	// Gone, unless nil, blocks without a lease until ctx ends or the browser's
	// container has. It returns nil when the container was removed, which ends
	// the bridge; any other end is logged, and Gone called again after the
	// next client was served. So a bridge that nobody uses notices too.
	Gone func(ctx context.Context) error

	Sources netip.Prefix                 // peers that may connect; not valid: the own machine
	Token   string                       // empty: 32 random bytes; else 32 to 128 letters, digits, "-" and "_"
	Limits  ProxyLimits                  // zero fields: the defaults
	Listen  func() (net.Listener, error) // nil: a free port of 127.0.0.1
	Log     logrus.FieldLogger           // nil: none
	Now     func() time.Time             // nil: time.Now
}

// Limits bound what clients and browser can take of this process.
type ProxyLimits struct {
	Clients       int           // WebSockets and requests under way; default 64
	Conns         int           // connections, those without a token too; default 256
	HeaderBytes   int           // of the head of a request; default 16 KiB
	HeaderTimeout time.Duration // until it has come; default 5 s
	Idle          time.Duration // between requests on a connection; default 30 s
	Open          time.Duration // until the browser runs; default 60 s
	Answer        time.Duration // until the browser has answered; default 15 s
	AnswerBytes   int64         // of its answer; default 8 MiB
	WrongTokens   int           // of one peer in a minute, before it is told to stop; default 30
}

// A Bridge is an open way to one browser. Its methods are safe for concurrent
// use.
type Proxy struct {
	o      ProxyOptions
	log    logrus.FieldLogger
	token  token
	rules  guardRules
	server *httpServer
	wrong  *wrong
	slots  chan struct{}
	socks  atomic.Int64
	lost   atomic.Bool // the browser has gone for good

	ctx    context.Context // ends with the bridge; not that of a call
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing is left

	watching atomic.Bool
	watches  sync.WaitGroup
	wmu      sync.Mutex // between the start of a watch and the end of all
}

// Open begins to listen. The browser is not touched before somebody asks.
func OpenProxy(o ProxyOptions) (*Proxy, error) {
	o.Limits = o.Limits.orDefault()
	if o.Now == nil {
		o.Now = time.Now
	}
	t, err := newToken(o.Token)
	if err != nil {
		return nil, err
	}
	b := &Proxy{o: o, token: t, log: loggerHttp(o.Log), done: make(chan struct{})}
	b.wrong = &wrong{now: o.Now, max: o.Limits.WrongTokens, peers: map[netip.Addr]tally{}}
	b.slots = make(chan struct{}, o.Limits.Clients)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	ready := make(chan struct{}) // requests wait until the rules are known
	b.server, err = OpenServer(ServerOptions{
		Listen: o.Listen, HeaderBytes: o.Limits.HeaderBytes, HeaderTimeout: o.Limits.HeaderTimeout,
		Idle: o.Limits.Idle, Conns: o.Limits.Conns,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-ready
			b.serve(w, r)
		}),
	})
	if err != nil {
		b.cancel()
		return nil, err
	}
	b.rules = guardRules{Port: b.server.Addr().Port(), Sources: o.Sources}
	close(ready)
	b.watch()
	go b.end()
	return b, nil
}

// end waits for the end and makes it one.
func (b *Proxy) end() {
	<-b.ctx.Done()
	b.server.Close()
	b.wmu.Lock() // no watch begins from here on
	defer b.wmu.Unlock()
	b.watches.Wait()
	close(b.done)
}

// watch learns of the end of the container, unless somebody does already.
func (b *Proxy) watch() {
	b.wmu.Lock()
	defer b.wmu.Unlock()
	if b.o.Gone == nil || b.ctx.Err() != nil || !b.watching.CompareAndSwap(false, true) {
		return
	}
	b.watches.Go(func() {
		err := b.o.Gone(b.ctx)
		b.watching.Store(false)
		switch {
		case b.ctx.Err() != nil:
		case err == nil:
			b.log.Info("the browser was removed, its bridge ends")
			b.cancel()
		default:
			b.log.WithError(err).Debug("whether the browser was removed is not known until it is used")
		}
	})
}

// URL is the base for clients that ask for /json/version themselves. It holds
// the token.
func (b *Proxy) URL() string {
	return "http://" + b.server.Addr().String() + "/" + b.token.text + "/"
}

// Token is what clients show, in the path or as "Authorization: Bearer".
func (b *Proxy) Token() string { return b.token.text }

// Done is closed when the bridge has ended and nothing of it is left.
func (b *Proxy) Done() <-chan struct{} { return b.done }

// Clients is the number of WebSockets that are open.
func (b *Proxy) Clients() int { return int(b.socks.Load()) }

// Close ends the bridge with all that goes through it, and waits.
func (b *Proxy) Close() {
	b.cancel()
	<-b.done
}

// WebSocket returns the address of the browser's own WebSocket, which holds
// the token. It starts the browser if it does not run. The address changes
// when the browser is started anew.
func (b *Proxy) WebSocket(ctx context.Context) (string, error) {
	if b.ctx.Err() != nil {
		return "", sandbox.Errorf(sandbox.CodeUnavailable, proxyOp, "the bridge was closed")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	defer b.endIfLost()
	body, err := b.ask(ctx, proxyWish{kind: version, method: "GET", target: "/json/version"})
	if err != nil {
		return "", err
	}
	v, err := readVersion(body, b.place(b.server.Addr().String()))
	if err == nil && v.WebSocket == "" {
		err = sandbox.Errorf(sandbox.CodeExecution, proxyOp, "the browser tells no WebSocket")
	}
	return v.WebSocket, err
}

// place is where addresses of WebSockets begin for a client that reached us
// under the given host and port.
func (b *Proxy) place(host string) string { return "ws://" + host + "/" + b.token.text }
