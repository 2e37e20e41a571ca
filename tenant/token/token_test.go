package token

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tenant"
)

func TestCreateAndVerify(t *testing.T) {
	s := open(t, t.TempDir())
	limits := tenant.NoLimits().With(tenant.Commands, 3)
	claims := Claims{Role: Tenant, Tenant: "acme", Agent: "main", Expires: soon(), Quota: &limits, Note: "the web shop"}
	secret, id := make1(t, s, claims)
	limits.Commands = 100 // the caller's own, from now on
	for _, store := range []*Store{s, s, open(t, s.dir)} {
		got := wantGood(t, store, secret)
		if got.ID != id || got.Tenant != "acme" || got.Agent != "main" || got.Note != "the web shop" || !got.Expires.Equal(claims.Expires.Truncate(time.Millisecond)) || time.Since(got.Created).Abs() > time.Hour {
			t.Errorf("got %+v", got)
		}
		if a := got.Accounts("acme", tenant.Limits{}); len(a) != 2 || a[0].Name != "tenant acme" || a[1].Limits.Commands != 3 || a[1].Name != "token "+id {
			t.Errorf("accounts %+v", a)
		}
		got.Quota.Commands = 1000 // is the caller's own, too
	}
	other, _ := make1(t, s, acme())
	if other == secret {
		t.Error("two tokens have one secret")
	}
	wantRefused(t, s, newSecret(), unknown)
	for _, bad := range []string{"", "sbx_", secret[:len(secret)-1], secret + " ", strings.ToLower(secret), "../" + id, id} {
		wantRefused(t, s, bad, malformed)
	}
}

// TestNothingKeptIsASecret checks that neither names nor contents of files, nor
// the list, reveal a secret or its random part.
func TestNothingKeptIsASecret(t *testing.T) {
	s := open(t, t.TempDir())
	secret, id := make1(t, s, acme())
	l, err := s.List()
	must(t, err)
	kept := contents(t, s) + fmt.Sprintf("%+v", l)
	for n := 0; n+8 <= len(secret); n++ {
		if strings.Contains(kept, secret[n:n+8]) {
			t.Fatalf("%q of the secret is kept", secret[n:n+8])
		}
	}
	hash := hashOf(secret)
	if !strings.Contains(kept, hex.EncodeToString(hash[:])) || strings.Contains(hex.EncodeToString(hash[:]), id) {
		t.Error("the hash is not kept, or the id is a part of it")
	}
	fi, err := os.Stat(s.path(id))
	must(t, err)
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v", fi.Mode())
	}
}

func TestExpiry(t *testing.T) {
	s := open(t, t.TempDir())
	now := time.Now()
	s.now = func() time.Time { return now }
	expires := now.Add(time.Hour).Truncate(time.Millisecond)
	parent, id := make1(t, s, Claims{Role: Tenant, Tenant: "acme", Expires: expires})
	child, _ := make1(t, s, Claims{Role: Tenant, Parent: id})
	now = expires.Add(-1)
	wantGood(t, s, parent)
	wantGood(t, s, child)
	now = expires
	wantRefused(t, s, parent, "expired")
	wantRefused(t, s, child, "expired")
	_, err := s.Get(id)
	wantCode(t, err, sandbox.CodePermissionDeny, "id")
	_, _, err = s.Create(Claims{Role: Tenant, Parent: id})
	wantCode(t, err, sandbox.CodePermissionDeny, "parent")
}

func TestRevoke(t *testing.T) {
	s := open(t, t.TempDir())
	here, there := s, open(t, s.dir)
	root, rootID := make1(t, s, acme())
	child, childID := make1(t, s, Claims{Role: Tenant, Parent: rootID})
	leaf, leafID := make1(t, s, chat(childID))
	beside, besideID := make1(t, s, chat(rootID))
	other, _ := make1(t, s, acme())
	for _, secret := range []string{root, child, leaf, beside, other} {
		wantGood(t, here, secret)
		wantGood(t, there, secret)
	}
	if got := wantGood(t, there, leaf); len(got.Above) != 2 || got.Above[0].ID != childID || got.Above[1].ID != rootID {
		t.Errorf("above it are %+v", got.Above)
	}
	fallen, err := here.Revoke(childID)
	if err != nil || !slices.Equal(fallen, []string{childID, leafID}) {
		t.Errorf("fell %v, %v", fallen, err)
	}
	for _, store := range []*Store{here, there} {
		wantRefused(t, store, child, unknown)
		wantRefused(t, store, leaf, unknown)
		wantGood(t, store, root)
		wantGood(t, store, beside)
	}
	if fallen, err = there.Revoke(rootID); err != nil || !slices.Equal(fallen, []string{rootID, besideID}) {
		t.Errorf("fell %v, %v", fallen, err)
	}
	wantRefused(t, here, beside, unknown)
	wantGood(t, here, other)
	_, err = here.Revoke(rootID)
	wantCode(t, err, sandbox.CodeNotFound, "")
	_, err = here.Get(rootID)
	wantCode(t, err, sandbox.CodeNotFound, "")
	for _, bad := range []string{"", "..", "../" + besideID, root, strings.ToUpper(besideID), "."} {
		_, err := here.Revoke(bad)
		wantCode(t, err, sandbox.CodeValidation, "id")
		wantNoPart(t, err, root)
	}
}

