package cli

import (
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/manager"
)

// evidenceText says what is put on record.
func evidenceText(p manager.EvidencePlan) string {
	text := "operations under grants; commands without one are not put on record"
	switch {
	case p.Required:
		text = "nothing runs that is not on record"
	case p.Commands:
		text = "operations under grants, and commands"
	}
	return fmt.Sprintf("%s; sync %s, signed each %d records", text, p.Sync, p.CheckpointEvery)
}

// budgetsText names the bounds that there are. Commands without a grant use
// none of them up.
func budgetsText(b config.Budgets) string {
	var out []string
	for _, of := range []struct {
		who string
		has grant.Budget
	}{{"session", b.Session}, {"agent", b.Agent}, {"tenant", b.Tenant}} {
		if text := amountsText(of.has, func(n int64) bool { return n != grant.Unlimited }); text != "" {
			out = append(out, of.who+": "+text)
		}
	}
	if out == nil {
		return unboundedText
	}
	return "of operations under grants: " + strings.Join(out, "; ")
}
