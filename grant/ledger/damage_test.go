package ledger

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// TestDamage checks that nothing is granted from an account whose file cannot
// be believed, and that other accounts do not suffer.
func TestDamage(t *testing.T) {
	replace := func(make func(path string) error) func(*testing.T, string, []byte) error {
		return func(t *testing.T, path string, _ []byte) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return make(path)
		}
	}
	write := func(data []byte, path string) error { return os.WriteFile(path, data, 0o600) }
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, path string, data []byte) error
		text string
	}{
		{"empty", func(_ *testing.T, p string, d []byte) error { return write(nil, p) }, "no account that can be believed"},
		{"half", func(_ *testing.T, p string, d []byte) error { return write(d[:slotSize], p) }, "no account that can be believed"},
		{"one byte short", func(_ *testing.T, p string, d []byte) error { return write(d[:fileSize-1], p) }, "no account that can be believed"},
		{"longer", func(_ *testing.T, p string, d []byte) error { return write(append(d, 0), p) }, "no account that can be believed"},
		{"zeros", func(_ *testing.T, p string, d []byte) error { return write(make([]byte, fileSize), p) }, "no account that can be believed"},
		{"text", func(_ *testing.T, p string, d []byte) error {
			return write(bytes.Repeat([]byte("used nothing\n"), 80)[:fileSize], p)
		}, "no account that can be believed"},
		{"a byte in both slots", func(_ *testing.T, p string, d []byte) error {
			d[usedAt+7] ^= 1
			d[slotSize+usedAt+7] ^= 1
			return write(d, p)
		}, "no account that can be believed"},
		{"numbers too far apart", func(_ *testing.T, p string, d []byte) error {
			r, _ := decode(d[:slotSize])
			r.seq += 7
			s := encode(r)
			copy(d[slotSize:], s[:])
			return write(d, p)
		}, "no account that can be believed"},
		{"the wrong slot", func(_ *testing.T, p string, d []byte) error {
			r, _ := decode(d[:slotSize])
			r.seq = 8
			s := encode(r)
			return write(append(s[:], make([]byte, slotSize)...), p)
		}, "no account that can be believed"},
		{"negative", func(_ *testing.T, p string, d []byte) error {
			s := encode(record{id: "tenant:t", seq: 1, used: call(-5)})
			return write(append(s[:], make([]byte, slotSize)...), p)
		}, "no account that can be believed"},
		{"another account", func(_ *testing.T, p string, d []byte) error {
			s := encode(record{id: "tenant:u", seq: 1})
			return write(append(s[:], make([]byte, slotSize)...), p)
		}, "belongs to another account"},
		{"link", replace(func(p string) error { return os.Symlink("/dev/null", p) }), "not a regular file"},
		{"folder", replace(func(p string) error { return os.Mkdir(p, 0o700) }), "not a regular file"},
		{"pipe", replace(func(p string) error { return unix.Mkfifo(p, 0o600) }), "not a regular file"},
		{"removed", replace(func(string) error { return nil }), "was removed while it was in use"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := open(t, t.TempDir(), Options{})
			a := account(t, l, calls("grant:g", 10), calls("tenant:t", 10))
			r := reserve(t, a, 2)
			path := a.chain[1].path
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.do(t, path, data); err != nil {
				t.Fatal(err)
			}
			_, err = a.Reserve(bg(), call(1))
			wantCode(t, err, sandbox.CodeUnavailable, tt.text)
			_, err = r.More(bg(), call(1), call(1))
			wantCode(t, err, sandbox.CodeUnavailable, tt.text)
			if tt.name != "removed" {
				_, err = l.Account(bg(), calls("grant:h", 10), calls("tenant:t", 10))
				wantCode(t, err, sandbox.CodeUnavailable, tt.text)
			}
			spend(t, account(t, l, calls("tenant:u", 10)), 1)
		})
	}
}

