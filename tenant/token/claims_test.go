package token

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/tenant"
)

func TestClaims(t *testing.T) {
	later := soon()
	for name, tt := range map[string]struct {
		claims Claims
		field  string // at fault, or empty
	}{
		"admin":                 {Claims{Role: Admin}, ""},
		"tenant":                {Claims{Role: Tenant, Tenant: "acme"}, ""},
		"one agent":             {Claims{Role: Tenant, Tenant: "acme", Agent: "main"}, ""},
		"session":               {Claims{Role: Session, Tenant: "acme", Session: "s", Expires: later}, ""},
		"session of an agent":   {Claims{Role: Session, Tenant: "acme", Agent: "main", Session: "s", Expires: later, Note: "für Ärzte"}, ""},
		"no role":               {Claims{Tenant: "acme"}, "role"},
		"another role":          {Claims{Role: "root", Tenant: "acme"}, "role"},
		"admin of one tenant":   {Claims{Role: Admin, Tenant: "acme"}, "tenant"},
		"admin of one agent":    {Claims{Role: Admin, Agent: "main"}, "agent"},
		"admin of one session":  {Claims{Role: Admin, Session: "s"}, "session"},
		"nobody's":              {Claims{Role: Tenant}, "tenant"},
		"tenant of one session": {Claims{Role: Tenant, Tenant: "acme", Session: "s"}, "session"},
		"no session":            {Claims{Role: Session, Tenant: "acme", Expires: later}, "session"},
		"session of no tenant":  {Claims{Role: Session, Session: "s", Expires: later}, "tenant"},
		"session for ever":      {Claims{Role: Session, Tenant: "acme", Session: "s", Endless: true}, "expires"},
		"an end and none":       {Claims{Role: Admin, Expires: later, Endless: true}, "expires"},
		"expired":               {Claims{Role: Admin, Expires: time.Now().Add(-time.Second)}, "expires"},
		"before all time":       {Claims{Role: Admin, Expires: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}, "expires"},
		"after all time":        {Claims{Role: Admin, Expires: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "expires"},
		"a control sign":        {Claims{Role: Tenant, Tenant: "ac\x1bme"}, "tenant"},
		"a line feed":           {Claims{Role: Admin, Note: "a\nb"}, "note"},
		"text that is none":     {Claims{Role: Tenant, Tenant: "a", Agent: "\xff"}, "agent"},
		"a long name":           {Claims{Role: Tenant, Tenant: strings.Repeat("a", maxName+1)}, "tenant"},
		"a path for a parent":   {Claims{Role: Admin, Parent: "../../etc/passwd"}, "id"},
		"quota that is none":    {Claims{Role: Admin, Quota: &tenant.Limits{Disk: -5}}, "quota.disk"},
		"budget that is none":   {Claims{Role: Admin, Budget: &budget.Amount{Calls: -5}}, "budget.calls"},
		"quota and budget":      {Claims{Role: Admin, Quota: &tenant.Limits{}, Budget: &budget.Amount{}}, ""},
		"a parent there is not": {Claims{Role: Tenant, Tenant: "acme", Parent: strings.Repeat("a", idLength)}, "parent"},
		"names as long as can be": {Claims{Role: Session, Tenant: strings.Repeat("<", maxName), Agent: strings.Repeat("&", maxName), Session: strings.Repeat(`"`, maxName),
			Note: strings.Repeat("ä", maxName/2), Expires: later}, ""},
	} {
		s := open(t, t.TempDir())
		secret, id, err := s.Create(tt.claims)
		if tt.field == "" {
			if got := wantGood(t, s, secret); err != nil || got.ID != id || got.Role != tt.claims.Role || got.Tenant != tt.claims.Tenant || got.Note != tt.claims.Note {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		want := sandbox.CodeValidation
		if tt.field == "parent" {
			want = sandbox.CodePermissionDeny
		}
		wantCode(t, err, want, tt.field)
		if secret != "" || id != "" || len(files(t, s)) > 0 || Refused(err) {
			t.Errorf("%s: a token was made, or the caller's is at fault: %v", name, err)
		}
	}
}

// TestEnds checks that a token is without an end only where that was asked for,
// and never outlives what it was made from.
func TestEnds(t *testing.T) {
	s := open(t, t.TempDir())
	_, short := make1(t, s, Claims{Role: Tenant, Tenant: "acme", Expires: soon()})
	_, endless := make1(t, s, Claims{Role: Tenant, Tenant: "acme", Endless: true})
	for name, tt := range map[string]struct {
		claims Claims
		want   time.Time // zero: never
	}{
		"without a parent":                   {Claims{Role: Admin}, time.Now().Add(Usual)},
		"without a parent, endless":          {Claims{Role: Admin, Endless: true}, time.Time{}},
		"of one that ends":                   {Claims{Role: Tenant, Parent: short}, soon()},
		"of one without an end":              {Claims{Role: Tenant, Parent: endless}, time.Now().Add(Usual)},
		"for a session":                      {Claims{Role: Session, Session: "s", Parent: endless}, time.Now().Add(Usual)},
		"of one without an end, and neither": {Claims{Role: Tenant, Parent: endless, Endless: true}, time.Time{}},
	} {
		secret, _ := make1(t, s, tt.claims)
		got := wantGood(t, s, secret).Expires
		if got.IsZero() != tt.want.IsZero() || got.Sub(tt.want).Abs() > time.Minute {
			t.Errorf("%s: it ends %v, want %v", name, got, tt.want)
		}
	}
	_, _, err := s.Create(Claims{Role: Tenant, Parent: short, Endless: true})
	wantCode(t, err, sandbox.CodePermissionDeny, "expires")
}

func TestAllows(t *testing.T) {
	one := Claims{Role: Session, Tenant: "acme", Session: "s"}
	for _, tt := range []struct {
		claims                 Claims
		tenant, agent, session string
		want                   bool
	}{
		{Claims{Role: Admin}, "acme", "main", "s", true},
		{Claims{Role: Admin}, "", "", "", true},
		{acme(), "acme", "main", "s", true},
		{acme(), "acme", "", "", true},
		{acme(), "acme2", "main", "s", false},
		{acme(), "", "main", "s", false},
		{acme(), "Acme", "main", "s", false},
		{Claims{Role: Tenant, Tenant: "acme", Agent: "main"}, "acme", "main", "s", true},
		{Claims{Role: Tenant, Tenant: "acme", Agent: "main"}, "acme", "other", "s", false},
		{Claims{Role: Tenant, Tenant: "acme", Agent: "main"}, "acme", "", "s", false},
		{one, "acme", "main", "s", true},
		{one, "acme", "other", "s", false},
		{Claims{Role: Session, Tenant: "acme", Agent: "other", Session: "s"}, "acme", "other", "s", true},
		{Claims{Role: Session, Tenant: "acme", Agent: "other", Session: "s"}, "acme", "main", "s", false},
		{one, "acme", "main", "s2", false},
		{one, "acme", "main", "", false},
		{one, "other", "main", "s", false},
		{Claims{}, "", "", "", false},
		{Claims{Tenant: "acme"}, "acme", "", "", false},
	} {
		if got := tt.claims.Allows(tt.tenant, tt.agent, tt.session); got != tt.want {
			t.Errorf("%+v allows %q, %q, %q: %v", tt.claims, tt.tenant, tt.agent, tt.session, got)
		}
	}
}

// TestChildrenHaveLess tries each way of having more, and what is as much.
func TestChildrenHaveLess(t *testing.T) {
	until := soon()
	limits, amount := tenant.NoLimits().With(tenant.Sandboxes, 2), budget.NoBound()
	amount.Calls = 10
	bounded := Claims{Role: Tenant, Tenant: "acme", Agent: "main", Expires: until, Quota: &limits, Budget: &amount}
	single := Claims{Role: Session, Tenant: "acme", Session: "s", Expires: until}
	for name, tt := range map[string]struct {
		parent, child Claims
		field         string // of which it would be more, or empty
	}{
		"admin of admin":       {Claims{Role: Admin}, Claims{Role: Admin}, ""},
		"tenant of admin":      {Claims{Role: Admin}, acme(), ""},
		"session of admin":     {Claims{Role: Admin}, single, ""},
		"admin of tenant":      {acme(), Claims{Role: Admin}, "role"},
		"tenant of tenant":     {acme(), Claims{Role: Tenant}, ""},
		"another tenant":       {acme(), Claims{Role: Tenant, Tenant: "other"}, "tenant"},
		"session of tenant":    {acme(), single, ""},
		"tenant of session":    {single, Claims{Role: Tenant}, "role"},
		"the same session":     {single, Claims{Role: Session}, ""},
		"another session":      {single, Claims{Role: Session, Session: "s2"}, "session"},
		"less in all":          {bounded, Claims{Role: Session, Session: "s"}, ""},
		"the same agent":       {bounded, Claims{Role: Tenant, Agent: "main"}, ""},
		"another agent":        {bounded, Claims{Role: Tenant, Agent: "other"}, "agent"},
		"a moment longer":      {bounded, Claims{Role: Tenant, Expires: until.Add(time.Second)}, "expires"},
		"a moment shorter":     {bounded, Claims{Role: Tenant, Expires: until.Add(-time.Second)}, ""},
		"a larger quota":       {bounded, Claims{Role: Tenant, Quota: new(limits.With(tenant.Sandboxes, 3))}, "quota.sandboxes"},
		"no quota":             {bounded, Claims{Role: Tenant, Quota: new(tenant.NoLimits())}, "quota.sandboxes"},
		"a smaller quota":      {bounded, Claims{Role: Tenant, Quota: &tenant.Limits{Sandboxes: 1}}, ""},
		"a larger budget":      {bounded, Claims{Role: Tenant, Budget: &budget.Amount{Calls: 11}}, "budget.calls"},
		"no budget":            {bounded, Claims{Role: Tenant, Budget: new(budget.NoBound())}, "budget.calls"},
		"a smaller budget":     {bounded, Claims{Role: Tenant, Budget: &budget.Amount{Calls: 10}}, ""},
		"quota below nobody's": {acme(), Claims{Role: Tenant, Quota: &limits}, ""},
	} {
		s := open(t, t.TempDir())
		_, id := make1(t, s, tt.parent)
		child := tt.child
		child.Parent = id
		secret, _, err := s.Create(child)
		if tt.field != "" {
			if code := sandbox.CodeOf(err); code != sandbox.CodePermissionDeny && code != sandbox.CodeValidation || len(files(t, s)) != 1 || Refused(err) {
				t.Errorf("%s: %v", name, err)
			}
			wantCode(t, err, sandbox.CodeOf(err), tt.field)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := wantGood(t, s, secret)
		if got.within(got.Above[0].Claims) != nil || got.Above[0].ID != id || got.Tenant != "acme" && got.Role != Admin {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestNoLineGrows makes lines of children as chance has it: whatever is made
// allows nothing that one above it does not, and so does each thing it names.
func TestNoLineGrows(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	made, refused := 0, 0
	for range 150 {
		s := open(t, t.TempDir())
		first := someClaims(r)
		_, parent, err := s.Create(first)
		for err == nil {
			next := someClaims(r)
			next.Parent = parent
			var secret, id string
			if secret, id, err = s.Create(next); err != nil {
				refused++
				break
			}
			made++
			got := wantGood(t, s, secret)
			for _, above := range got.Above {
				wantLess(t, got.Claims, above.Claims)
			}
			parent = id
		}
	}
	if made < 50 || refused < 50 {
		t.Errorf("only %d made and %d refused", made, refused)
	}
}

func wantLess(t *testing.T, c, above Claims) {
	t.Helper()
	for _, tenant := range []string{"", "t0", "t1"} {
		for _, agent := range []string{"", "a0", "a1"} {
			for _, session := range []string{"", "s0", "s1"} {
				if c.Allows(tenant, agent, session) && !above.Allows(tenant, agent, session) {
					t.Fatalf("%+v allows %q, %q, %q, and %+v does not", c, tenant, agent, session, above)
				}
			}
		}
	}
	if !above.Expires.IsZero() && (c.Expires.IsZero() || c.Expires.After(above.Expires)) {
		t.Fatalf("%+v outlives %+v", c, above)
	}
	if above.Quota != nil {
		for k := range tenant.NumKinds {
			if bound, n := above.Quota.Of(k), c.Quota.Of(k); bound >= 0 && (n < 0 || n > bound) {
				t.Fatalf("%v of %+v is more than of %+v", k, c.Quota, above.Quota)
			}
		}
	}
}

func someClaims(r *rand.Rand) Claims {
	pick := func(name string) string {
		if n := r.IntN(3); n < 2 {
			return fmt.Sprint(name, n)
		}
		return ""
	}
	c := Claims{Role: []Role{Admin, Tenant, Tenant, Session}[r.IntN(4)], Tenant: pick("t"), Agent: pick("a"), Session: pick("s")}
	if r.IntN(2) == 0 || c.Role == Session {
		c.Expires = time.Now().Add(time.Duration(1+r.IntN(3)) * time.Hour)
	}
	if r.IntN(2) == 0 {
		c.Quota = &tenant.Limits{Sandboxes: r.Int64N(4) - 1, Commands: r.Int64N(4) - 1}
	}
	if c.Role == Admin {
		c.Tenant, c.Agent = "", ""
	}
	if c.Role != Session {
		c.Session = ""
	}
	return c
}
