package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/manager"
)

// shownClaims is how many claims the table has; JSON has all that are on record.
const shownClaims = 20

func (a *app) poolCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "pool",
		Usage:     "show which sandboxes are kept ready, and why others were made",
		UsageText: "sandbox pool [flags]",
		Description: "A daemon keeps sandboxes ready where pool.size or pool.max of the settings says so. The second table has the sandboxes that\n" +
			"were made last: claimed from the pool, or the reason why none was, with how long it took.",
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.useManager(a.options(), func(m Manager) error {
				s, err := m.PoolStatus(c.Context)
				if err != nil {
					return err
				}
				return a.showPool(s)
			})
		},
	}
}

func (a *app) showPool(s manager.PoolStatus) error {
	s.Kinds, s.Claims = notNil(s.Kinds), notNil(s.Claims)
	for i := range s.Kinds {
		s.Kinds[i].Agents = notNil(s.Kinds[i].Agents)
	}
	if a.globals.json() {
		return writeJSON(a.Stdout, s)
	}
	var b strings.Builder
	t := a.newTable([]string{"AGENTS", "PROVIDER", "IMAGE", "SIZE", "MAX", "WANTED", "READY", "STARTING", "NOTE"}, "NOTE", "IMAGE", "PROVIDER")
	for _, k := range s.Kinds {
		t.add(strings.Join(k.Agents, ","), k.Provider, k.Image, fmt.Sprint(k.Size), fmt.Sprint(k.Max), fmt.Sprint(k.Wanted), fmt.Sprint(k.Ready), fmt.Sprint(k.Starting), poolNote(k))
	}
	if err := t.write(&b); err != nil {
		return err
	}
	if len(s.Claims) > 0 {
		b.WriteString("\n")
		t = a.newTable([]string{"TIME", "TENANT", "AGENT", "SANDBOX", "CLAIMED", "TOOK", "REASON", "DETAIL"}, "DETAIL", "TENANT", "AGENT")
		for _, c := range s.Claims[:min(len(s.Claims), shownClaims)] {
			claimed, reason, detail := "yes", "", ""
			if !c.Claimed {
				claimed = "no"
			}
			if c.Miss != nil {
				reason, detail = string(c.Miss.Reason), c.Miss.Detail
			}
			if c.Code != "" {
				detail = string(c.Code) + ": it could not be made; " + detail
			}
			t.add(shownTime(c.Time), c.Tenant, c.Agent, c.Sandbox, claimed, shownDuration(time.Duration(c.TookMS)*time.Millisecond), reason, detail)
		}
		if err := t.write(&b); err != nil {
			return err
		}
	}
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}

// poolNote says what keeps a kind from being as many as are wanted.
func poolNote(k manager.PoolKind) string {
	var parts []string
	if k.Bound != "" {
		parts = append(parts, "bounded by "+k.Bound)
	}
	if k.From != "" {
		parts = append(parts, "holds the checkpoint "+k.From)
	}
	switch {
	case k.Failed != "" && k.RetryAt.IsZero():
		parts = append(parts, k.Failed)
	case k.Failed != "":
		parts = append(parts, "tried again at "+shownTime(k.RetryAt)+": "+k.Failed)
	}
	return strings.Join(parts, "; ")
}
