package doctor

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
)

// Evidence is what is known of the record of what was done, without reading
// it.
type Evidence struct {
	Chains int    // of records, one for each tenant that has some
	Key    string // id of the key that signs them; empty where there is none yet
}

// evidenceKept looks whether what is done can be put on record and signed.
// Whether the records are whole takes reading them all, which is for
// sandbox evidence verify.
func evidenceKept(ctx context.Context, e *examination) finding {
	if e.Evidence == nil {
		return warn("", "%v", errNotAsked)
	}
	kept, err := e.Evidence(ctx)
	var reported *sandbox.Error
	switch {
	case errors.As(err, &reported) && reported.Hint != "":
		return fail(reported.Hint, "%s", reported.Message)
	case err != nil:
		return fail("make the state folder accessible", "%v", err)
	case kept.Key == "" && kept.Chains > 0:
		return fail("restore evidence.key in the state folder, or move its folder evidence away to begin anew", "the key that signs is missing, so nothing more can be recorded")
	case kept.Chains == 0:
		return ok("nothing is recorded yet, %s", e.recorded())
	}
	return ok("tenants with records: %d, signed by key %s, %s; sandbox evidence verify reads them", kept.Chains, kept.Key, e.recorded())
}

// recorded says what the settings want on record.
func (e *examination) recorded() string {
	switch s, err := e.settings(); {
	case err != nil:
		return "the settings cannot be read"
	case s.RequireEvidence:
		return "and nothing runs that is not on record"
	case s.RecordsCommands:
		return "commands are put on record"
	}
	return "commands without a grant are not put on record"
}
