package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
)

func asError(err error, e **sandbox.Error) bool { return errors.As(err, e) }

// signedAt returns after how many records the checkpoints of a chain come, the
// first one first.
func signedAt(t *testing.T, s *Store, tenant string) []uint64 {
	t.Helper()
	var out []uint64
	for r, err := range s.Query(t.Context(), Filter{Tenant: tenant, Type: TypeCheckpoint}) {
		if err != nil {
			t.Fatal(err)
		}
		var c checkpoint
		if err := json.Unmarshal(r.Data, &c); err != nil || c.Tenant != tenant {
			t.Fatalf("%s, %v", r.Data, err)
		}
		out = append(out, c.Records)
	}
	slices.Reverse(out)
	return out
}

// TestCheckpointsComeInTime checks when checkpoints are written, and by whom.
func TestCheckpointsComeInTime(t *testing.T) {
	dir := t.TempDir()
	four := open(t, dir, Options{CheckpointEvery: 4})
	want := func(what string, at ...uint64) {
		t.Helper()
		if got := signedAt(t, four, "acme"); !slices.Equal(got, at) {
			t.Errorf("%s: checkpoints after %v, want %v", what, got, at)
		}
	}
	each(t, four, of("acme", 0, 3))
	want("a chain begins with one", 0)
	each(t, four, of("acme", 3, 9))
	want("every four", 0, 4, 8)
	add(t, four, of("acme", 9, 19)...) // at once: one write, one checkpoint
	want("a batch", 0, 4, 8, 19)
	if err := four.Close(); err != nil {
		t.Fatal(err)
	}
	want("nothing to sign", 0, 4, 8, 19)

	many := open(t, dir, Options{CheckpointEvery: 100})
	each(t, many, of("acme", 19, 22))
	want("a greater number does not count while the last one promises less", 0, 4, 8, 19)
	each(t, many, of("acme", 22, 33))
	want("then it does", 0, 4, 8, 19, 23)
	each(t, four, of("acme", 33, 34))
	want("for those with less it does not: what is there is signed first", 0, 4, 8, 19, 23, 33)
	each(t, many, of("acme", 34, 36))
	if err := many.Close(); err != nil {
		t.Fatal(err)
	}
	want("at the end", 0, 4, 8, 19, 23, 33, 36)
	each(t, many, of("acme", 36, 37))
	if err := four.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("when it is asked for, whoever wrote", 0, 4, 8, 19, 23, 33, 36, 37)
	wantWhole(t, audit(t, four, "acme"), 37, 8, 0)
}

// TestEveryFileBeginsSigned checks that what rotation leaves can be verified.
func TestEveryFileBeginsSigned(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{MaxFile: 64 << 10, MaxTotal: 192 << 10, CheckpointEvery: 1000})
	const count = 1200
	for n := range count {
		r := of("acme", n, n+1)[0]
		r.Agent = strings.Repeat("a", 200)
		add(t, s, r)
	}
	r := audit(t, s, "acme")
	if !r.OK() || r.Dropped == 0 || r.Files < 2 || int(r.Checkpoints) < r.Files || r.Signed.Records+uint64(r.Unsigned) != count {
		t.Errorf("%d files, %d dropped, %d checkpoints, %+v signed, %d unsigned, broken %+v", r.Files, r.Dropped, r.Checkpoints, r.Signed, r.Unsigned, r.Broken)
	}
}

// TestLargestRecordsInSmallestFiles checks that everything that is taken fits.
func TestLargestRecordsInSmallestFiles(t *testing.T) {
	s := open(t, t.TempDir(), Options{MaxFile: 64 << 10, MaxTotal: 16 << 20, CheckpointEvery: 1})
	name := strings.Repeat("\x01", 255)
	r := Record{Tenant: name, Agent: name, Session: name, Sandbox: name, Command: name, Type: TypeBegin, Share: Exact, Data: json.RawMessage(`{"a":"` + strings.Repeat("x", MaxData-8) + `"}`)}
	less := r
	less.Data = json.RawMessage(`{"a":"` + strings.Repeat("x", MaxData-1200) + `"}`) // so that the largest may still join its batch
	for n := 1; n < 8; n++ {
		add(t, s, slices.Repeat([]Record{less, r}, n)...)
	}
	wantWhole(t, audit(t, s, name), 56, audit(t, s, name).Checkpoints, 0)
}

