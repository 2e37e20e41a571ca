package recorder

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// An end says how the sandbox was made, within the bounds of a record.
func TestMadeIsBounded(t *testing.T) {
	miss := pool.NewMiss(pool.Differs, strings.Repeat("\x01", 1<<16))
	for range 1000 {
		miss.Fields = append(miss.Fields, strings.Repeat("é", 1000))
	}
	for _, made := range []*evidence.Made{nil, {Claimed: true}, {Miss: &pool.Miss{Reason: pool.Empty, Detail: "none is ready", MadeMS: 812}}, {Miss: &miss}} {
		data, err := encodeEnd(evidence.End{ID: "1", Made: made})
		if err != nil || len(data) > evidence.MaxData {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		var got evidence.End
		if err := json.Unmarshal(data, &got); err != nil || (got.Made == nil) != (made == nil) {
			t.Fatalf("%+v, %v", got.Made, err)
		}
		if made == nil {
			continue
		}
		if got.Made.Claimed != made.Claimed || (got.Made.Miss == nil) != (made.Miss == nil) {
			t.Errorf("%+v", got.Made)
		}
		if m := got.Made.Miss; m != nil && (m.Reason != made.Miss.Reason || m.MadeMS != made.Miss.MadeMS || len(m.Fields) > 16) {
			t.Errorf("%+v", m)
		}
	}
	if len(miss.Fields) != 1000 {
		t.Error("the miss of the caller was changed")
	}
}
