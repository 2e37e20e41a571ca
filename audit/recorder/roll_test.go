package recorder

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// TestReadClaim checks what writer files mean, and that what cannot be read
// means more.
func TestReadClaim(t *testing.T) {
	const head = `{"since":"2026-01-02T03:04:05Z"}` + "\n"
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	everything := claim{all: true}
	for _, tt := range []struct {
		name, text string
		want       claim
	}{
		{"empty, after a loss of power", "", everything},
		{"no header", `{"tenant":"acme"}` + "\n", everything},
		{"nothing begun", head, claim{since: since}},
		{"tenants", head + `{"tenant":"acme"}` + "\n" + `{"tenant":""}` + "\n", claim{since: since, tenants: []string{"acme", ""}}},
		{"one twice", head + `{"tenant":"acme"}` + "\n" + `{"tenant":"acme"}` + "\n", claim{since: since, tenants: []string{"acme"}}},
		{"a torn end", head + `{"tenant":"acme"}` + "\n" + `{"tenant":"glo`, claim{since: since, tenants: []string{"acme"}}},
		{"zeros at the end", head + "\x00\x00\x00", everything},
		{"a torn line in the middle", head + `{"ten` + "\n" + `{"tenant":"acme"}` + "\n", everything},
		{"a clock set back", head + `{"since":"2025-01-02T03:04:05Z"}` + "\n", claim{since: since.AddDate(-1, 0, 0)}},
		{"a later time", head + `{"since":"2027-01-02T03:04:05Z"}` + "\n", claim{since: since}},
		{"all", head + `{"tenant":"acme"}` + "\n" + `{"all":true}` + "\n", claim{since: since, tenants: []string{"acme"}, all: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readClaim(strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got.all && tt.want.all && got.since.IsZero() {
				got.tenants = nil
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func FuzzReadClaim(f *testing.F) {
	f.Add(`{"since":"2026-01-02T03:04:05Z"}` + "\n" + `{"tenant":"acme"}` + "\n")
	f.Add("\n\x00{")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := readClaim(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.tenants) > maxTenants+1 || !c.all && c.since.IsZero() {
			t.Errorf("%q means %+v", text, c)
		}
	})
}

// TestRoll checks that every tenant is on the roll before its begin is written.
func TestRoll(t *testing.T) {
	dir := t.TempDir()
	var at atomic.Int64
	at.Store(time.Now().UnixNano())
	clock := func() time.Time { return time.Unix(0, at.Load()) }
	now := clock()
	g := newRig(t, dir, Options{Now: clock})
	read := func() claim {
		t.Helper()
		f, err := os.Open(filepath.Join(dir, "writers", g.Writer()))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c, err := readClaim(f)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if left := writers(t, dir); len(left) != 0 {
		t.Errorf("files %v before anything began", left)
	}
	g.file.set(errNoDisk, nil)
	end(t, g.begin(t, false), wrote())
	if c := read(); !reflect.DeepEqual(c.tenants, []string{"acme"}) || c.since.After(now) || c.since.Before(now.Add(-time.Hour)) {
		t.Errorf("after the first begin: %+v", c)
	}
	now = now.Add(-24 * time.Hour)
	at.Store(now.UnixNano())
	end(t, g.begin(t, false), wrote())
	if c := read(); c.since.After(now) {
		t.Errorf("after the clock was set back: %+v", c)
	}
	g.file.set(nil, nil)
	for n := range maxTenants + 10 {
		if err := g.openSet.enter([]evidence.Record{{Type: evidence.TypeBegin, Tenant: fmt.Sprint(n), Time: now}}); err != nil {
			t.Fatal(err)
		}
	}
	if c := read(); len(c.tenants) != maxTenants || !c.all {
		t.Errorf("after many tenants: %d, %v", len(c.tenants), c.all)
	}
	if fi, err := os.Stat(filepath.Join(dir, "writers", g.Writer())); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

// TestRecoverStrangers checks that recovery follows no link, takes away what was
// left before a file had its name, and lets lie what is none of its files.
func TestRecoverStrangers(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "writers")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(dir, "outside")
	for path, text := range map[string]string{
		outside:                                 "x",
		filepath.Join(folder, madePrefix+"abc"): "",
		filepath.Join(folder, "readme"):         "x",
		filepath.Join(folder, NewID()):          "garbage\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link, sub := NewID(), NewID()
	if err := os.Symlink(outside, filepath.Join(folder, link)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, sub), 0o700); err != nil {
		t.Fatal(err)
	}
	g := newRig(t, dir, Options{})
	left := strings.Join(writers(t, dir), " ")
	if len(strings.Fields(left)) != 3 || !strings.Contains(left, link) || !strings.Contains(left, sub) || !strings.Contains(left, "readme") {
		t.Errorf("files %s are left", left)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	if _, err := g.Recover(t.Context()); err == nil {
		t.Error("nobody tells of the link")
	}
}

// TestRecoverAllTenants checks that a file which cannot be read costs no end:
// all tenants are looked through.
func TestRecoverAllTenants(t *testing.T) {
	dir := t.TempDir()
	work(t, dir, 50)
	names := writers(t, dir)
	if len(names) != 1 {
		t.Fatalf("files %v", names)
	}
	if err := os.WriteFile(filepath.Join(dir, "writers", names[0]), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := newRig(t, dir, Options{})
	aborted := 0
	for _, tenant := range []string{"acme", "globex"} {
		for id, o := range operations(t, g.store, tenant) {
			if o.Begin == nil || o.End == nil {
				t.Errorf("%s: %+v", id, o)
			} else if o.End.Status == evidence.Aborted {
				aborted++
			}
		}
	}
	if aborted == 0 || int64(aborted) != g.Counters().Aborted {
		t.Errorf("%d were aborted, counters %+v", aborted, g.Counters())
	}
}
