package token

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestDamaged checks that a file that is not whole costs its token and those
// below it and no other, and that the damage is reported.
func TestDamaged(t *testing.T) {
	s := open(t, t.TempDir())
	secret, id := make1(t, s, acme())
	child, _ := make1(t, s, chat(id))
	other, otherID := make1(t, s, acme())
	whole, err := os.ReadFile(s.path(id))
	must(t, err)
	theirs, err := os.ReadFile(s.path(otherID))
	must(t, err)
	contents := map[string][]byte{"another's": theirs, "more": append(slices.Clone(whole), whole...), "huge": make([]byte, maxRecord+1),
		"a wider role": bytes.Replace(whole, []byte(`"tenant"`), []byte(`"admin"`), 1), "no expiry": bytes.Replace(whole, []byte("expires"), []byte("expired"), 1)}
	for n := range whole {
		contents[fmt.Sprint("cut at ", n)] = whole[:n]
		flipped := slices.Clone(whole)
		flipped[n] ^= 1
		contents[fmt.Sprint("changed at ", n)] = flipped
	}
	delete(contents, "no expiry") // this one has none
	for name, data := range contents {
		must(t, os.WriteFile(s.path(id), data, 0o600))
		wantDamaged(t, s, name, id, secret, child, other)
	}
	for name, put := range map[string]func() error{
		"a link":         func() error { return os.Symlink(otherID, s.path(id)) },
		"a link nowhere": func() error { return os.Symlink("/nowhere", s.path(id)) },
		"a folder":       func() error { return os.Mkdir(s.path(id), 0o700) },
		"a pipe":         func() error { return unix.Mkfifo(s.path(id), 0o600) },
	} {
		must(t, errors.Join(os.Remove(s.path(id)), put()))
		wantDamaged(t, s, name, id, secret, child, other)
	}
	must(t, os.Remove(s.path(id)))
	must(t, os.WriteFile(s.path(id), whole, 0o600))
	wantGood(t, s, secret)
	wantGood(t, s, child)

	must(t, os.WriteFile(s.path(id), whole[:9], 0o600))
	if fallen, err := s.Revoke(id); err != nil || len(fallen) != 2 {
		t.Errorf("what is damaged cannot be revoked: %v, %v", fallen, err)
	}
}

