// This file serves the display of a browser inside to a person through noVNC.
// A link that works once, within a minute, sets a cookie; the cookie opens the
// pages and the display; and the VNC server inside demands a password that is
// revoked when the watch ends. A viewer without control gets a view-only
// password, with which the VNC server itself accepts no keys and no clicks.
//
// The pages come from the container's image, by [WatchOptions.File], and not
// from a program inside: a script of an attacker who controls the browser
// would run in the viewer's own browser, where no policy keeps a page from
// navigating away and leaking what it knows. They are served as a few file
// types, below an origin that has nothing else, with a policy that allows
// connections to the display only: no frames, no form submission, no windows,
// no downloads.

package browser

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
)

const watchOp = "watch browser"

// WatchOptions configure a watch.
type WatchOptions struct {
	// Dial connects to the noVNC server inside.
	Dial func(ctx context.Context) (net.Conn, error)

	// File returns a file of noVNC by its path, such as "/vnc.html", of at
	// most limit bytes. The error for a missing file is
	// [sandbox.CodeNotFound]. If File is nil, the noVNC server inside is
	// asked, which an attacker who controls the browser can replace.
	File func(ctx context.Context, path string, limit int64) ([]byte, error)

	// SetPasswords replaces the content of the file [VNCPasswords] atomically
	// (a file beside it, renamed): the VNC server ends if it finds the file
	// missing or empty. If old is not nil, the file is replaced only if it
	// holds old, so that a watch does not overwrite the passwords of a later
	// one. Only the VNC server may read the file.
	SetPasswords func(ctx context.Context, old, content []byte) error

	// Gone, unless nil, blocks until ctx ends or the container is gone; nil
	// means that it was removed, which ends the watch.
	Gone func(ctx context.Context) error

	Control bool          // accept keys and clicks
	For     time.Duration // duration of the watch; 0 is an hour

	Sources netip.Prefix                 // peers that may connect; not valid: loopback
	Listen  func() (net.Listener, error) // nil: a free port of 127.0.0.1
	Log     logrus.FieldLogger           // nil: none
	Now     func() time.Time             // nil: time.Now

	headers time.Duration // for the head of a request; 0 is headerTime
}

// linkLife is how long the link waits for its one use.
const linkLife = time.Minute

// Bounds of the resources of this process that one watch uses.
const (
	maxConns    = 64 // connections
	maxViewers  = 8  // viewers at a time
	headerBytes = 16 << 10
	headerTime  = 5 * time.Second
	idle        = 30 * time.Second
	answerTime  = 15 * time.Second // for an answer of the server inside
	fileBytes   = 4 << 20          // of one file of noVNC
	revokeTime  = 10 * time.Second // to revoke the passwords
)

// A Watch is a display that is being served. Its methods are safe for
// concurrent use.
type Watch struct {
	o       WatchOptions
	log     logrus.FieldLogger
	rules   guardRules
	secrets secrets
	expires time.Time
	server  *httpServer
	viewers chan struct{}

	mu   sync.Mutex
	used bool // the link was used

	lost atomic.Bool // the container was removed

	ctx    context.Context // ends with the watch; not the context of a call
	cancel context.CancelFunc
	done   chan struct{} // closed when everything has ended
}