// TestTorn cuts the newest change at every byte: what is read is the state
// before or after it, and the account goes on.
func TestTorn(t *testing.T) {
	a := account(t, open(t, t.TempDir(), Options{}), calls("tenant:t", budget.Unlimited))
	path := a.chain[0].path
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 3 { // the second slot as it was made, then each over an older change
		before, had := mustRead(t, path), used(t, a)
		reserve(t, a, 100)
		after := mustRead(t, path)
		for cut := 1; cut < fileSize; cut++ {
			if _, err := f.WriteAt(append(bytes.Clone(after[:cut]), before[cut:]...), 0); err != nil {
				t.Fatal(err)
			}
			if got := used(t, a); got != had && got != had+100 {
				t.Fatalf("cut at %d: used %d, want %d or 100 more", cut, got, had)
			}
		}
		reserve(t, a, 5)
		if got := used(t, a); got < had+5 {
			t.Fatalf("used %d after a tear at %d", got, had)
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestFailedWrite checks that accounts that were charged already get back what
// they had when a later one cannot be written.
func TestFailedWrite(t *testing.T) {
	a := account(t, open(t, t.TempDir(), Options{}), calls("grant:g", 10), calls("session:s", 10), calls("tenant:t", 10))
	spend(t, a, 3)
	files, chain, err := a.read(true)
	defer closeAll(files)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(files[2].fd)
	if files[2].fd, err = openat(files[2].path, unix.O_RDONLY); err != nil {
		t.Fatal(err)
	}
	if err := store(files, budget.Charge(chain, call(4)), false); err == nil {
		t.Error("a file that is open for reading was written")
	}
	wantUsed(t, a, 3, 3, 3)
}

// TestLeftovers checks that incomplete files of a killed process, and foreign
// files, do not disturb the ledger.
func TestLeftovers(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	a := account(t, l, calls("tenant:t", 10))
	if err := os.WriteFile(filepath.Join(a.root, newName), []byte(strings.Repeat("torn", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	b := account(t, l, calls("grant:g", 10), calls("tenant:t", 10))
	spend(t, b, 1)
	wantUsed(t, b, 1, 1)
}

// FuzzNewest reads two slots with any content, whose check sums are right when
// the fuzzer wishes: it could not find them.
func FuzzNewest(f *testing.F) {
	s := encode(record{id: "grant:g", seq: 1, expires: 7, used: call(5)})
	u := encode(record{id: "grant:g", seq: 2, expires: 7, used: call(6)})
	f.Add(s[:sumAt], []byte{}, true, false)
	f.Add(s[:sumAt], u[:sumAt], true, true)
	f.Fuzz(func(t *testing.T, first, second []byte, sealFirst, sealSecond bool) {
		data := append(slot(first, sealFirst), slot(second, sealSecond)...)
		r, err := newest(data)
		if err != nil {
			return
		}
		if r.id == "" || len(r.id) > MaxID || r.seq == 0 || r.expires < 0 || budget.CheckDraw(r.used) != nil {
			t.Fatalf("believed %+v", r)
		}
		a, okA := decode(data[:slotSize])
		b, okB := decode(data[slotSize:])
		if okA && okB && (a.id != b.id || a.parent != b.parent || r.seq != max(a.seq, b.seq) || r.seq-min(a.seq, b.seq) != 1) {
			t.Fatalf("of %+v and %+v took %+v", a, b, r)
		}
		if again, at := encode(r), slotOf(r.seq); !bytes.Equal(again[:], data[at:at+slotSize]) {
			t.Fatalf("%+v is not what lies at %d", r, at)
		}
	})
}

// slot is a slot that holds what fits of data.
func slot(data []byte, seal bool) []byte {
	s := make([]byte, slotSize)
	copy(s[:sumAt], data)
	if seal {
		sum := sha256.Sum256(s[:sumAt])
		copy(s[sumAt:], sum[:])
	}
	return s
}
