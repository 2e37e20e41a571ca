package page

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto"
	devtools "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// openTime bounds the opening of a session.
const openTime = 30 * time.Second

// cleanTime bounds commands in answer to events and during cleanup.
const cleanTime = 5 * time.Second

// removeTime bounds the removal of folders inside.
const removeTime = 30 * time.Second

// nowhere is a proxy address that leads nowhere: no server listens at that
// port.
const nowhere = "http://127.0.0.1:9"

// Options are what a session needs besides the container's settings.
type Options struct {
	Now func() time.Time // nil is the clock

	brief time.Duration // for commands that answer an event; 0 is cleanTime
}

// A session is a profile with a page. Its fields are used by one action at a
// time, except the state that events change.
type session struct {
	container browser.Container
	settings  browser.Settings
	rights    browser.Rights
	rules     *network.Rules
	now       func() time.Time
	brief     time.Duration // for commands in answer to an event

	wire    *wire
	root    cdp.Session
	profile cdp.BrowserContextID
	end     context.CancelFunc // of the line of root
	endWay  func()
	life    context.Context // until Close
	die     context.CancelFunc
	once    sync.Once
	work    sync.WaitGroup

	making  atomic.Bool  // a page is being created
	windows atomic.Int64 // opened by pages; all were closed
	answers atomic.Int64 // answers to events under way

	turn    chan struct{} // holds one value while no action runs
	large   chan struct{} // holds one value while a large file is in memory
	visits  atomic.Int64  // main documents, of all pages
	permits chan struct{} // holds a value for each running call of the caller's functions
	shots   []time.Time   // of the last minute

	mu      sync.Mutex
	tab     *tab // nil if the next action has to create one
	main    target.SessionID
	folders []string // inside, to be removed

	transfers transfers
}

var _ browser.Session = (*session)(nil)

// Open starts a session: a profile of its own, whose only egress is a listener
// of its own, and a page in it. The context bounds the opening alone.
//
// The error is [sandbox.CodeUnavailable] if the browser cannot be reached.
func Open(ctx context.Context, c browser.Container, r browser.Rights, o Options) (browser.Session, error) {
	s := &session{container: c, settings: c.Settings(), rights: r, now: o.Now, endWay: func() {}}
	s.turn, s.large = make(chan struct{}, 1), make(chan struct{}, 1)
	s.permits = make(chan struct{}, maxPermits)
	s.transfers.wake = make(chan struct{}, 1)
	s.life, s.die = context.WithCancel(context.WithoutCancel(ctx))
	s.turn <- struct{}{}
	if s.now == nil {
		s.now = time.Now
	}
	if s.brief = o.brief; s.brief == 0 {
		s.brief = cleanTime
	}
	rules := s.settings.Rules
	policy, err := network.New(network.Options{
		Allowed: rules.AllowedDomains, Denied: rules.DeniedDomains, AllowPublic: rules.AllowPublic,
		AllowPrivate: rules.AllowPrivate, Ask: rules.Ask, AllowLocalBinding: rules.AllowLocalBinding,
	})
	if err != nil {
		return nil, err
	}
	s.rules, err = network.NewRules(network.RuleOptions{Schemes: s.settings.Schemes, Policy: policy, Direct: s.settings.Direct})
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, c)
	if err != nil {
		return nil, err
	}
	s.wire = newWire(conn)
	within, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	if err := s.begin(within); err != nil {
		err = s.explain(within, err)
		s.Close()
		return nil, err
	}
	return s, nil
}

