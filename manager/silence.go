package manager

import (
	"slices"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/registry"
)

// matters reports whether it matters that the provider called name does not
// answer: a record names it, or a record cannot be read and may name it, or
// sessions are to use it. A machine without Docker, whose settings and calls
// ask for another sandbox, is no failure: nothing that is known of was made
// there.
func (ls *lister) matters(name string, records []registry.Record, problems int) bool {
	if problems > 0 || slices.ContainsFunc(records, func(r registry.Record) bool { return r.Provider == name }) {
		return true
	}
	return slices.Contains(config.Providers(ls.m.current()), name)
}
