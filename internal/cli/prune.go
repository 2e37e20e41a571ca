package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

func (a *app) pruneCommand() *ucli.Command {
	var idle, maxAge span
	var o manager.PruneOptions
	var quiet bool
	return &ucli.Command{
		Name:      "prune",
		Usage:     "remove sandboxes that were not used for long, are old, or have no record",
		UsageText: "sandbox prune [flags]",
		Description: "A sandbox in which a command runs is never removed.\n" +
			"Durations are written like 90s, 10m, 24h or 7d; 0 switches a rule off.",
		Flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "idle", Usage: "`AGE` since last use; default from the settings", Value: &idle},
			&ucli.GenericFlag{Name: "max-age", Usage: "`AGE` since creation; default from the settings", Value: &maxAge},
			&ucli.BoolFlag{Name: "workspaces", Usage: "also scratch workspaces whose sandbox is gone", Destination: &o.Workspaces},
			&ucli.BoolFlag{Name: "caches", Usage: "also caches of package managers that no sandbox has, see list --caches", Destination: &o.Caches},
			&ucli.BoolFlag{Name: "dry-run", Usage: "only say what would be removed", Destination: &o.DryRun},
			quietFlag(&quiet),
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			o.Idle, o.MaxAge, o.Tenant = idle.ptr(), maxAge.ptr(), a.globals.tenant.value
			return a.useManager(a.options(), func(m Manager) error {
				w := work{what: "pruning", one: "sandbox", many: "sandboxes"}
				o.Progress = func(planned, done int) {
					w.total.Add(int64(planned))
					w.done.Add(int64(done))
				}
				b := a.newBar(c.Context, quiet, w.line)
				p, err := m.Prune(c.Context, o)
				b.stop()
				if err != nil && len(p.Removed)+len(p.Failed) == 0 {
					return err
				}
				// The command prints what was removed even when a provider did not
				// answer.
				return errors.Join(a.showPruned(p, o.DryRun), err)
			})
		},
	}
}

// prunedView is what prune prints. Its keys differ from a recreate's: the
// reason is always there.
type prunedView struct {
	Removed []prunedRow      `json:"removed"`
	Kept    int              `json:"kept"`
	Failed  []manager.Failed `json:"failed"`
}

type prunedRow struct {
	Name     string `json:"name"`
	Provider string `json:"provider,omitempty"`
	Reason   string `json:"reason"`
}

func (a *app) showPruned(p manager.Pruned, dry bool) error {
	v := prunedView{Removed: []prunedRow{}, Kept: p.Kept, Failed: notNil(p.Failed)}
	for _, r := range p.Removed {
		v.Removed = append(v.Removed, prunedRow(r))
	}
	if err := a.writePruned(v, dry); err != nil {
		return err
	}
	return a.failures(v.Failed)
}

// ofProvider is the name of a sandbox, with its provider where that has to be said.
func ofProvider(name, provider string) string {
	if provider != "" {
		name += " (" + provider + ")"
	}
	return termsafe.Line(name)
}

func (a *app) writePruned(v prunedView, dry bool) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, v)
	}
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	var b strings.Builder
	for _, r := range v.Removed {
		fmt.Fprintf(&b, "%s %s: %s\n", verb, ofProvider(r.Name, r.Provider), termsafe.Line(r.Reason))
	}
	fmt.Fprintf(&b, "%s %d, kept %d\n", verb, len(v.Removed), v.Kept)
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}
