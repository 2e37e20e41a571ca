package recorder

import (
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// TestFloodOfRefusals checks that refusals without end are counted rather than
// kept, begins with their ends, and that what was done stays on record.
func TestFloodOfRefusals(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	end(t, g.begin(t, true), wrote())
	const asked = 3 * evidence.DefaultBurst
	for range asked {
		if err := g.Refused(t.Context(), write("acme"), evidence.End{Code: sandbox.CodePermissionDeny}, true); err != nil {
			t.Fatal(err)
		}
	}
	last := g.begin(t, true)
	end(t, last, wrote())
	if err := g.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.store.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var kept, whole, omitted int64
	for item, err := range evidence.Newest(g.store.Query(t.Context(), evidence.Filter{Tenant: "acme"})) {
		switch {
		case err != nil:
			t.Fatal(err)
		case !item.Operation():
			omitted += item.Records[0].Omitted
		case item.Begin == nil || item.End == nil:
			t.Errorf("half of an operation: %+v", item)
		case item.End.Status == evidence.OK:
			whole++
		default:
			kept++
		}
	}
	t.Logf("%d of %d refusals are kept", kept, asked)
	if whole != 2 || kept < evidence.DefaultBurst || kept > 2*evidence.DefaultBurst || 2*kept+omitted != 2*asked {
		t.Errorf("%d operations and %d refusals are kept, and %d records are counted", whole, kept, omitted)
	}
}
