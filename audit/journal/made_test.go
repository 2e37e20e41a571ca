package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// An anchor names the line that it stands behind.
type anchor struct {
	Who  string `json:"who"`
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// anchorAt makes an anchor.
func anchorAt(who string) Made {
	return func(t Tail) (any, bool, error) { return anchor{who, t.Seq, t.Hash}, false, nil }
}

// wantAnchors holds that each anchor names the line before it, and returns how
// many there are.
func wantAnchors(t *testing.T, j *Journal) int {
	t.Helper()
	n := 0
	for rec, err := range j.Records(t.Context(), Range{}) {
		var d *Damage
		if errors.As(err, &d) && d.Kind == DamageTorn {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var l anchor
		if json.Unmarshal(rec.Data, &l) != nil || l.Hash == "" {
			continue
		}
		if n++; l.Hash != rec.Prev || l.Seq != rec.Seq-1 {
			t.Fatalf("record %d behind %s names %d, %s", rec.Seq, rec.Prev, l.Seq, l.Hash)
		}
	}
	return n
}

// TestMadeRecordsKnowTheirPlace checks the place that a Made gets at the begin
// of a journal, inside a batch, after a new header, and after a seal.
func TestMadeRecordsKnowTheirPlace(t *testing.T) {
	j := open(t, t.TempDir(), small(20))
	fill := strings.Repeat("x", 8<<10)
	for n := range 20 {
		if err := j.Append(t.Context(), anchorAt("a"), note{"b", n, fill}, anchorAt("c"), anchorAt("d")); err != nil {
			t.Fatal(err)
		}
	}
	if r := wantWhole(t, j); r.Files < 3 {
		t.Errorf("%d files, so nothing rotated", r.Files)
	}
	r := verify(t, j)
	lines := load(t, j, uint64(r.Files))
	save(t, j, uint64(r.Files), append(lines, []byte(`{"hash":"`))...)
	if err := j.Append(t.Context(), anchorAt("e")); err != nil {
		t.Fatal(err)
	}
	if got := wantAnchors(t, j); got != 61 {
		t.Errorf("%d anchors", got)
	}
	if got := kinds(verify(t, j)); !strings.HasPrefix(got, DamageTorn) {
		t.Errorf("damage %s", got)
	}
}

// TestMadeByManyProcesses checks the same while others write too.
func TestMadeByManyProcesses(t *testing.T) {
	j := open(t, t.TempDir(), small(200))
	var all []*exec.Cmd
	for p := range 3 {
		all = append(all, startHelper(t, j.dir, fmt.Sprint("p", p), 200, 1+p))
	}
	for range 200 {
		if err := j.Append(t.Context(), note{"us", 0, ""}, anchorAt("us")); err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	wantWhole(t, j)
	if got := wantAnchors(t, j); got != 200 {
		t.Errorf("%d anchors", got)
	}
}

// TestBackFromATail checks the records that the tail passed to a Made yields:
// the journal before the append that the Made belongs to, the newest first,
// across files.
func TestBackFromATail(t *testing.T) {
	j := open(t, t.TempDir(), small(20))
	appendNotes(t, j, "a", 0, 30, strings.Repeat("x", 5<<10))
	var got []string
	err := j.Append(t.Context(), note{"new", 0, ""}, Made(func(tail Tail) (any, bool, error) {
		for rec, err := range tail.Back(t.Context()) {
			if err != nil {
				return nil, false, err
			}
			var n note
			if err := json.Unmarshal(rec.Data, &n); err != nil {
				return nil, false, err
			}
			got = append(got, fmt.Sprint(n.N))
		}
		return nil, true, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := 29; n >= 0; n-- {
		want = append(want, fmt.Sprint(n))
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %v", got)
	}
	wantWhole(t, j)
}

// TestMadeThatFails checks that nothing of an append stays, and that one that
// makes nothing leaves no line.
func TestMadeThatFails(t *testing.T) {
	j := open(t, t.TempDir(), small(2))
	appendNotes(t, j, "a", 0, 2, "")
	no := errors.New("no")
	for _, bad := range []Made{
		func(Tail) (any, bool, error) { return nil, false, no },
		func(Tail) (any, bool, error) { return strings.Repeat("x", MaxRecord), false, nil },
		func(Tail) (any, bool, error) { return func() {}, false, nil },
	} {
		if err := j.Append(t.Context(), note{"a", 2, ""}, bad); err == nil {
			t.Error("an append succeeds")
		}
	}
	if err := j.Append(t.Context(), Made(func(Tail) (any, bool, error) { return nil, true, nil })); err != nil {
		t.Error(err)
	}
	wantNotes(t, j, "a", 0, 2)
	if r := wantWhole(t, j); r.Last.Seq != 3 {
		t.Errorf("it ends with line %d", r.Last.Seq)
	}
}

// TestVerifyEach checks that what is asked about are the records that are as
// they were written, and that an answer is damage of the line.
func TestVerifyEach(t *testing.T) {
	j := open(t, t.TempDir(), small(2))
	appendNotes(t, j, "a", 0, 4, "")
	lines := load(t, j, 1)
	lines[2] = []byte(strings.Replace(string(lines[2]), `"n":1`, `"n":9`, 1))
	save(t, j, 1, lines...)
	var asked []uint64
	r, err := j.VerifyEach(context.Background(), func(rec Record) *Damage {
		if asked = append(asked, rec.Seq); rec.Seq == 4 {
			return &Damage{Kind: "odd", Detail: "it is 4"}
		}
		return nil
	})
	if err != nil || !slices.Equal(asked, []uint64{2, 4, 5}) {
		t.Errorf("asked about %v, %v", asked, err)
	}
	if got := kinds(r); got != "edit 1:3, odd 1:4" || r.Damage[0].Seq != 3 || !strings.Contains(string(r.Damage[0].Claim), `"n":9`) || r.Damage[1].Claim != nil {
		t.Errorf("damage %+v", r.Damage)
	}
}

// TestBackwardLeavesOutWhatIsNewer checks that whole files behind Last are not
// read.
func TestBackwardLeavesOutWhatIsNewer(t *testing.T) {
	j := open(t, t.TempDir(), small(20))
	appendNotes(t, j, "a", 0, 30, strings.Repeat("x", 5<<10))
	lines := load(t, j, 3)
	lines[1] = []byte("x\n")
	save(t, j, 3, lines...)
	got, damage := read(t, j, Range{Backward: true, Last: 5})
	if want := []string{"a 3", "a 2", "a 1", "a 0"}; !slices.Equal(got, want) || damage != nil {
		t.Errorf("read %v, %v", got, damage)
	}
}