// begin creates the profile and the first page.
func (s *session) begin(ctx context.Context) error {
	lineContext, end := context.WithCancel(context.WithoutCancel(ctx))
	s.end = end
	root, err := s.wire.open(lineContext, "", s.heard)
	if err != nil {
		return err
	}
	s.root = root
	proxy, err := s.openEgress(ctx)
	if err != nil {
		return err
	}
	bypass := "<-loopback>"
	if proxy == "" {
		bypass = ""
	}
	made, err := cdp.Call(ctx, root, target.CreateBrowserContext, target.CreateBrowserContextParams{
		DisposeOnDetach: new(true), ProxyServer: proxy, ProxyBypassList: bypass,
	})
	if err != nil {
		return err
	}
	s.profile = made.BrowserContextID
	if err := s.allowDownloads(ctx, ""); err != nil {
		return err
	}
	if err := s.denyPermissions(ctx); err != nil {
		return err
	}
	if err := s.holdWindows(ctx); err != nil {
		return err
	}
	t, err := openTab(ctx, s)
	s.mu.Lock()
	s.tab = t
	s.mu.Unlock()
	return err
}

// openEgress opens the egress listener of this session and returns its proxy URL; ""
// is a network of the engine.
func (s *session) openEgress(ctx context.Context) (string, error) {
	if s.settings.Direct {
		return "", nil
	}
	address, end, ok, err := s.container.OpenEgress(ctx, 0)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return nowhere, nil
	}
	s.endWay = end
	return "http://" + address.String(), nil
}

// denyPermissions has the browser deny every permission that a page may
// request.
func (s *session) denyPermissions(ctx context.Context) error {
	none := struct {
		Permissions []string             `json:"permissions"`
		Profile     cdp.BrowserContextID `json:"browserContextId"`
	}{[]string{}, s.profile}
	// Browser.grantPermissions denies everything that it does not grant.
	return s.root.Call(ctx, "Browser.grantPermissions", none, nil)
}

// heard handles an event of the browser as a whole.
func (s *session) heard(m *cdproto.Message) {
	switch string(m.Method) {
	case target.DetachedFromTarget.Method:
		if e, ok := read(m, target.DetachedFromTarget); ok {
			s.mu.Lock()
			t, mine := s.tab, s.main == e.SessionID
			s.mu.Unlock()
			s.wire.hangUp(e.SessionID)
			if mine && t != nil {
				t.end(crashed())
			}
		}
	case target.AttachedToTarget.Method:
		if e, ok := read(m, target.AttachedToTarget); ok && e.TargetInfo != nil {
			s.held(e)
		}
	case devtools.DownloadWillBegin.Method:
		if e, ok := read(m, devtools.DownloadWillBegin); ok {
			s.transfers.began(e)
		}
	case devtools.DownloadProgress.Method:
		if e, ok := read(m, devtools.DownloadProgress); ok {
			s.transfers.went(e)
		}
	}
}

// Close implements [browser.Session]. It also ends a running action.
func (s *session) Close() error {
	s.once.Do(func() {
		s.die()
		<-s.turn // not given back: no further action starts
		s.mu.Lock()
		t := s.tab
		s.tab = nil
		s.mu.Unlock()
		if t != nil {
			t.end(errClosed()) // the browser closes it with its profile
			t.work.Wait()
		}
		s.work.Wait()
		s.clean()
	})
	return nil
}

// clean removes the profile and the folders inside of this session.
func (s *session) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	if s.profile != "" {
		// If this fails, the profile ends with the connection.
		_, _ = cdp.Call(ctx, s.root, target.DisposeBrowserContext, target.DisposeBrowserContextParams{BrowserContextID: s.profile})
	}
	s.removeFolders(s.made()...)
	if s.end != nil {
		s.end()
	}
	s.wire.close()
	s.endWay()
}

// explain converts an error of the protocol: to the reason why the page or the
// connection has ended, if one has.
func (s *session) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if known := (*sandbox.Error)(nil); errors.As(err, &known) {
		return err
	}
	select {
	case <-s.life.Done():
		return errClosed()
	case <-s.wire.done:
		return lost(s.wire.reason())
	default:
	}
	if ctx.Err() != nil {
		return late(ctx, "the browser did not do it in time")
	}
	if moved(err) {
		return changed()
	}
	return &sandbox.Error{Code: sandbox.CodeExecution, Op: "browse", Message: "the browser refuses: " + shown(err.Error())}
}
