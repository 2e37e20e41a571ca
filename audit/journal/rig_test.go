package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// helperEnv makes the test binary a process that appends; see helper.
const helperEnv = "JOURNAL_TEST_HELPER"

func TestMain(m *testing.M) {
	if what := os.Getenv(helperEnv); what != "" {
		if err := helper(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type note struct {
	Who  string `json:"who"`
	N    int    `json:"n"`
	Fill string `json:"fill,omitempty"`
}

// open returns a journal that keeps its files open between appends, so that
// every test holds with that; the first append of each is one without.
func open(t testing.TB, dir string, o Options) *Journal {
	t.Helper()
	o.Held = NewHeld()
	t.Cleanup(o.Held.Close)
	return openBare(t, dir, o)
}

// openBare returns a journal that keeps open what o says.
func openBare(t testing.TB, dir string, o Options) *Journal {
	t.Helper()
	j, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// small has the smallest files and keeps n of them.
func small(n int64) Options { return Options{MaxFile: minFile, MaxTotal: n * minFile} }

func appendNotes(t testing.TB, j *Journal, who string, from, to int, fill string) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := j.Append(context.Background(), note{who, n, fill}); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns the records as "who n" and the damage by kind.
func read(t testing.TB, j *Journal, r Range) (got []string, damage []string) {
	t.Helper()
	for rec, err := range j.Records(context.Background(), r) {
		var d *Damage
		if errors.As(err, &d) {
			damage = append(damage, d.Kind)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var n note
		if err := json.Unmarshal(rec.Data, &n); err != nil {
			t.Fatalf("%s: %v", rec.Data, err)
		}
		got = append(got, fmt.Sprint(n.Who, " ", n.N))
	}
	return got, damage
}

// wantNotes holds that both directions yield the notes of who from..to-1.
func wantNotes(t testing.TB, j *Journal, who string, from, to int) {
	t.Helper()
	var want []string
	for n := from; n < to; n++ {
		want = append(want, fmt.Sprint(who, " ", n))
	}
	got, _ := read(t, j, Range{})
	if !slices.Equal(got, want) {
		t.Fatalf("read %d records %.200v, want %d of %s", len(got), got, len(want), who)
	}
	back, _ := read(t, j, Range{Backward: true})
	slices.Reverse(back)
	if !slices.Equal(back, want) {
		t.Fatalf("backwards %d records %.200v, want %d", len(back), back, len(want))
	}
}

func verify(t testing.TB, j *Journal) Report {
	t.Helper()
	r, err := j.Verify(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// kinds are the kinds of damage with file and line.
func kinds(r Report) string {
	var out []string
	for _, d := range r.Damage {
		out = append(out, fmt.Sprintf("%s %s:%d", d.Kind, strings.TrimSuffix(strings.TrimLeft(d.File, "0"), fileSuffix), d.Line))
	}
	return strings.Join(out, ", ")
}

func wantWhole(t testing.TB, j *Journal) Report {
	t.Helper()
	r := verify(t, j)
	if !r.OK() || len(r.Damage) > 0 {
		t.Fatalf("damage %v", r.Damage)
	}
	return r
}

func wantCode(t testing.TB, err error, code sandbox.Code, message string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Error(), message) {
		t.Fatalf("error %v, want %s with %q", err, code, message)
	}
}

// load and store are a file's lines, each with its line feed.
func load(t testing.TB, j *Journal, number uint64) [][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(j.dir, fileName(number)))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(bytes.SplitAfter(data, []byte("\n")), func(l []byte) bool { return len(l) == 0 })
}

func save(t testing.TB, j *Journal, number uint64, lines ...[]byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, fileName(number)), bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}