// TestRevokedElsewhere checks that what another process revokes is refused by
// this one at its next look, and a child whose file stays with it.
func TestRevokedElsewhere(t *testing.T) {
	s := open(t, t.TempDir())
	secret, id := make1(t, s, acme())
	child, childID := make1(t, s, chat(id))
	kept, err := os.ReadFile(s.path(childID))
	must(t, err)
	wantGood(t, s, secret)
	wantGood(t, s, child)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "REVOKE_IN="+s.dir, "REVOKE_ID="+id)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wantRefused(t, s, secret, unknown)
	wantRefused(t, s, child, unknown)
	must(t, os.WriteFile(s.path(childID), kept, 0o600)) // as if it had not been reached
	wantRefused(t, s, child, "made from was revoked")
	if _, _, err := s.Create(Claims{Role: Session, Session: "chat-42", Parent: childID}); err == nil {
		t.Error("a fallen token has children")
	}
}

// TestRevokedWithoutDisk checks that a token that could not be taken off the
// disk is refused here all the same.
func TestRevokedWithoutDisk(t *testing.T) {
	s := open(t, t.TempDir())
	secret, id := make1(t, s, acme())
	child, _ := make1(t, s, chat(id))
	data, err := os.ReadFile(s.path(id))
	must(t, err)
	// A folder that is not empty cannot be removed like a file.
	must(t, os.Remove(s.path(id)))
	must(t, os.Mkdir(s.path(id), 0o700))
	must(t, os.WriteFile(filepath.Join(s.path(id), "x"), nil, 0o600))
	_, err = s.Revoke(id)
	wantCode(t, err, sandbox.CodeUnavailable, "")
	must(t, os.RemoveAll(s.path(id)))
	must(t, os.WriteFile(s.path(id), data, 0o600))
	wantRefused(t, s, secret, unknown)
	wantRefused(t, s, child, "made from was revoked")
	wantGood(t, open(t, s.dir), secret) // elsewhere it is not known
}

func TestDepth(t *testing.T) {
	s := open(t, t.TempDir())
	_, id := make1(t, s, acme())
	for n := 2; n <= maxDepth; n++ {
		var secret string
		secret, id = make1(t, s, Claims{Role: Tenant, Parent: id})
		if got := wantGood(t, s, secret); len(got.Above) != n-1 {
			t.Fatalf("%d are above number %d", len(got.Above), n)
		}
	}
	_, _, err := s.Create(Claims{Role: Tenant, Parent: id})
	wantCode(t, err, sandbox.CodePermissionDeny, "parent")
}

// TestQuotasAddUp checks that children share what their parent has, however many
// there are and whatever each may have.
func TestQuotasAddUp(t *testing.T) {
	s := open(t, t.TempDir())
	_, id := make1(t, s, Claims{Role: Tenant, Tenant: "acme", Quota: new(tenant.NoLimits().With(tenant.Sandboxes, 2))})
	keeper := tenant.New(time.Now)
	for n := range 3 {
		secret, _ := make1(t, s, Claims{Role: Tenant, Parent: id})
		_, err := keeper.Acquire(tenant.Want{Sandboxes: 1}, wantGood(t, s, secret).Accounts("acme", tenant.NoLimits())...)
		if n < 2 && err != nil || n == 2 && (sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded || !strings.Contains(err.Error(), "sandboxes")) {
			t.Errorf("child %d: %v", n, err)
		}
	}
}

// TestAtOnce makes, checks and revokes in many goroutines, with two stores as
// two processes have them. After a revocation no store accepts the token.
func TestAtOnce(t *testing.T) {
	a, b := open(t, t.TempDir()), (*Store)(nil)
	b = open(t, a.dir)
	root, rootID := make1(t, a, acme())
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 15 {
				secret, id, err := a.Create(chat(rootID))
				if err != nil {
					t.Error(err)
					return
				}
				wantGood(t, b, secret)
				wantGood(t, a, root)
				if _, err := b.Revoke(id); err != nil {
					t.Error(err)
				}
				wantRefused(t, a, secret, unknown)
			}
		})
	}
	wg.Wait()
	if got := files(t, a); len(got) != 1 {
		t.Errorf("left are %v", got)
	}
}

