package operation

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// patience bounds every wait of a test.
const patience = time.Minute

var errPatience = errors.New("a test waited for too long")

// Shorthands for codes.
const (
	isBlocked = sandbox.CodeCapabilityBlocked
	noGrant   = sandbox.CodePermissionDeny
	noBudget  = sandbox.CodeBudgetExceeded
	noHost    = sandbox.CodeUnavailable
	tooLate   = sandbox.CodeTimeout
	badAnswer = sandbox.CodeExecution
	badInput  = sandbox.CodeValidation
)

// A world is an internet, a proxy with the rules of one sandbox, and an
// executor whose requests leave through it.
type world struct {
	*fetchExecutor
	t        testing.TB
	net      *testenv.Internet
	evidence *evidence.Store
	recorder *egress.Recorder
	server   *egress.Server
	session  proxy.Session
	inside   *Inside
	ledger   *ledger.Ledger

	mu      sync.Mutex
	secrets []string // that nothing may show
}

// rules are what the settings of a world say of hosts. No name is all of
// internet's; loopback's addresses are always allowed.
type rules struct {
	allowed, denied []string
	limits          config.NetworkLimits
	require         bool // evidence of all that passes
	options         []Options
	resolver        egress.Resolver
	lookup          time.Duration
	queue           time.Duration
}

func newWorld(t testing.TB, r rules) *world {
	t.Helper()
	w := &world{t: t, net: testenv.NewInternet(t), inside: new(Inside)}
	var err error
	w.evidence, err = evidence.Open(t.TempDir(), evidence.Options{})
	fetchMust(t, err)
	w.ledger, err = ledger.Open(t.TempDir(), ledger.Options{})
	fetchMust(t, err)
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	w.recorder, err = egress.NewRecorder(egress.RecorderOptions{Evidence: w.evidence, Log: quiet, Wait: patience, Within: patience})
	fetchMust(t, err)
	if r.resolver == nil {
		r.resolver = w.net.Names
	}
	plane := egress.New(egress.Options{
		Dialer: egress.NewDialer(egress.DialerOptions{Resolver: r.resolver, LookupTimeout: r.lookup}), Record: w.recorder.Record, Decide: w.recorder.Decide, QueueTime: r.queue,
	})
	w.server = &egress.Server{Plane: plane, Recorder: w.recorder}
	if r.allowed == nil {
		r.allowed = []string{"*.test"}
	}
	if len(r.options) == 0 {
		r.options = []Options{{Roots: w.net.Authority.Pool}}
	}
	w.open(r)
	t.Cleanup(func() {
		w.session.Close()
		plane.Close()
		w.recorder.Close()
		w.evidence.Close()
	})
	return w
}

// open opens the egress session with the rules, in which HTTP and HTTPS stand
// for the ports of the internet.
func (w *world) open(r rules) {
	w.t.Helper()
	ports := strings.NewReplacer("HTTPS", strconv.Itoa(w.net.Port("https")), "HTTP", strconv.Itoa(w.net.Port("http")))
	allowed := []string{"127.0.0.1"}
	for _, rule := range r.allowed {
		allowed = append(allowed, ports.Replace(rule))
	}
	var err error
	w.session, err = w.server.Open(w.t.Context(), w.inside, proxy.Options{
		Sandbox: "box", Owner: sandbox.Owner{Tenant: "acme"}, Limits: r.limits, Require: r.require,
		Rules: sandbox.EgressRules{AllowedDomains: allowed, DeniedDomains: r.denied},
	})
	fetchMust(w.t, err)
	w.fetchExecutor = NewFetchExecutor(spied{w.session, w}, w.inside, r.options[0]).Patient()
}

// spied is an egress session that reports the credentials that it gives out to
// its world.
type spied struct {
	proxy.Session
	w *world
}

func (s spied) Command(id string, o proxy.Command) proxy.Caller {
	c := s.Session.Command(id, o)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	_, rest, _ := strings.Cut(c.Env()["HTTP_PROXY"], ":")
	_, rest, _ = strings.Cut(rest, ":")
	token, _, _ := strings.Cut(rest, "@")
	s.w.secrets = append(s.w.secrets, token)
	return c
}