// TestTenantsAreNoPaths checks that each tenant has a folder of its own whatever
// the name, and that nothing of that is part of a path.
func TestTenantsAreNoPaths(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	tenants := []string{"", ".", "..", "../../etc", "a/b", "/abs", "ACME", "acme", "a\x00b", "\x1b[2J", strings.Repeat("x", 100<<10), strings.Repeat("x", 100<<10) + "y"}
	for n, tenant := range tenants {
		add(t, s, numbered(Record{Tenant: tenant}, n))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	folders := 0
	for _, e := range entries {
		name, named := strings.CutSuffix(e.Name(), nameSuffix)
		if !isFolder(name) || named == e.IsDir() {
			t.Errorf("there is %q", e.Name())
		}
		if e.IsDir() {
			folders++
		}
	}
	if folders != len(tenants) {
		t.Errorf("%d folders of %d tenants", folders, len(tenants))
	}
	for n, tenant := range tenants {
		if got := query(t, s, Filter{Tenant: tenant}); got != fmt.Sprint(n) {
			t.Errorf("%.20q finds %q", tenant, got)
		}
		if r := audit(t, s, tenant); !r.OK() || r.Records != 1 {
			t.Errorf("%.20q: %+v", tenant, r)
		}
	}
}

// TestOneTenantsTrouble checks that a chain that cannot be written keeps no
// other from it, and that counts of others are not written twice.
func TestOneTenantsTrouble(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	s := open(t, dir, Options{Now: c.Now, Burst: 1, Rate: 1})
	add(t, s, slices.Concat(flood(3, Record{Tenant: "acme"}), flood(3, Record{}))...)
	breakIt(t, dir)
	c.now = c.now.Add(2 * sumEvery)
	err := s.Append(t.Context(), numbered(Record{Tenant: "acme"}, 7), numbered(Record{}, 8))
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Fatalf("error %v", err)
	}
	mendIt(t, dir)
	if got, want := query(t, s, Filter{Tenant: "acme"}), "7 +1 +1 1"; got != want {
		t.Errorf("finds %q, want %q", got, want)
	}
	if got, want := query(t, s, Filter{}), "+1 +1 1"; got != want {
		t.Errorf("finds %q, want %q", got, want)
	}
}

// TestManyTenantsInOrder checks that a query over all tenants merges by time,
// page by page, reports damage once, and keeps no file open.
func TestManyTenantsInOrder(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	s := open(t, dir, Options{Now: c.Now, Sync: SyncOff, Burst: 1 << 20})
	const tenants, count = 30, 1500
	var want []string
	for n := range count {
		c.now = c.now.Add(time.Second)
		add(t, s, numbered(Record{Tenant: fmt.Sprint("t", n*n%tenants)}, n))
		want = append(want, fmt.Sprint(n))
	}
	slices.Reverse(want)
	if got := query(t, s, Filter{AllTenants: true}); got != strings.Join(want, " ") {
		t.Errorf("finds %.200s", got)
	}
	if got := query(t, s, Filter{AllTenants: true, Limit: 5}); got != strings.Join(want[:5], " ") {
		t.Errorf("finds %s", got)
	}
	var from []*journal.Journal
	for i := range 2 {
		j, err := s.journal(folderOf(fmt.Sprint("t", i)))
		if err != nil {
			t.Fatal(err)
		}
		from = append(from, j)
	}
	save(t, dir, "t1", change(load(t, dir, "t1"), 40, `"n":`, `"m":`))
	var seen []uint64
	damaged := 0
	small := &source{journal: from[1], f: Filter{AllTenants: true}, size: 7}
	for last := uint64(1 << 60); ; small.page = small.page[1:] {
		if err := small.fill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(small.page) == 0 {
			break
		}
		if small.page[0].err != nil {
			damaged++
			continue
		}
		var data struct{ N uint64 }
		if err := json.Unmarshal(small.page[0].record.Data, &data); err != nil || data.N >= last {
			t.Fatalf("%d comes behind %d, %v", data.N, last, err)
		}
		last = data.N
		seen = append(seen, last)
	}
	if wantLines := len(load(t, dir, "t1")) - 3; damaged != 1 || len(seen) != wantLines {
		t.Errorf("%d records and %d damaged places, want %d and 1", len(seen), damaged, wantLines)
	}
}