// OpenWatch writes new passwords and starts to listen. Of several watches of
// one browser the last one has the valid passwords: viewers connected through
// an earlier watch stay connected, but no new viewer can connect through it.
// The same holds when the supervisor inside makes new passwords because the
// browser was restarted.
func OpenWatch(ctx context.Context, o WatchOptions) (*Watch, error) {
	if o.For <= 0 {
		o.For = time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.headers <= 0 {
		o.headers = headerTime
	}
	w := &Watch{o: o, log: loggerHttp(o.Log), secrets: newSecrets(), done: make(chan struct{}), viewers: make(chan struct{}, maxViewers)}
	if err := o.SetPasswords(ctx, nil, w.secrets.file()); err != nil {
		w.revoke(ctx)
		return nil, sandbox.Errorf(sandbox.CodeOf(err), watchOp, "the password of the display cannot be set: %w", err)
	}
	w.expires = o.Now().Add(linkLife)
	w.ctx, w.cancel = context.WithTimeout(context.WithoutCancel(ctx), o.For)
	ready := make(chan struct{}) // requests wait until the rules are known
	server, err := OpenServer(ServerOptions{
		Listen: o.Listen, HeaderBytes: headerBytes, HeaderTimeout: o.headers, Idle: idle, Conns: maxConns,
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			<-ready
			w.serve(rw, r)
		}),
	})
	if err != nil {
		w.cancel()
		w.revoke(ctx)
		return nil, err
	}
	w.server = server
	w.rules = guardRules{Port: server.Addr().Port(), Sources: o.Sources, Pages: true}
	close(ready)
	go w.end()
	return w, nil
}

// end waits until ctx ends and then releases everything: the connections
// first, so that no viewer is let in by a password that is already revoked.
func (w *Watch) end() {
	var gone sync.WaitGroup
	if w.o.Gone != nil {
		gone.Go(func() {
			if err := w.o.Gone(w.ctx); err == nil {
				w.lost.Store(true)
				w.cancel()
			}
		})
	}
	<-w.ctx.Done()
	w.cancel()
	w.server.Close()
	w.revoke(w.ctx)
	gone.Wait()
	close(w.done)
}

// revoke replaces the passwords of this watch with random ones that are given
// to no caller.
func (w *Watch) revoke(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTime)
	defer cancel()
	err := w.o.SetPasswords(ctx, w.secrets.file(), newSecrets().file())
	if err != nil && !sandbox.IsNotFound(err) && !w.lost.Load() { // a removed container has no password left
		w.log.WithError(err).Warn("the password of the display was not revoked")
	}
}

// URL returns the link. It is secret until it was used.
func (w *Watch) URL() string { return "http://" + w.server.Addr().String() + "/open/" + w.secrets.link }

// LinkExpires returns the time when an unused link stops working.
func (w *Watch) LinkExpires() time.Time { return w.expires }

// Password returns the password that noVNC gets with the link: the one for
// full control, or the view-only one.
func (w *Watch) Password() string {
	if w.o.Control {
		return w.secrets.full
	}
	return w.secrets.view
}

// ViewOnly reports whether the display accepts no keys and no clicks.
func (w *Watch) ViewOnly() bool { return !w.o.Control }

// Done returns a channel that is closed when the watch has ended and nothing
// of it is left.
func (w *Watch) Done() <-chan struct{} { return w.done }

// Close ends the watch and waits.
func (w *Watch) Close() {
	w.cancel()
	<-w.done
}

// CloseLink makes the link invalid, for a watch that is viewed without it.
func (w *Watch) CloseLink() { w.redeem() }

// redeem marks the link as used. It reports whether the call was the first and
// in time.
func (w *Watch) redeem() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.used || !w.o.Now().Before(w.expires) {
		return false
	}
	w.used = true
	return true
}

// secrets are the random words of one watch.
type secrets struct {
	link   string // last part of the link
	folder string // path of everything served, so that pages of other ports do not get the cookie
	cookie string
	full   string // password for full control
	view   string // view-only password
}

// passwordLength is the number of characters of a password that VNC compares.
const passwordLength = 8

func newSecrets() secrets {
	return secrets{
		link: rand.Text() + rand.Text(), folder: rand.Text(), cookie: rand.Text() + rand.Text(),
		full: password(), view: password(),
	}
}

// password returns random letters and digits, each with the same chance.
func password() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	raw := make([]byte, passwordLength)
	_, _ = rand.Read(raw) // never fails
	for i := range raw {
		raw[i] = letters[raw[i]%byte(len(letters))] // 64 of them
	}
	return string(raw)
}

// file returns the content of the VNC server's password file.
func (s secrets) file() []byte {
	return []byte(s.full + "\n__BEGIN_VIEWONLY__\n" + s.view + "\n")
}
