// This file holds the CDP proxy, through which ordinary clients of the Chrome
// DevTools Protocol (chromedp, Playwright's connectOverCDP, Puppeteer) use a
// browser that runs in a container without a port. It listens on loopback,
// demands a random token, and connects to the browser through the guest of its
// container.
//
// # What a client with the token can do
//
// A client can use the whole protocol; the proxy does not inspect it. That is
// a decision. A client of the protocol has the power of the browser itself: it
// can attach to the browser's own pages, run code in them, and have files
// read. A filter of methods would have to know all methods, in every version,
// in nested sessions; it would break third-party clients (Playwright sets the
// download folder before it does anything); and it would protect nothing,
// because isolation does not depend on the browser:
//
//   - Its container has no workspace, no port, no capability, a root that is
//     read-only, and no network. Target.createBrowserContext with another
//     proxy, or none, leads nowhere: egress goes through a listener inside that
//     is judged outside, and there is no other route. Tethering.bind listens
//     inside.
//   - What the protocol reads (IO, memory, SystemInfo, DOM.setFileInputFiles,
//     which was seen to give a page any file that the browser's user can read)
//     belongs to that container and contains no secret of another scope. The
//     password of the display opens the display of the same browser, for a
//     client that is already inside or has the cookie of a display link.
//   - What it writes goes to memory of the container, bounded by its limits, and
//     ends with the container. That includes downloads:
//     Browser.setDownloadBehavior was seen to overrule the policy
//     DownloadRestrictions. A client gains nothing by them, since it can read
//     every response as it is; downloads still reach no workspace unless allowed,
//     since the container has none.
//   - Clients can write files of any name wherever the browser may, so nothing in
//     that memory can be run as a program, and the folder of policies is closed
//     for writing. Isolation relies on neither.
//   - Policies of the administrator were seen to hold for navigations (file:,
//     chrome:, view-source:, data:) and for Extensions.loadUnpacked, in clean
//     profiles as well. They guide honest clients and isolate nothing.
//   - Browser.close, crashes and hangs affect only the same scope, and the next
//     use starts a new browser.
//
// So a token is worth its scope's browser: reading, clicking, typing and the
// sessions of all its pages. It must be given only to callers with the right
// to write, and the limits of package page do not apply to its holders. Where
// a browser has a network of its own, that network is open to its clients too.
//
// # Which address a client needs
//
// Playwright, and every client that requests /json/version below the URL,
// takes [Proxy.URL]; Puppeteer and chromedp take [Proxy.WebSocket], because
// they would cut off the path. All can send the token as a header instead.
// Clients that send an Origin must be configured not to, because the proxy
// refuses it as a page's.

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

// An Upstream is a running browser, leased for one client: its container is
// not removed before Close.
type Upstream interface {
	// Dial connects to the DevTools port inside. Connections have a method
	// CloseWrite if they support it.
	Dial(ctx context.Context) (net.Conn, error)
	Close() error
}

// ProxyOptions configure a CDP proxy.
type ProxyOptions struct {
	// Upstream opens the browser for one client, and starts it if it does not
	// run. The error [sandbox.CodeNotFound] reports that the browser was
	// removed, which ends the proxy. It is called concurrently.
	Upstream func(ctx context.Context) (Upstream, error)

	// Gone, unless nil, blocks without a lease until ctx ends or the browser's
	// container is gone. It returns nil if the container was removed, which
	// ends the proxy; any other result is logged, and Gone is called again
	// after the next client was served. So an idle proxy notices the removal
	// too.
	Gone func(ctx context.Context) error

	Sources netip.Prefix                 // peers that may connect; not valid: loopback
	Token   string                       // empty: 32 random bytes; else 32 to 128 letters, digits, "-" and "_"
	Limits  ProxyLimits                  // zero fields: the defaults
	Listen  func() (net.Listener, error) // nil: a free port of 127.0.0.1
	Log     logrus.FieldLogger           // nil: none
	Now     func() time.Time             // nil: time.Now
}

// ProxyLimits bound the resources of this process that clients and browser can
// use.
type ProxyLimits struct {
	Clients       int           // WebSockets and requests under way; default 64
	Conns         int           // connections, those without a token included; default 256
	HeaderBytes   int           // of the head of a request; default 16 KiB
	HeaderTimeout time.Duration // until the head is complete; default 5 s
	Idle          time.Duration // between requests on a connection; default 30 s
	Open          time.Duration // until the browser runs; default 60 s
	Answer        time.Duration // until the browser has answered; default 15 s
	AnswerBytes   int64         // of its answer; default 8 MiB
	WrongTokens   int           // of one peer in a minute, before it is refused with 429; default 30
}

// A Proxy is an open CDP proxy to one browser. Its methods are safe for
// concurrent use.
type Proxy struct {
	o      ProxyOptions
	log    logrus.FieldLogger
	token  token
	rules  guardRules
	server *httpServer
	wrong  *wrong
	slots  chan struct{}
	socks  atomic.Int64
	lost   atomic.Bool // the browser was removed

	ctx    context.Context // ends with the proxy; not the context of a call
	cancel context.CancelFunc
	done   chan struct{} // closed when everything has ended

	watching atomic.Bool
	watches  sync.WaitGroup
	wmu      sync.Mutex // orders the start of a watch and the end of the proxy
}

// OpenProxy starts to listen. It does not touch the browser before the first
// request.
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

// end waits until ctx ends and then releases everything.
func (b *Proxy) end() {
	<-b.ctx.Done()
	b.server.Close()
	b.wmu.Lock() // no watch starts after this
	defer b.wmu.Unlock()
	b.watches.Wait()
	close(b.done)
}

// watch waits for the removal of the container, unless a watch is already
// running.
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

// URL returns the base URL for clients that request /json/version themselves.
// It contains the token.
func (b *Proxy) URL() string {
	return "http://" + b.server.Addr().String() + "/" + b.token.text + "/"
}

// Token returns the token, which clients send in the path or as
// "Authorization: Bearer".
func (b *Proxy) Token() string { return b.token.text }

// Done returns a channel that is closed when the proxy has ended and nothing
// of it is left.
func (b *Proxy) Done() <-chan struct{} { return b.done }

// Clients returns the number of open WebSockets.
func (b *Proxy) Clients() int { return int(b.socks.Load()) }

// Close ends the proxy and all its connections, and waits.
func (b *Proxy) Close() {
	b.cancel()
	<-b.done
}

// WebSocket returns the URL of the browser's own WebSocket, which contains the
// token. It starts the browser if it does not run. The URL changes when the
// browser is restarted.
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

// place returns the prefix of WebSocket URLs for a client that reached the
// proxy under the given host and port.
func (b *Proxy) place(host string) string { return "ws://" + host + "/" + b.token.text }