// TestOldLayout checks that records from before there were chains are found,
// verified as what they are, and left alone.
func TestOldLayout(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(dir, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n, tenant := range []string{"acme", "", "acme"} {
		r, err := numbered(Record{Tenant: tenant}, n).bounded(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(filepath.Join(dir, "0000000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{})
	add(t, s, of("acme", 7, 9)...)
	if got := query(t, s, Filter{Tenant: "acme"}); got != "8 7 2 0" {
		t.Errorf("finds %q", got)
	}
	if got := query(t, s, Filter{AllTenants: true}); got != "8 7 2 1 0" {
		t.Errorf("finds %q", got)
	}
	all := everything(t, s, Check{})
	wantWhole(t, all["acme"], 2, 1, 2)
	if r := all["."]; !r.Old || !r.OK() || r.Records != 3 || r.Unsigned != 3 || r.Signed != nil {
		t.Errorf("%+v", r)
	}
	if now, err := os.ReadFile(filepath.Join(dir, "0000000001.jsonl")); err != nil || string(now) != string(old) {
		t.Errorf("it was changed, %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "0000000001.jsonl"), []byte(strings.Replace(string(old), "acme", "evil", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := everything(t, s, Check{})["."]; r.OK() || r.Broken.Kind != journal.DamageEdit || r.Broken.Line != 2 {
		t.Errorf("broken %+v", r.Broken)
	}
}

// TestWhatIsGone checks that Verify reports a missing chain, a missing name,
// and files that do not belong there.
func TestWhatIsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(dir string) error
		of    string
		kind  string
	}{
		"its folder": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, folderOf("acme"))) }, "acme", journal.DamageMissing},
		"its name":   {func(dir string) error { return os.Remove(filepath.Join(dir, folderOf("acme")+nameSuffix)) }, "acme", journal.DamageMissing},
		"another name": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, folderOf("acme")+nameSuffix), []byte(`"evil"`), 0o600)
		}, "acme", journal.DamageMissing},
		"renamed": {func(dir string) error {
			return os.Rename(filepath.Join(dir, folderOf("acme")), filepath.Join(dir, "acme"))
		}, ".", journal.DamageStranger},
		"exchanged": {func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, folderOf("acme"))), os.CopyFS(filepath.Join(dir, folderOf("acme")), os.DirFS(filepath.Join(dir, folderOf("evil")))),
				os.Chmod(filepath.Join(dir, folderOf("acme")), 0o700))
		}, "acme", DamageTenant},
	} {
		t.Run(name, func(t *testing.T) {
			dir := victim(t)
			if err := tt.spoil(dir); err != nil {
				t.Fatal(err)
			}
			all := everything(t, open(t, dir, Options{}), Check{})
			wantWhole(t, all["evil"], 12, 4, 0)
			if r := all[tt.of]; r.OK() || r.Broken == nil || r.Broken.Kind != tt.kind {
				t.Errorf("found %+v", r.Broken)
			}
		})
	}
}

// TestManyChains checks that a Store knows the ends of a bounded number of
// chains, and that those it forgets are signed.
func TestManyChains(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{Sync: SyncOff})
	if s.most != maxUsed {
		t.Errorf("%d are known at most", s.most)
	}
	const most, tenants = 8, 30
	s.most = most
	for n := range tenants {
		add(t, s, of(fmt.Sprint("t", n), 0, 1)...)
	}
	if got := len(s.used()); got != most {
		t.Errorf("%d are known", got)
	}
	unsigned, seen := 0, 0
	for r, err := range s.Verify(context.Background(), Check{AllTenants: true}) {
		if err != nil || !r.OK() || r.Records != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		unsigned, seen = unsigned+int(r.Unsigned), seen+1
	}
	if unsigned != most || seen != tenants {
		t.Errorf("%d of %d are not signed", unsigned, seen)
	}
}
