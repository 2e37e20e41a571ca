package admission

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// TestRestartKeepsTheQuotasOfTokens holds that what a token's bearer has made
// counts for the token after a restart, too.
func TestRestartKeepsTheQuotasOfTokens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "marks")
	start := func() *Admission {
		return admission(t, Options{Rules: limited(tenant.NoLimits()), Dir: dir})
	}
	quotas := map[string]tenant.Limits{"parent": tenant.NoLimits().With(tenant.Sandboxes, 2)}
	ctx := WithCaller(t.Context(), bearing("a", quotas, "child", "parent"))
	there := &inventory{}
	a := start()
	for _, n := range []int{1, 2} {
		mustHold(t, ctx, a, plain("a", n))
		there.put(plain("a", n))
	}
	mustHold(t, t.Context(), a, plain("a", 3)) // by a caller without a token
	there.put(plain("a", 3))

	a = start()
	reconcile(t, a, there)
	wantHeld(t, a, "a", sandboxes(3))
	_, err := a.Hold(ctx, plain("a", 4))
	wantExceeded(t, err, tenant.Sandboxes, "token parent")
	a.Gone(plain("a", 1).Name)
	there.take(plain("a", 1).Name)
	mustHold(t, ctx, a, plain("a", 4))

	// The mark of a removed sandbox is removed, however the sandbox went.
	a = start()
	reconcile(t, a, &inventory{})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestDamagedMarkCountsForTheTenant(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "marks")
	a := admission(t, Options{Rules: limited(tenant.NoLimits()), Dir: dir})
	there := &inventory{}
	for n, content := range []string{`["token x"`, `["tenant b", "token y", "token y"]`, string(make([]byte, maxMark+1)), `{}`} {
		f := plain("a", n)
		there.put(f)
		if err := os.WriteFile(filepath.Join(dir, f.Name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reconcile(t, a, there)
	wantHeld(t, a, "a", sandboxes(4))
	wantHeld(t, a, "b", tenant.Want{})
}

// A sandbox whose mark cannot be written is not made, because it could not be
// counted after a restart.
func TestHoldWithoutADisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "marks")
	a := admission(t, Options{Rules: limited(tenant.NoLimits()), Dir: dir})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	quotas := map[string]tenant.Limits{"one": tenant.NoLimits()}
	_, err := a.Hold(WithCaller(t.Context(), bearing("a", quotas, "one")), plain("a", 1))
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("got %v, want that it cannot be remembered", err)
	}
	wantHeld(t, a, "a", tenant.Want{})
	mustHold(t, t.Context(), a, plain("a", 1)) // needs none
}
