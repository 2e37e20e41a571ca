package cli

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/manager"
)

// explainBrowser says what browser a session gets: whether anything isolates
// it, what its pages reach, and the settings with the layer of each. Of none
// there is one line.
func explainBrowser(p manager.BrowserPlan) *table {
	t := &table{}
	if p.Uses == "" {
		return t
	}
	for _, problem := range p.Problems {
		t.add("problem", "", problem)
	}
	if p.Enabled {
		t.add("isolated", "", isolationText(p))
		t.add("pages reach", "", p.Reach)
	}
	for _, row := range [][2]string{
		{"name", p.Name}, {"status", string(p.Status)}, {"next use", p.Next}, {"image", strings.TrimSpace(p.Image + " " + short(p.ImageID))},
		{"settings hash", p.ConfigHash}, {"browser's hash", p.HaveHash},
	} {
		if row[1] != "" {
			t.add(row[0], "", row[1])
		}
	}
	for _, d := range p.Drift {
		t.add("changed", "", d.Field+": "+d.From+" → "+d.To)
	}
	t.rows = append(t.rows, explainSettings(p.Settings).rows...)
	return t
}

// isolationText says what holds pages.
func isolationText(p manager.BrowserPlan) string {
	switch {
	case !p.Isolated:
		return "NO: it is a browser of this host"
	case !p.Sandbox:
		return "by its container alone: Chromium's own sandbox is OFF"
	}
	return "by its container, and by Chromium's own sandbox in it"
}
