package recorder

import (
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// ours is the writer of most records that are parsed.
const ours = "w"

// id makes an id of one letter.
func id(letter string) string { return strings.Repeat(letter, 32) }

// parse makes records of words like b1 (a begin of ours), f1 (one of a foreign
// writer), e1 (an end), x (another type), l (losses), ! (garbage) and # (a
// damaged place).
func parse(t testing.TB, text string) iter.Seq2[evidence.Record, error] {
	t.Helper()
	return func(yield func(evidence.Record, error) bool) {
		for _, word := range strings.Fields(text) {
			r := evidence.Record{Time: time.Now(), Type: evidence.TypeBegin, Command: "other"}
			var v any
			var failed error
			switch word[0] {
			case 'b':
				v = evidence.Begin{ID: id(word[1:]), Writer: ours}
			case 'f':
				v = evidence.Begin{ID: id(word[1:]), Writer: "other"}
			case 'e':
				r.Type, v = evidence.TypeEnd, evidence.End{ID: id(word[1:])}
			case 'l':
				r.Omitted, v = 3, evidence.Begin{ID: id("f"), Writer: ours}
			case '!':
				v = evidence.Begin{ID: "../x", Writer: ours}
			case '#':
				failed = &journal.Damage{Kind: journal.DamageEdit}
			default:
				r.Type, v = evidence.TypeEgress, evidence.Begin{ID: id("f"), Writer: ours}
			}
			var err error
			if r.Data, err = json.Marshal(v); err != nil {
				t.Error(err)
			}
			if !yield(r, failed) {
				return
			}
		}
	}
}

// TestUnended checks which begins have no end; the records come newest first.
func TestUnended(t *testing.T) {
	for _, tt := range []struct{ name, records, want string }{
		{"nothing", "", ""},
		{"ended", "e1 b1", ""},
		{"running", "b1", "1"},
		{"the oldest first", "b3 e2 b2 b1", "1 3"},
		{"crossed", "e1 b3 e2 b1 b2", "3"},
		{"somebody else's", "f1 b2", "2"},
		{"somebody else's that has ended", "e1 f1 b2", "2"},
		{"both came twice, together", "e1 e1 b1 b1", ""},
		{"both came twice, one after the other", "e1 b1 e1 b1", ""},
		{"the begin came twice", "b1 b1", "1"},
		{"an end before its begin", "b1 e1", "1"},
		{"the begin is lost", "e1 b2", "2"},
		{"others between", "x l b1 ! #", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			open, err := unended(parse(t, tt.records), ours, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range open {
				got = append(got, r.Command[:1])
			}
			if g := strings.Join(got, " "); g != tt.want {
				t.Errorf("%q are open, want %q", g, tt.want)
			}
		})
	}
}

// TestUnendedFails checks that what cannot be read leaves the file for the next
// one.
func TestUnendedFails(t *testing.T) {
	_, err := unended(func(yield func(evidence.Record, error) bool) { yield(evidence.Record{}, errNoDisk) }, ours, time.Time{})
	if !errors.Is(err, errNoDisk) {
		t.Errorf("error %v", err)
	}
}

// TestUnendedIsBounded checks that nothing is looked for far behind the start of
// the writer, and that what was written late is found.
func TestUnendedIsBounded(t *testing.T) {
	since := time.Now()
	read := 0
	all := func(yield func(evidence.Record, error) bool) {
		old := evidence.Record{Time: since.Add(-time.Hour), Type: evidence.TypeEgress, Data: []byte("{}")}
		begin := evidence.Record{Time: since, Type: evidence.TypeBegin}
		for n := range 3 * pastSince {
			r := old
			if n == pastSince-1 {
				r = begin
				r.Data = []byte(`{"id":"` + id("1") + `","writer":"w"}`)
			}
			if read++; !yield(r, nil) {
				return
			}
		}
	}
	open, err := unended(all, ours, since)
	if err != nil || len(open) != 1 || read != 2*pastSince {
		t.Errorf("found %d, %v after %d", len(open), err, read)
	}
}

// FuzzUnended checks that whatever lies in the chain names only operations of the
// writer, by ids that are some.
func FuzzUnended(f *testing.F) {
	f.Add("begin", []byte(`{"id":"11111111111111111111111111111111","writer":"w"}`), "end", []byte(`{"id":"11111111111111111111111111111111"}`))
	f.Add("end", []byte(`{"id":1}`), "begin", []byte(`null`))
	f.Fuzz(func(t *testing.T, kind1 string, data1 []byte, kind2 string, data2 []byte) {
		all := func(yield func(evidence.Record, error) bool) {
			_ = yield(evidence.Record{Type: evidence.Type(kind1), Data: data1}, nil) &&
				yield(evidence.Record{Type: evidence.Type(kind2), Data: data2}, nil)
		}
		open, err := unended(all, ours, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, r := range open {
			if r.Type != evidence.TypeBegin || !isID(r.Command) || seen[r.Command] {
				t.Errorf("open is %+v", r)
			}
			seen[r.Command] = true
		}
	})
}
