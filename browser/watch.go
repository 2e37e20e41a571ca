// Watch: this part of the package lets a person look at the display of a browser inside with
// noVNC: a link that works once and for a minute gives a cookie, the cookie
// opens pages and display, and the VNC server inside demands a password that
// dies with the watch. Who only looks gets a password with which the VNC server
// itself takes no keys and no clicks.
//
// The pages come out of the container's image, by [Options.File], and not from
// a program inside: a script of somebody who has taken the browser over would
// run in that person's own browser, where no policy keeps a page from leading
// away and taking along what it knows. They are shown as files of a few kinds,
// below an origin that has nothing else, with a policy that lets them reach
// nothing but the display: no frames, no forms that are sent, no windows, no
// downloads.

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

// Options say what is watched, and how.
type WatchOptions struct {
	// Dial connects to the server of noVNC inside.
	Dial func(ctx context.Context) (net.Conn, error)

	// File returns a file of noVNC by its path, such as "/vnc.html", of at most
	// limit bytes. One that is not there is [sandbox.CodeNotFound]. nil asks the
	// server of noVNC inside, which whoever took the browser over may be.
	File func(ctx context.Context, path string, limit int64) ([]byte, error)

	// SetPasswords gives the file [browser.VNCPasswords] another content, as
	// one change (a file beside it, renamed): the VNC server ends when it finds
	// the file missing or empty. Unless old is nil it does so only if the file
	// holds old, so that a watch leaves the passwords of a later one alone.
	// Nobody but the VNC server may read the file.
	SetPasswords func(ctx context.Context, old, content []byte) error

	// Gone, unless nil, blocks until ctx ends or the container has; nil means
	// that it was removed, which ends the watch.
	Gone func(ctx context.Context) error

	Control bool          // keys and clicks, too
	For     time.Duration // until all ends; 0 is an hour

	Sources netip.Prefix                 // peers that may connect; not valid: the own machine
	Listen  func() (net.Listener, error) // nil: a free port of 127.0.0.1
	Log     logrus.FieldLogger           // nil: none
	Now     func() time.Time             // nil: time.Now

	headers time.Duration // for the head of a request; 0 is headerTime
}

// linkLife is how long the link waits for its one use.
const linkLife = time.Minute

// Bounds of what one watch takes of this process.
const (
	maxConns    = 64 // connections
	maxViewers  = 8  // displays that are shown at a time
	headerBytes = 16 << 10
	headerTime  = 5 * time.Second
	idle        = 30 * time.Second
	answerTime  = 15 * time.Second // until the server inside has answered
	fileBytes   = 4 << 20          // of one file of noVNC
	revokeTime  = 10 * time.Second // for the passwords
)

// A Watch is a display that is shown. Its methods are safe for concurrent
// use.
type Watch struct {
	o       WatchOptions
	log     logrus.FieldLogger
	rules   guardRules
	secrets secrets
	expires time.Time
	server  *httpServer
	viewers chan struct{}

	mu   sync.Mutex
	used bool // the link

	lost atomic.Bool // the container has gone for good

	ctx    context.Context // ends with the watch; not that of a call
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing is left
}

// Open writes new passwords and begins to listen. Of several watches of one
// browser the last has the passwords: who is connected through an earlier one
// stays, and nobody else gets in by it. The same holds when the supervisor
// inside makes new passwords because the browser was started anew.
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

// end waits for the end and makes it one: of the connections first, so that
// nobody is let in by a password of which nobody knows any more.
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

// revoke puts passwords in the place of ours that nobody is told.
func (w *Watch) revoke(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTime)
	defer cancel()
	err := w.o.SetPasswords(ctx, w.secrets.file(), newSecrets().file())
	if err != nil && !sandbox.IsNotFound(err) && !w.lost.Load() { // with the container the password has gone
		w.log.WithError(err).Warn("the password of the display was not revoked")
	}
}

// URL is the link. It is a secret until it was used.
func (w *Watch) URL() string { return "http://" + w.server.Addr().String() + "/open/" + w.secrets.link }

// LinkExpires is when the link stops to work if it was not used.
func (w *Watch) LinkExpires() time.Time { return w.expires }

// Password is what noVNC is given with the link: the one that lets do
// everything, or the one that lets only look.
func (w *Watch) Password() string {
	if w.o.Control {
		return w.secrets.full
	}
	return w.secrets.view
}

// ViewOnly reports whether the display takes no keys and no clicks.
func (w *Watch) ViewOnly() bool { return !w.o.Control }

// Done is closed when the watch has ended and nothing of it is left.
func (w *Watch) Done() <-chan struct{} { return w.done }

// Close ends the watch and waits.
func (w *Watch) Close() {
	w.cancel()
	<-w.done
}

// redeem takes the link, for the first who comes in time.
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
	link   string // the last part of the link
	folder string // below which everything lies, so that no other port's pages are sent the cookie
	cookie string
	full   string // password that lets do everything
	view   string // password that lets only look
}

// passwordLength is all of a password that VNC looks at.
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

// file is the content of the file that the VNC server reads.
func (s secrets) file() []byte {
	return []byte(s.full + "\n__BEGIN_VIEWONLY__\n" + s.view + "\n")
}