// A wish is a request with what is allowed to it.
type wish struct {
	method, url string
	header      map[string]string
	data        []byte
	timeout     time.Duration

	guard   func(*grant.Policy) // narrows what the guard allows
	bound   budget.Amount       // zero is without bound
	keep    int64               // zero is 1 MiB
	ctx     context.Context
	id      string
	revoked bool // when the guard is asked again
}

// A deed is what came of a wish.
type deed struct {
	Output
	err     error
	effects []evidence.Effect
	used    budget.Amount
}

// guardOf makes the guard of a tool that may do any request, to the hosts of
// the internet and more, that the policy does not forbid.
func guardOf(t testing.TB, change func(*grant.Policy), more ...string) *grant.Guard {
	t.Helper()
	var all []grant.Capability
	for _, host := range append(more, "*.test") {
		all = append(all, grant.Capability{Kind: grant.NetHTTP, Host: host, Methods: []string{"*"}})
	}
	now := time.Now()
	p := grant.Policy{
		Version: "1", Capabilities: all, Safety: grant.SafetyLow, Mappings: grant.Mappings{Root: "/workspace", Tmp: "/tmp/x"},
		Limits: grant.Limits{MaxBytesIn: 1 << 20, MaxBytesOut: 1 << 20},
	}
	if change != nil {
		change(&p)
	}
	profile, err := grant.Build(
		grant.Grant{
			ID: "g-1", Tenant: "acme", Subject: "alice", Session: "chat-42", Tool: "reader", Call: "c-1", Capabilities: all, DecisionKey: "dk",
			Budget: budget.NoBound(), Issued: now.Add(-time.Minute), Expires: now.Add(time.Hour),
		},
		grant.Manifest{Tool: "reader", Version: "1.0.0", Capabilities: all, Safety: grant.SafetyLow, SideEffects: []grant.SideEffect{grant.EffectNetwork}},
		p, now)
	fetchMust(t, err)
	g, err := grant.Compile(profile)
	fetchMust(t, err)
	return g
}

// do has the guard check the request, and executes it.
func (w *world) do(q wish) deed {
	w.t.Helper()
	g := guardOf(w.t, q.guard)
	state := func() grant.State { return grant.State{Now: time.Now(), Revoked: q.revoked} }
	op := grant.Operation{Kind: grant.OpNetHTTP, Method: cmp.Or(q.method, "GET"), URL: q.url, Header: q.header, Data: q.data, Timeout: q.timeout}
	v, err := g.Check(op, grant.State{Now: time.Now()})
	if err != nil {
		w.t.Fatalf("the guard refuses before anything is done: %v", err)
	}
	if q.bound == (budget.Amount{}) {
		q.bound = budget.NoBound()
	}
	if q.ctx == nil {
		q.ctx = context.Background()
	}
	ctx, cancel := context.WithTimeoutCause(q.ctx, patience, errPatience)
	defer cancel()
	account, err := w.ledger.Account(ctx, ledger.Limit{ID: "grant:" + strconv.FormatInt(time.Now().UnixNano(), 10), Bound: q.bound}, ledger.Limit{ID: "tenant:acme", Bound: budget.NoBound()})
	fetchMust(w.t, err)
	m, ctx, err := budget.Start(ctx, account, budget.One(budget.Calls, 1))
	fetchMust(w.t, err)
	call := &Call{ID: q.id, Guard: g, Meter: m, State: state, Keep: cmp.Or(q.keep, 1<<20)}
	var d deed
	d.Output, d.err = w.Execute(ctx, call, v)
	if context.Cause(ctx) == errPatience {
		w.t.Fatal(errPatience)
	}
	d.used, err = m.End()
	fetchMust(w.t, err)
	d.effects, _ = call.Effects()
	w.holds(d)
	return d
}

// says has a host answer all requests with these bytes, and hang up.
func (w *world) says(name, text string) {
	w.net.Handle(name, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			w.t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, text)
	}))
}

// statuses are those of the effects.
func statuses(d deed) (list []int) {
	for _, e := range d.effects {
		list = append(list, e.Status)
	}
	return list
}

func wantStatuses(t testing.TB, d deed, want ...int) {
	t.Helper()
	if !slices.Equal(statuses(d), want) {
		t.Errorf("effects with %v, want %v: %+v", statuses(d), want, d.effects)
	}
}

func fetchMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