func wantDamaged(t *testing.T, s *Store, name, id, secret, child, other string) {
	t.Helper()
	for _, store := range []*Store{s, open(t, s.dir)} {
		for _, one := range []string{secret, child} {
			if _, err := store.Verify(one); !Refused(err) || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := store.Verify(other); err != nil {
			t.Errorf("%s: another token: %v", name, err)
		}
	}
	l, err := s.List()
	if err != nil || !slices.Equal(l.Damaged, []string{s.path(id)}) || len(l.Tokens) != 2 {
		t.Errorf("%s: listed %+v, %v", name, l, err)
	}
	if swept, err := s.Sweep(); err != nil || len(swept.Damaged) != 1 || swept.Removed != 0 {
		t.Errorf("%s: swept %+v, %v", name, swept, err)
	}
}

// TestForgedChild checks that a record that claims more than its parent's is
// refused, however it came there.
func TestForgedChild(t *testing.T) {
	s := open(t, t.TempDir())
	_, id := make1(t, s, chat(""))
	secret, childID := make1(t, s, acme())
	r, _, err := read(s.path(childID))
	must(t, err)
	r.Parent = id
	must(t, write(s.path(childID), r))
	wantRefused(t, s, secret, "claims more")
	r.Parent = childID
	must(t, write(s.path(childID), r))
	wantRefused(t, s, secret, "too many")
	if fallen, err := s.Revoke(childID); err != nil || len(fallen) > 2 {
		t.Errorf("fell %v, %v", fallen, err)
	}
}

// TestIDIsNotEnough checks that a file with the right name and another secret's
// hash grants no access.
func TestIDIsNotEnough(t *testing.T) {
	s := open(t, t.TempDir())
	secret, id := make1(t, s, acme())
	r, _, err := read(s.path(id))
	must(t, err)
	hash := hashOf(newSecret())
	r.Hash = hex.EncodeToString(hash[:])
	must(t, write(s.path(id), r))
	wantRefused(t, s, secret, unknown)
}

func TestList(t *testing.T) {
	s := open(t, t.TempDir())
	now := time.Now()
	s.now = func() time.Time { return now }
	_, root := make1(t, s, acme())
	now = now.Add(time.Second)
	_, child := make1(t, s, chat(root))
	now = now.Add(time.Second)
	_, short := make1(t, s, Claims{Role: Admin, Expires: now.Add(time.Minute)})
	now = now.Add(2 * time.Minute)
	stray := filepath.Join(s.dir, "notes.txt")
	must(t, os.WriteFile(stray, []byte("x"), 0o600))
	must(t, os.WriteFile(filepath.Join(s.dir, ".being-written"), []byte("x"), 0o600))
	l, err := s.List()
	must(t, err)
	var got []string
	for _, one := range l.Tokens {
		got = append(got, one.ID+" "+one.Refused)
	}
	if want := []string{short + " it has expired", child + " ", root + " "}; !slices.Equal(got, want) || !slices.Equal(l.Damaged, []string{stray}) {
		t.Errorf("listed %q and damaged %q, want %q", got, l.Damaged, want)
	}
	must(t, os.Remove(s.path(root)))
	if l, err = s.List(); err != nil || len(l.Tokens) != 2 || !strings.Contains(l.Tokens[1].Refused, "was revoked") {
		t.Errorf("listed %+v, %v", l, err)
	}
}

func TestSweep(t *testing.T) {
	s := open(t, t.TempDir())
	m := testenv.New(time.Now())
	now := m.Now()
	s.passed = &statedir.Clock{Path: s.passed.Path, Source: m.Source()}
	must(t, m.Seen(s.passed, statedir.AfterStep))
	s.now = m.Now
	_, stays := make1(t, s, acme())
	_, lasting := make1(t, s, Claims{Role: Admin, Expires: now.Add(48 * time.Hour)})
	make1(t, s, Claims{Role: Admin, Expires: now.Add(time.Hour)})
	_, gone := make1(t, s, acme())
	make1(t, s, Claims{Role: Tenant, Parent: gone})
	_, child := make1(t, s, Claims{Role: Tenant, Parent: stays})
	must(t, os.Remove(s.path(gone)))
	for name, age := range map[string]time.Duration{".young": 0, ".old": 24 * time.Hour} {
		path := filepath.Join(s.dir, name)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
	}
	m.Pass(30 * time.Minute)
	if got, err := s.Sweep(); err != nil || got.Removed != 2 || got.Kept != 5 {
		t.Errorf("swept %+v, %v", got, err)
	}
	m.Pass(time.Hour) // the short one has expired
	if got, err := s.Sweep(); err != nil || got.Removed != 1 || got.Kept != 4 {
		t.Errorf("just expired: swept %+v, %v", got, err)
	}
	m.Pass(grace)
	if got, err := s.Sweep(); err != nil || got.Removed != 1 || got.Kept != 3 {
		t.Errorf("expired: swept %+v, %v", got, err)
	}
	want := []string{stays, lasting, child}
	slices.Sort(want)
	if got := files(t, s); !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	make1(t, s, acme())
	must(t, os.Remove(s.path(stays)))
	m.Pass(2 * tidying)
	make1(t, s, acme()) // sweeps without a call of Sweep
	if slices.Contains(files(t, s), child) {
		t.Error("nobody sweeps")
	}
}

// TestClockJumps checks that a token is not lost because the clock is wrong for a
// while, and that one that has expired is not good again when it is set back.
func TestClockJumps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	s := open(t, t.TempDir())
	m := testenv.New(time.Now())
	s.passed = &statedir.Clock{Path: s.passed.Path, Source: m.Source()}
	must(t, m.Seen(s.passed, statedir.AfterStep))
	s.now = m.Now
	sweep := func() {
		t.Helper()
		_, err := s.Sweep()
		must(t, err)
	}
	secret, _ := make1(t, s, Claims{Role: Admin, Expires: m.Now().Add(48 * time.Hour)})
	sweep()
	m.Set(year)
	_, err := s.Verify(secret)
	wantCode(t, err, sandbox.CodePermissionDeny, "token")
	sweep()
	m.Set(-year)
	wantGood(t, s, secret)

	sweep()
	m.Pass(48 * time.Hour)
	sweep() // it has expired, and is still listed
	m.Set(-time.Hour)
	_, err = s.Verify(secret)
	wantCode(t, err, sandbox.CodePermissionDeny, "token")
}

// TestFolderGoesAway checks that no token is valid when its state cannot be
// determined, and that the error does not blame the caller.
func TestFolderGoesAway(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "tokens"))
	secret, id := make1(t, s, acme())
	wantGood(t, s, secret)
	must(t, os.RemoveAll(s.dir))
	_, err := s.Verify(secret)
	wantCode(t, err, sandbox.CodeUnavailable, "")
	wantNoPart(t, err, secret)
	for name, try := range map[string]func() error{
		"get":    func() error { _, err := s.Get(id); return err },
		"create": func() error { _, _, err := s.Create(acme()); return err },
		"child":  func() error { _, _, err := s.Create(chat(id)); return err },
		"list":   func() error { _, err := s.List(); return err },
		"revoke": func() error { _, err := s.Revoke(id); return err },
		"sweep":  func() error { _, err := s.Sweep(); return err },
	} {
		if err := try(); sandbox.CodeOf(err) != sandbox.CodeUnavailable || Refused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(s.dir); err == nil {
		t.Error("the folder was made again")
	}
}

func TestOpenRefusesWhatOthersCanWrite(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	_, err := Open(dir)
	wantCode(t, err, sandbox.CodePermissionDeny, "")
}

