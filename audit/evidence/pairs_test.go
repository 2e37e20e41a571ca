package evidence_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// newest makes records of words, the newest first: "b:1" is the begin of the
// operation 1, "e:1" its end, "x" a decision, "?" a damaged place, "!" a
// failure, "b" and "e" one whose data name nothing, "o" one for others.
func newest(words string) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		for w := range strings.FieldsSeq(words) {
			tenant, w, _ := cut(w)
			r, err := evidence.Record{Tenant: tenant, Type: evidence.TypeEgress, Data: json.RawMessage(`{}`)}, error(nil)
			kind, id, named := strings.Cut(w, ":")
			if named {
				r.Data = json.RawMessage(`{"id":"` + id + `"}`)
			}
			switch kind {
			case "b":
				r.Type = evidence.TypeBegin
			case "e":
				r.Type = evidence.TypeEnd
			case "o":
				r.Type, r.Omitted = evidence.TypeBegin, 3
			case "?":
				r, err = evidence.Record{}, &journal.Damage{Kind: journal.DamageEdit}
			case "!":
				r, err = evidence.Record{}, errors.New("no disk")
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// cut takes the tenant off a word: "t/b:1".
func cut(w string) (tenant, rest string, ok bool) {
	if tenant, rest, ok = strings.Cut(w, "/"); !ok {
		return "", w, false
	}
	return tenant, rest, true
}

// Items as text, in the notation of the records: "b+e:1" is a whole operation.
func reported(all iter.Seq2[evidence.Item, error]) string {
	var out []string
	for i, err := range all {
		var d *journal.Damage
		switch {
		case errors.As(err, &d):
			out = append(out, "?")
		case err != nil:
			out = append(out, "!")
		case i.Begin != nil && i.End != nil:
			out = append(out, fmt.Sprintf("b+e:%s/%d", i.Begin.ID, len(i.Records)))
		case i.Begin != nil:
			out = append(out, "b:"+i.Begin.ID)
		case i.End != nil:
			out = append(out, "e:"+i.End.ID)
		case i.Operation():
			out = append(out, "neither")
		default:
			out = append(out, fmt.Sprintf("x%d", i.First().Omitted))
		}
	}
	return strings.Join(out, " ")
}

func TestNewest(t *testing.T) {
	tests := []struct{ name, records, want string }{
		{"nothing", "", ""},
		{"one", "e:1 b:1", "b+e:1/2"},
		{"open", "b:2 e:1 b:1", "b:2 b+e:1/2"},
		{"beside each other", "e:1 e:2 b:2 b:1", "b+e:2/2 b+e:1/2"},
		{"with a decision between", "e:1 x b:1", "x0 b+e:1/2"},
		{"a begin that is gone", "x e:1 e:2 b:2", "x0 b+e:2/2 e:1"},
		{"two ends", "e:1 e:1 b:1", "e:1 b+e:1/2"},
		{"two begins", "e:1 b:1 b:1", "b+e:1/2 b:1"},
		{"the end before the begin", "b:1 e:1", "b:1 e:1"},
		{"one id of two tenants", "a/e:1 b/b:1 a/b:1", "b:1 b+e:1/2"},
		{"damage", "e:1 ? b:1", "? b+e:1/2"},
		{"records that are none", "e b e:1 b:1", "? ? b+e:1/2"},
		{"one that stands for others", "o x", "x3 x0"},
		{"a failure", "e:1 !", "! e:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := reported(evidence.Newest(newest(tt.records))); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestNewestIsBounded checks that ends without begins do not gather: the one
// that has waited longest is passed on when there are too many.
func TestNewestIsBounded(t *testing.T) {
	const n = 20_000
	asked, passed := 0, 0
	all := func(yield func(evidence.Record, error) bool) {
		for i := range n {
			asked = i + 1
			if !yield(evidence.Record{Type: evidence.TypeEnd, Data: json.RawMessage(fmt.Sprintf(`{"id":"%d"}`, i))}, nil) {
				return
			}
		}
	}
	most := 0
	for i, err := range evidence.Newest(all) {
		if err != nil || i.End.ID != fmt.Sprint(passed) {
			t.Fatalf("item %d is %+v, %v", passed, i.End, err)
		}
		passed++
		most = max(most, asked-passed)
	}
	if passed != n || most > 5000 {
		t.Errorf("%d of %d came, %d waited", passed, n, most)
	}
}

func TestNewestStops(t *testing.T) {
	for i := range evidence.Newest(newest("x e:1 b:1 ! x")) {
		if i.Operation() {
			return // and the source of the records must not be called again
		}
	}
	t.Error("there was no operation")
}
