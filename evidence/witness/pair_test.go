package witness

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/evidence"
	"github.com/bulkhead-dev/sandbox/evidence/proof"
	"github.com/bulkhead-dev/sandbox/journal"
)

// parse makes records of words like b1 (a begin), e1 (an end), E1 (an end of
// another status), x (another type), l (losses) and ! (garbage).
func parse(t testing.TB, text string) (rs []evidence.Record) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		r := evidence.Record{Command: word[1:]}
		var v any
		switch word[0] {
		case 'b':
			r.Type, v = evidence.TypeBegin, proof.Begin{ID: word[1:]}
		case 'e':
			r.Type, v = evidence.TypeEnd, proof.End{ID: word[1:], Status: proof.OK}
		case 'E':
			r.Type, v = evidence.TypeEnd, proof.End{ID: word[1:], Status: proof.Aborted}
		case 'l':
			r.Type, r.Omitted, v = evidence.TypeBegin, 3, evidence.Omission{}
		case '!':
			r.Type, v = evidence.TypeEnd, []int{1}
		default:
			r.Type, v = evidence.TypeEgress, struct{}{}
		}
		var err error
		if r.Data, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	return rs
}

// pairs writes operations as words: 1 (whole), 1? (without end), ?1 (without
// begin), 1A (aborted).
func pairs(t testing.TB, rs []evidence.Record) string {
	t.Helper()
	var out []string
	for o, err := range Pair(sequence(rs...)) {
		var damage *journal.Damage
		switch {
		case errors.As(err, &damage):
			out = append(out, "damage")
			continue
		case err != nil:
			t.Fatal(err)
		}
		word := o.Record.Command
		if o.End == nil {
			word += "?"
		} else if o.End.Status == proof.Aborted {
			word += "A"
		}
		if o.Begin == nil {
			word = "?" + word
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// TestPair holds what operations the records come to, the newest first.
func TestPair(t *testing.T) {
	for _, tt := range []struct{ name, records, want string }{
		{"nothing", "", ""},
		{"one", "e1 b1", "1"},
		{"crossed", "e1 e2 b1 b2", "1 2"},
		{"nested", "e2 e1 b1 b2", "1 2"},
		{"running", "b2 e1 b1", "2? 1"},
		{"begin is lost", "e3 e1 b1 e2", "1 ?3 ?2"},
		{"others between", "x e1 x l b1", "1"},
		{"the first end counts", "E1 e1 b1", "1"},
		{"the first end counts, aborted", "e1 E1 b1", "1A"},
		{"all of it came twice", "e1 e1 b1 b1", "1"},
		{"both came twice", "e1 b1 e1 b1", "1"},
		{"an end before its begin", "b1 e1", "1?"},
		{"garbage", "! e1 b1", "damage 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := pairs(t, parse(t, tt.records)); got != tt.want {
				t.Errorf("%s come to %q, want %q", tt.records, got, tt.want)
			}
		})
	}
}

// TestPairIsBounded holds how much is remembered of ends without begin.
func TestPairIsBounded(t *testing.T) {
	rs := func(yield func(evidence.Record, error) bool) {
		for n := range maxEnds + 10 {
			if !yield(evidence.Record{Type: evidence.TypeEnd, Data: json.RawMessage(fmt.Sprintf(`{"id":"%d"}`, n))}, nil) {
				return
			}
		}
		yield(evidence.Record{}, errors.New("here"))
	}
	n := 0
	for _, err := range Pair(rs) {
		if err != nil {
			break
		}
		n++
	}
	if n != 10 {
		t.Errorf("%d ends come before the last record", n)
	}
}

// FuzzPair holds that whatever lies in the chain comes to operations with at
// least one record each, none of them twice in a row of few.
func FuzzPair(f *testing.F) {
	f.Add("begin", []byte(`{"id":"1"}`), "end", []byte(`{"id":"1","status":"ok"}`))
	f.Add("end", []byte(`{"id":1}`), "begin", []byte(`null`))
	f.Fuzz(func(t *testing.T, kind1 string, data1 []byte, kind2 string, data2 []byte) {
		all := sequence(
			evidence.Record{Type: evidence.Type(kind1), Data: data1}, evidence.Record{Type: evidence.Type(kind2), Data: data2},
			evidence.Record{Type: evidence.Type(kind1), Data: data1},
		)
		seen := map[string]bool{}
		for o, err := range Pair(all) {
			var damage *journal.Damage
			if err != nil {
				if !errors.As(err, &damage) {
					t.Fatal(err)
				}
				continue
			}
			if o.Begin == nil && o.End == nil || o.Begin != nil && o.End != nil && o.Begin.ID != o.End.ID {
				t.Fatalf("operation %+v", o)
			}
			id := ""
			if o.Begin != nil {
				id = o.Begin.ID
			} else {
				id = o.End.ID
			}
			if id == "" || o.Begin != nil && seen[id] {
				t.Fatalf("operation %q twice", id)
			}
			seen[id] = o.Begin != nil
		}
	})
}