func FuzzDecode(f *testing.F) {
	id := idOf(newSecret())
	good, err := encode(record{ID: id, Hash: strings.Repeat("0", 64), Claims: acme(), Created: time.Now().UTC().Truncate(time.Millisecond)})
	must(f, err)
	if _, ok := decode(id, good); !ok {
		f.Fatalf("a whole record is not read: %s", good)
	}
	f.Add(good)
	f.Add([]byte(`{"id":"` + id + `","role":"admin","sum":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, ok := decode(id, data)
		if !ok {
			return
		}
		if back, err := encode(r); err != nil || !bytes.Equal(back, data) || r.ID != id || r.check() != nil {
			t.Errorf("%q was taken for %+v", data, r)
		}
	})
}

// TestListBelow checks that a list of one token's own has it and those below it,
// in the order of all, and that others are not even checked for it.
func TestListBelow(t *testing.T) {
	s := open(t, t.TempDir())
	_, root := make1(t, s, acme())
	_, child := make1(t, s, chat(root))
	_, grandchild := make1(t, s, Claims{Role: Session, Parent: child})
	_, other := make1(t, s, acme())
	_, theirs := make1(t, s, chat(other))
	must(t, os.WriteFile(filepath.Join(s.dir, "notes.txt"), []byte("x"), 0o600))
	all, err := s.List()
	must(t, err)
	checked := 0
	s.now = func() time.Time { checked++; return time.Now() }
	for id, want := range map[string][]string{root: {root, child, grandchild}, child: {child, grandchild}, grandchild: {grandchild}, other: {other, theirs}, "": nil, "none": nil} {
		checked = 0
		l, err := s.ListBelow(id)
		must(t, err)
		var mine []Listed
		for _, one := range all.Tokens {
			if slices.Contains(want, one.ID) {
				mine = append(mine, one)
			}
		}
		if !reflect.DeepEqual(l.Tokens, mine) || len(mine) != len(want) || l.Damaged != nil {
			t.Errorf("%s: %+v, want %+v", id, l, mine)
		}
		if checked != len(want) {
			t.Errorf("%s: %d were checked of %d", id, checked, len(want))
		}
	}
	must(t, os.Remove(s.path(child)))
	if l, err := s.ListBelow(root); err != nil || len(l.Tokens) != 1 {
		t.Errorf("listed %+v, %v", l, err)
	}
}

// TestFind checks that a token is found by callers that may see it, also when
// it is no longer valid, and that for all others it does not seem to exist.
func TestFind(t *testing.T) {
	s := open(t, t.TempDir())
	now := time.Now()
	s.now = func() time.Time { return now }
	_, root := make1(t, s, acme())
	_, child := make1(t, s, chat(root))
	_, other := make1(t, s, acme())
	for _, refused := range []string{"", "it has expired"} {
		for top, ok := range map[string]bool{"": true, root: true, child: true, other: false, "none": false} {
			got, err := s.Find(child, top)
			switch {
			case ok && (err != nil || got.ID != child || got.Refused != refused || len(got.Above) != 1 && refused == ""):
				t.Errorf("below %q: %+v, %v", top, got, err)
			case !ok && !sandbox.IsNotFound(err):
				t.Errorf("below %q: %+v, %v", top, got, err)
			}
		}
		now = now.Add(2 * time.Hour)
	}
	if _, err := s.Find(root, child); !sandbox.IsNotFound(err) {
		t.Errorf("the parent: %v", err)
	}
	_, err := s.Find("../x", "")
	wantCode(t, err, sandbox.CodeValidation, "id")
	must(t, os.WriteFile(s.path(child), []byte("x"), 0o600))
	for _, id := range []string{child, idOf(newSecret())} {
		if _, err := s.Find(id, ""); !sandbox.IsNotFound(err) {
			t.Errorf("%s: %v", id, err)
		}
	}
	must(t, os.RemoveAll(s.dir))
	if _, err := s.Find(root, root); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("without the folder: %v", err)
	}
}

// TestUnreadableForNow checks that a file that could not be opened just now
// leads neither to the answer that there is no token, nor to an incomplete
// list.
func TestUnreadableForNow(t *testing.T) {
	for _, failure := range []error{unix.EMFILE, unix.EIO} {
		s := open(t, t.TempDir())
		_, root := make1(t, s, acme())
		_, child := make1(t, s, chat(root))
		_, grandchild := make1(t, s, Claims{Role: Session, Parent: child})
		_, other := make1(t, s, acme())
		for _, failing := range []string{root, child, grandchild, other} {
			s.read = func(path string) (record, stamp, error) {
				if path == s.path(failing) {
					return record{}, stamp{}, &fs.PathError{Op: "open", Path: path, Err: failure}
				}
				return read(path)
			}
			clear(s.known)
			_, err := s.Find(grandchild, root)
			if want := map[bool]sandbox.Code{false: "", true: sandbox.CodeUnavailable}[failing != other]; sandbox.CodeOf(err) != want {
				t.Errorf("%v, %s: found %v", failure, failing, err)
			}
			clear(s.known)
			if _, err := s.ListBelow(root); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !errors.Is(err, failure) {
				t.Errorf("%v, %s: listed %v", failure, failing, err)
			}
		}
		clear(s.known)
		s.read = read
		if l, err := s.ListBelow(root); err != nil || len(l.Tokens) != 3 {
			t.Errorf("listed %+v, %v, when all can be read again", l, err)
		}
	}
}
