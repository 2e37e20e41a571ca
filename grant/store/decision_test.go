package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

func TestOneCallEach(t *testing.T) {
	dir := t.TempDir()
	k := openDecision(t, dir)
	wantUse(t, k, "acme", "key", "call-1", "call-1")
	wantUse(t, k, "acme", "key", "call-2", "call-1")
	wantUse(t, k, "acme", "key", "call-1", "call-1")
	wantUse(t, k, "other", "key", "call-2", "call-2")
	wantUse(t, k, "acme", "key2", "call-2", "call-2")
	wantUse(t, k, "acmek", "ey", "call-3", "call-3") // the same letters in a row
	again := openDecision(t, dir)
	wantUse(t, again, "acme", "key", "call-4", "call-1")
	wantUse(t, again, "acme", "key", "call-1", "call-1")
}

func TestRefusedWords(t *testing.T) {
	k := openDecision(t, t.TempDir())
	for name, w := range map[string][3]string{
		"tenant": {"t t", "k", "c"}, "decisionKeyFingerprint": {"t", "k k", "c"}, "call": {"t", "k", "c\n"},
	} {
		_, err := k.Use(w[0], w[1], w[2], soon())
		decisionWantCode(t, err, sandbox.CodeValidation, name)
	}
	for _, call := range []string{"", decisionUnknown, strings.Repeat("c", maxText+1), "ä"} {
		_, err := k.Use("t", "k", call, soon())
		decisionWantCode(t, err, sandbox.CodeValidation, "call")
	}
	for _, expires := range []time.Time{{}, time.Now().Add(-time.Second)} {
		_, err := k.Use("t", "k", "c", expires)
		decisionWantCode(t, err, sandbox.CodePermissionDeny, "expired")
	}
	if got := files(t, k.dir); len(got) > 0 {
		t.Errorf("what was refused is kept: %v", got)
	}
	wantUse(t, k, "t", "k", strings.Repeat("c", maxText), strings.Repeat("c", maxText))
}

// TestDamaged checks that no call owns a key whose entry is not whole.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	wantUse(t, openDecision(t, dir), "t", "key", "call-1", "call-1")
	wantUse(t, openDecision(t, dir), "t", "key2", "call-1", "call-1")
	path := fileOf(dir, "key")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(fileOf(dir, "key2"))
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string][]byte{"of another key": other, "longer": append(slices.Clone(whole), '\n'), "huge": make([]byte, maxEntry+1)}
	for n := range whole {
		contents[fmt.Sprint("cut at ", n)] = whole[:n]
		flipped := slices.Clone(whole)
		flipped[n] ^= 1
		contents[fmt.Sprint("changed at ", n)] = flipped
	}
	for name, data := range contents {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if by, err := openDecision(t, dir).Use("t", "key", "call-1", soon()); by != decisionUnknown || err != nil {
			t.Errorf("%s: used by %q, %v", name, by, err)
		}
	}
	for name, put := range map[string]func() error{
		"a link":   func() error { return os.Symlink(fileOf(dir, "key2"), path) },
		"nothing":  func() error { return os.Symlink("/nowhere", path) },
		"a folder": func() error { return os.Mkdir(path, 0o700) },
		"a pipe":   func() error { return unix.Mkfifo(path, 0o600) },
	} {
		if err := errors.Join(os.Remove(path), put()); err != nil {
			t.Fatal(err)
		}
		if by, err := openDecision(t, dir).Use("t", "key", "call-1", soon()); by != decisionUnknown || err != nil {
			t.Errorf("%s in its place: used by %q, %v", name, by, err)
		}
	}
}

// TestFolderGone checks that nothing is granted where nothing can be kept, while
// what this process knows to be a call's stays that.
func TestFolderGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "decisions")
	k := openDecision(t, dir)
	wantUse(t, k, "t", "mine", "call-1", "call-1")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err := k.Use("t", "key", "call-1", soon())
	decisionWantCode(t, err, sandbox.CodeUnavailable, "cannot use")
	_, err = k.Use("t", "mine", "call-2", soon())
	decisionWantCode(t, err, sandbox.CodeUnavailable, "cannot use")
	wantUse(t, k, "t", "mine", "call-1", "call-1")
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the folder was made again")
	}
}

func TestOpenRefusesWhatOthersCanWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := OpenDecision(dir)
	decisionWantCode(t, err, sandbox.CodePermissionDeny, "can be written by other users")
}

// TestForgets checks that a process that has used many keys has no more memory
// for them, and answers as before.
func TestForgets(t *testing.T) {
	k := openDecision(t, t.TempDir())
	wantUse(t, k, "t", "key", "call-1", "call-1")
	for i := range decisionMaxKnown {
		k.keep(entry{name: fmt.Sprint(i)})
	}
	if len(k.known) > decisionMaxKnown || k.has(entry{name: nameOf("t", "key"), Call: "call-1"}) {
		t.Errorf("%d entries are known", len(k.known))
	}
	wantUse(t, k, "t", "key", "call-2", "call-1")
	wantUse(t, k, "t", "key", "call-1", "call-1")
}

func FuzzDecisionDecode(f *testing.F) {
	good, err := encodeDecision(entry{name: "n", Call: "call-1", Until: 5})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"call":"a","until":1,"sum":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, ok := decodeDecision("n", data)
		if !ok {
			return
		}
		if back, err := encodeDecision(e); err != nil || string(back) != string(data) || !isText(e.Call) || e.Call == decisionUnknown {
			t.Errorf("%q was taken for %+v", data, e)
		}
	})
}

func BenchmarkUse(b *testing.B) {
	k := openDecision(b, b.TempDir())
	b.Run("first", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := k.Use("t", fmt.Sprint(b.N, "-", i), "call-1", soon()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			wantUse(b, k, "t", "key", "call-1", "call-1")
		}
	})
	b.Run("another's", func(b *testing.B) {
		for b.Loop() {
			wantUse(b, k, "t", "key", "call-2", "call-1")
		}
	})
}
