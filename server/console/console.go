// Package console serves the web console of the daemon below /ui: its files, the
// login by a link that is good once, and the identity of requests that a browser
// sends afterwards.
//
// A login has exactly the rights of the caller that has made its link: the daemon
// looks the token of that caller up for every request, and carries the request out
// as that caller's. The package decides nothing else, except that a login that only
// reads is marked as such, see [auth.Caller].ReadOnly.
//
// A login consists of two secrets. One is a cookie that no script can read. The
// other is a key that the page keeps in the storage of its origin and sends in the
// header [api.HeaderConsole]. Browsers send cookies to every port of a host, and a
// port of this machine may be served by code that is not trusted (sandbox port
// forward), so the cookie alone opens nothing. Storage belongs to one port.
package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// How long links and logins are good, and how many there may be.
const (
	linkLife = time.Minute
	// usedLife is how long a used link is remembered, so that a second use is
	// noticed.
	usedLife = time.Hour
	// maxLife is how long a login lasts at most, and idleLife without a request of
	// its user.
	maxLife, idleLife = 12 * time.Hour, 30 * time.Minute
	// mostLinks and mostLogins are of one caller; mostAll of all callers, each.
	mostLinks, mostLogins, mostAll = 32, 64, 4096
)

// Options configure a [Console]. Tokens and Log are required.
type Options struct {
	Tokens *token.Store
	Log    logrus.FieldLogger

	// Hosts returns the names by which the daemon may be called beside those of
	// this machine. Nil is none.
	Hosts func() []string
	// Named reports whether a host name is that of a port of a sandbox: the
	// console is not served there. Nil has no such names.
	Named func(host string) bool
	// Record keeps the record of a link that was used twice; nil keeps none.
	Record func(violation.Record) error
	// Version is the daemon's.
	Version string

	now func() time.Time
}

// A Console serves the console. It is safe for concurrent use. Links and logins are
// in memory: they end with the process.
type Console struct {
	o     Options
	files map[string]file

	mu     sync.Mutex
	links  map[[32]byte]*link
	logins map[[32]byte]*login
}

// A link is one that was made for a caller.
type link struct {
	caller   auth.Caller
	readOnly bool
	expires  time.Time
	used     bool
	login    *login // that the use has begun
}

// A login is one browser that has used a link.
type login struct {
	id       [32]byte // digest of the cookie
	key      [32]byte // digest of the key
	caller   auth.Caller
	readOnly bool
	began    time.Time
	seen     time.Time
	over     chan struct{}
}

// New returns a Console.
func New(o Options) (*Console, error) {
	files, err := load()
	if err != nil {
		return nil, err
	}
	if o.now == nil {
		o.now = time.Now
	}
	return &Console{o: o, files: files, links: map[[32]byte]*link{}, logins: map[[32]byte]*login{}}, nil
}

func digest(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// link makes a link for a caller, and returns its secret.
func (c *Console) link(caller auth.Caller, readOnly bool) (secret string, expires time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.now()
	c.sweep(now)
	of := 0
	for _, l := range c.links {
		if !l.used && l.caller.ID() == caller.ID() {
			of++
		}
	}
	if of >= mostLinks || len(c.links) >= mostAll {
		return "", time.Time{}, &sandbox.Error{
			Code: sandbox.CodeBudgetExceeded, Op: "log in", Message: "there are too many links that are not used yet", Retryable: true, Hint: "use one of them, or wait a minute",
		}
	}
	secret = rand.Text()
	expires = now.Add(linkLife)
	c.links[digest(secret)] = &link{caller: caller, readOnly: readOnly, expires: expires}
	return secret, expires, nil
}

// errLink is the same for each link that is not good, whatever is the reason.
func errLink() error {
	return &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: "log in", Field: "secret", Message: "the link is not good: it works once, within a minute",
		Hint: "make another one: sandbox ui",
	}
}