// TestOneTenantIsBounded checks that a tenant cannot fill the disk, and that
// others do not feel it.
func TestOneTenantIsBounded(t *testing.T) {
	s := open(t, t.TempDir())
	make1(t, s, acme())
	s.count[account{tenant: "acme"}] = maxPerTenant
	_, _, err := s.Create(acme())
	wantCode(t, err, sandbox.CodeBudgetExceeded, "quota.tokens")
	if after, ok := tenant.RetryAfter(err); !ok || after != tidying {
		t.Errorf("to retry after %v", after)
	}
	make1(t, s, Claims{Role: Tenant, Tenant: "other"})
	s.swept = time.Time{}
	make1(t, s, acme()) // counted anew
	if s.count[account{tenant: "acme"}] != 2 || s.count[account{tenant: "other"}] != 1 {
		t.Errorf("counted %v", s.count)
	}
}

// TestOneSessionIsBounded checks that the bearer of a session token, which
// makes others and revokes them, leaves the other sessions of the tenant
// theirs.
func TestOneSessionIsBounded(t *testing.T) {
	s := open(t, t.TempDir())
	soon := s.now().Add(time.Hour)
	of := func(session string) Claims {
		return Claims{Role: Session, Tenant: "acme", Session: session, Expires: soon}
	}
	_, parent := make1(t, s, of("greedy"))
	child := of("greedy")
	child.Parent = parent
	has, last := 1, ""
	for n := 1; ; n++ {
		if n > 2000 {
			t.Fatal("a session makes tokens without end")
		}
		_, id, err := s.Create(child)
		if err != nil {
			wantCode(t, err, sandbox.CodeBudgetExceeded, "quota.tokens")
			break
		}
		if has, last = has+1, id; n%8 == 0 {
			if _, err := s.Revoke(id); err != nil {
				t.Fatal(err)
			}
			has--
		}
	}
	if has != maxPerSession {
		t.Errorf("a session has %d", has)
	}
	if _, err := s.Revoke(last); err != nil {
		t.Fatal(err)
	}
	make1(t, s, child) // what was taken back makes room
	if _, _, err := s.Create(child); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("one more than there is room for: %v", err)
	}
	make1(t, s, of("other"))
	make1(t, s, acme())
}

// TestChildrenAreBounded checks that a tenant has no more tokens made from
// others than it may, however many callers ask at one time; that revoked and
// expired ones make room at once; and that no other tenant is affected.
func TestChildrenAreBounded(t *testing.T) {
	most := map[string]int64{"acme": 5, "other": 5}
	s, err := Open(t.TempDir(), AtMost(func(tenant string) int64 { return most[tenant] }))
	if err != nil {
		t.Fatal(err)
	}
	_, root := make1(t, s, acme())
	_, other := make1(t, s, Claims{Role: Tenant, Tenant: "other"})
	child := Claims{Role: Tenant, Parent: root}
	var mu sync.Mutex
	var made []string
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			_, id, err := s.Create(child)
			if err != nil {
				wantCode(t, err, sandbox.CodeBudgetExceeded, "quota.tokens")
				return
			}
			mu.Lock()
			made = append(made, id)
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(made) != 5 {
		t.Fatalf("%d were made", len(made))
	}
	grandchild := Claims{Role: Tenant, Parent: made[0]}
	if _, _, err := s.Create(grandchild); err == nil {
		t.Error("a child makes one more")
	} else if after, ok := tenant.RetryAfter(err); !ok || after > time.Second {
		t.Errorf("to retry after %v", after)
	}
	make1(t, s, acme()) // from none
	make1(t, s, Claims{Role: Tenant, Parent: other})
	if _, err := s.Revoke(made[1]); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	make1(t, s, Claims{Role: Tenant, Parent: root, Expires: now.Add(time.Minute)})
	if _, _, err := s.Create(child); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("one more than there is room for: %v", err)
	}
	s.now = func() time.Time { return now.Add(2 * time.Minute) }
	make1(t, s, child) // instead of the one that has expired
	if _, _, err := s.Create(child); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("one more than there is room for: %v", err)
	}
	most["acme"] = -1
	make1(t, s, child)
}

// TestForgets checks that a process remembers a bounded number of records.
func TestForgets(t *testing.T) {
	s := open(t, t.TempDir())
	secret, id := make1(t, s, acme())
	for n := range maxKnown {
		s.known[fmt.Sprint(n)] = known{}
	}
	wantGood(t, s, secret)
	if len(s.known) != 1 || s.known[id].record.ID != id {
		t.Errorf("%d are known", len(s.known))
	}
}

func BenchmarkVerify(b *testing.B) {
	s := open(b, b.TempDir())
	root, rootID := make1(b, s, acme())
	child, _ := make1(b, s, chat(rootID))
	for name, secret := range map[string]string{"root": root, "child": child} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				wantGood(b, s, secret)
			}
		})
	}
	b.Run("unknown", func(b *testing.B) {
		secret := newSecret()
		for b.Loop() {
			if _, err := s.Verify(secret); !Refused(err) {
				b.Fatal(err)
			}
		}
	})
}
