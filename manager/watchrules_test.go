//go:build linux

package manager_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestRulesTakenAwayMeanwhile holds that hosts which the settings no longer allow are
// out of reach of a command that runs, without another command of this process, as
// where another process has changed the settings: open connections to them end, those
// to others go on, and where nothing is allowed any more all end. The next command,
// under the settings of before, reaches all of them again.
func TestRulesTakenAwayMeanwhile(t *testing.T) {
	t.Parallel()
	onForts(t, func(f *fort) {
		for what, tt := range map[string]struct {
			reload func(*fort)
			status string // of the tries to the usual host
			held   bool   // what is under way to another host goes on
		}{
			"the usual host": {func(f *fort) { f.reload(held) }, "403", true},
			"the held one":   {func(f *fort) { f.reload(testenv.Files) }, "200", false},
			"nothing at all": {func(f *fort) { f.reloadWith(func(*config.SandboxSettings) {}) }, "000", false},
		} {
			f.part(what, nil, func() {
				p := f.poll()
				tt.reload(f)
				p.next(3, tt.status)
				if tt.held {
					if f.heldNow() == 0 {
						f.t.Error("the connection to a host that is still allowed has ended")
					}
				} else {
					f.nothingUnderWay()
				}
				p.end()
			})
		}
	})
}

// TestSetNetworkMeanwhile holds that hosts which SetNetwork takes away are out of
// reach of a command that runs.
func TestSetNetworkMeanwhile(t *testing.T) {
	t.Parallel()
	onForts(t, func(f *fort) {
		p := f.poll()
		r, err := f.Find(t.Context(), f.who.Tenant, f.name, "")
		must(t, err)
		must(t, f.SetNetwork(t.Context(), r, &config.NetworkRules{DeniedDomains: []string{testenv.Files}}))
		p.next(3, "403")
		must(t, f.SetNetwork(t.Context(), r, &config.NetworkRules{AllowedDomains: &[]string{}}))
		p.next(3, "000")
		refusedAt(t, f.SetNetwork(t.Context(), r, &config.NetworkRules{AllowedDomains: &[]string{"elsewhere.test"}}), sandbox.CodeCapabilityBlocked, "network.allowedDomains[0]")
	})
}