// use begins a login with the secret of a link, and returns its two secrets.
//
// A link that is used a second time is in the hands of two, of whom one is not the
// one that it was made for, and the daemon does not know which. So the login of the
// first use ends, as RFC 6749 section 4.1.2 has it for codes: the rightful user
// makes another link, and the other one has nothing.
func (c *Console) use(secret, from string) (cookie, key string, began *login, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.now()
	c.sweep(now)
	l := c.links[digest(secret)]
	switch {
	case l == nil:
		return "", "", nil, errLink()
	case l.used:
		if l.login != nil {
			c.end(l.login)
		}
		c.misused(l, from)
		return "", "", nil, errLink()
	case !l.expires.After(now):
		return "", "", nil, errLink()
	}
	l.used, l.expires = true, now.Add(usedLife)
	if _, err := auth.Again(c.o.Tokens, l.caller); err != nil {
		return "", "", nil, errLink()
	}
	var oldest *login
	of := 0
	for _, g := range c.logins {
		if g.caller.ID() != l.caller.ID() {
			continue
		}
		if of++; oldest == nil || g.seen.Before(oldest.seen) {
			oldest = g
		}
	}
	switch {
	case of >= mostLogins:
		c.end(oldest)
	case len(c.logins) >= mostAll:
		return "", "", nil, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "log in", Message: "too many browsers are logged in", Retryable: true, Hint: "log one of them out"}
	}
	cookie, key = rand.Text(), rand.Text()
	g := &login{id: digest(cookie), key: digest(key), caller: l.caller, readOnly: l.readOnly, began: now, seen: now, over: make(chan struct{})}
	c.logins[g.id] = g
	l.login = g
	return cookie, key, g, nil
}

// misused puts the second use of a link on record.
func (c *Console) misused(l *link, from string) {
	c.o.Log.WithField("caller", l.caller.ID()).WithField("from", from).Warn("a login link of the console was used a second time; the login of its first use has ended")
	if c.o.Record == nil {
		return
	}
	r := violation.Record{
		Time: c.o.now(), Tenant: l.caller.Tenant, Agent: l.caller.Agent, Session: l.caller.Session, Type: violation.LoginMisuse, Verdict: policy.Deny,
		Kind: "login", Resource: "console link of " + l.caller.ID(), Rule: "a link works once",
		Message: "a login link of the console was used a second time, from " + from + "; the login of its first use has ended", Count: 1,
	}
	go func() { // the disk may be slow, and every login waits for the lock
		if err := c.o.Record(r); err != nil {
			c.o.Log.WithError(err).Warn("the second use of a login link could not be put on record")
		}
	}()
}

// end ends a login and what it has open. The caller holds mu.
func (c *Console) end(g *login) {
	if c.logins[g.id] == g {
		delete(c.logins, g.id)
		close(g.over)
	}
}

// over reports whether a login has expired.
func (g *login) expired(now time.Time) bool {
	return now.Sub(g.began) >= maxLife || now.Sub(g.seen) >= idleLife
}

// sweep removes what has expired. The caller holds mu.
func (c *Console) sweep(now time.Time) {
	for id, l := range c.links {
		if !l.expires.After(now) {
			delete(c.links, id)
		}
	}
	for _, g := range c.logins {
		if g.expired(now) {
			c.end(g)
		}
	}
}

// Sweep ends logins that have expired, with their streams. It is to be called every
// few seconds.
func (c *Console) Sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(c.o.now())
}

// find returns the login of one of the cookies that has the key. Where touch is set
// its user counts as active.
func (c *Console) find(cookies []string, key string, touch bool) (*login, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, k := c.o.now(), digest(key)
	for _, cookie := range cookies {
		g := c.logins[digest(cookie)]
		if g == nil || subtle.ConstantTimeCompare(g.key[:], k[:]) != 1 {
			continue
		}
		if g.expired(now) {
			c.end(g)
			return nil, false
		}
		if touch {
			g.seen = now
		}
		return g, true
	}
	return nil, false
}

// remote is the address that a request comes from, for records.
func remote(r *http.Request) string {
	if via := r.Header.Get("X-Forwarded-For"); via != "" && len(via) <= 64 {
		return via
	}
	return r.RemoteAddr
}
