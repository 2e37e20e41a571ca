package evidence

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestKeyIsWhereTheStateFolderHasIt checks the default of Options.KeyFile.
func TestKeyIsWhereTheStateFolderHasIt(t *testing.T) {
	state, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, state.Evidence(), Options{})
	if _, err := os.Lstat(state.EvidenceKey()); err == nil {
		t.Error("a key is made before anything is written")
	}
	if k, err := s.PublicKey(); k != nil || err != nil {
		t.Errorf("key %v, %v", k, err)
	}
	query(t, s, Filter{AllTenants: true})
	add(t, s, of("acme", 0, 1)...)
	fi, err := os.Lstat(state.EvidenceKey())
	if err != nil || fi.Mode() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
	other := open(t, t.TempDir(), Options{KeyFile: state.EvidenceKey()})
	a, errA := s.PublicKey()
	b, errB := other.PublicKey()
	if errA != nil || errB != nil || !a.Equal(b) {
		t.Errorf("%v, %v: %v, %v", a, b, errA, errB)
	}
}

// TestKeyIsMadeOnce checks that of many that begin at once all sign with one key.
func TestKeyIsMadeOnce(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				s, err := Open(dir, Options{Sync: SyncOff})
				if err == nil {
					err = s.Append(t.Context(), of("acme", n, n+1)...)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		r := audit(t, open(t, dir, Options{}), "acme")
		if !r.OK() || r.Records != 8 || len(r.Keys) != 1 {
			t.Fatalf("%d records, keys %v, broken %+v", r.Records, r.Keys, r.Broken)
		}
		left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".evidence-key-*"))
		if err != nil || len(left) > 0 {
			t.Fatalf("left behind: %v, %v", left, err)
		}
	}
}

// TestKeyIsRefused checks that a key which is not as it was made is neither used
// nor replaced, that the error says what to do, and that nothing is recorded.
func TestKeyIsRefused(t *testing.T) {
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		spoil func(path string)
		code  sandbox.Code
		says  string
	}{
		"others may read it": {func(p string) { must(os.Chmod(p, 0o644)) }, sandbox.CodePermissionDeny, "open to others (mode 0644)"},
		"its group may":      {func(p string) { must(os.Chmod(p, 0o640)) }, sandbox.CodePermissionDeny, "open to others (mode 0640)"},
		"it is another's": {func(p string) {
			if os.Geteuid() != 0 {
				testenv.Lack(t, "root", "giving a file away needs it")
			}
			must(os.Chown(p, 4711, -1))
		}, sandbox.CodePermissionDeny, "belongs to uid 4711"},
		"it is short": {func(p string) { must(os.Truncate(p, int64(secretSize)-1)) }, sandbox.CodeUnavailable, "does not hold a key"},
		"it is empty": {func(p string) { must(os.Truncate(p, 0)) }, sandbox.CodeUnavailable, "does not hold a key"},
		"it is long":  {func(p string) { must(os.Truncate(p, 1<<20)) }, sandbox.CodeUnavailable, "does not hold a key"},
		"it is a link": {func(p string) {
			must(os.Rename(p, p+".real"))
			must(os.Symlink(p+".real", p))
		}, sandbox.CodePermissionDeny, "is a link"},
		"it is a folder": {func(p string) { must(os.Remove(p)); must(os.Mkdir(p, 0o700)) }, sandbox.CodePermissionDeny, "is not a file"},
		"it is gone":     {func(p string) { must(os.Remove(p)) }, sandbox.CodeUnavailable, "is missing while there is evidence"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{})
			add(t, s, of("acme", 0, 1)...)
			tt.spoil(s.keyFile)
			before, _ := os.ReadFile(s.keyFile)
			s = open(t, dir, Options{})
			err := s.Append(t.Context(), of("acme", 1, 2)...)
			wantCode(t, err, tt.code, tt.says)
			if e := new(sandbox.Error); !asError(err, &e) || e.Hint == "" || e.Resource != s.keyFile {
				t.Errorf("error %+v says not what to do", err)
			}
			if after, _ := os.ReadFile(s.keyFile); string(after) != string(before) {
				t.Error("the key was replaced")
			}
			if got := query(t, s, Filter{Tenant: "acme"}); got != "0" {
				t.Errorf("recorded %q", got)
			}
		})
	}
}

// TestVerifyWithoutTheKey checks that a chain whose key is gone does not count as
// signed, and that the public key is enough.
func TestVerifyWithoutTheKey(t *testing.T) {
	dir := victim(t)
	s := open(t, dir, Options{})
	key, err := s.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.keyFile); err != nil {
		t.Fatal(err)
	}
	if r := audit(t, s, "acme"); r.OK() || r.Broken.Kind != DamageKey || !strings.Contains(r.Broken.Detail, "does not count") {
		t.Errorf("broken %+v", r.Broken)
	}
	wantWhole(t, everything(t, s, Check{Keys: []ed25519.PublicKey{key}})["acme"], 12, 4, 0)
}
