package cli

import (
	"slices"
	"strconv"
	"strings"

	ucli "github.com/urfave/cli/v2"
)

// elsewhere names, for commands that other programs of the kind have and this
// one does not, what does their work here.
var elsewhere = map[string]string{
	"create":  "sandbox run makes the session's sandbox when it is missing, for example: sandbox run -- true",
	"start":   "sandbox run starts the session's sandbox when it does not run, for example: sandbox run -- true",
	"up":      "sandbox run makes the session's sandbox when it is missing, for example: sandbox run -- true",
	"stop":    "sandbox recreate --session KEY ends what runs and removes the sandbox; its workspace stays",
	"kill":    "sandbox recreate --session KEY ends what runs and removes the sandbox; its workspace stays",
	"restart": "sandbox recreate --session KEY removes the sandbox, and its next use makes it anew; its workspace stays",
	"rm":      "sandbox recreate --session KEY removes a sandbox and keeps its workspace; sandbox prune --workspaces removes workspaces too",
	"remove":  "sandbox recreate --session KEY removes a sandbox and keeps its workspace; sandbox prune --workspaces removes workspaces too",
	"delete":  "sandbox recreate --session KEY removes a sandbox and keeps its workspace; sandbox prune --workspaces removes workspaces too",
	"logs":    "a sandbox keeps no log of its output: sandbox run streams it; sandbox evidence list shows what was done, sandbox violations list what was stopped",
	"log":     "a sandbox keeps no log of its output: sandbox run streams it; sandbox evidence list shows what was done, sandbox violations list what was stopped",
	"inspect": "sandbox explain --all shows what a session gets, sandbox list -o json what is recorded",
	"attach":  "sandbox shell opens a terminal in the session's sandbox",
	"ssh":     "sandbox shell opens a terminal in the session's sandbox",
	"top":     "sandbox stats --watch shows what running sandboxes use",
	"pull":    "sandbox images pull IMAGE pulls an image",
	"build":   "sandbox images build makes the image of sandboxes",
	"cat":     "sandbox fs read PATH prints a file of the session's sandbox",
	"gc":      "sandbox prune removes sandboxes that are idle, old, or without a record",
	"clean":   "sandbox prune removes sandboxes that are idle, old, or without a record",
	"daemon":  "sandbox serve serves sandboxes over HTTP",
	"server":  "sandbox serve serves sandboxes over HTTP",
	"info":    "sandbox doctor checks this machine, sandbox version shows the program",
}

// unknownCommand is the error for a command that does not exist below the one
// called above, with the name that was probably meant.
func unknownCommand(above, name string, commands []*ucli.Command) error {
	e := &usageError{command: above, message: "unknown command " + strconv.Quote(name)}
	if above != "" {
		e.message += " after " + strconv.Quote("sandbox "+above)
	} else if hint := elsewhere[name]; hint != "" {
		e.hint = hint
		return e
	}
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	if near := nearest(name, names); near != "" {
		e.hint = "did you mean: " + strings.TrimSpace("sandbox "+above) + " " + near
	}
	return e
}

// unknownFlag completes the message about a flag that does not exist by the
// name that was probably meant.
func unknownFlag(message string, flags []ucli.Flag) (hint string) {
	name, ok := strings.CutPrefix(message, unknownFlagPrefix)
	if !ok {
		return ""
	}
	var names []string
	for _, f := range flags {
		if v, ok := f.(ucli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		for _, n := range f.Names() {
			if len(n) > 1 {
				names = append(names, n)
			}
		}
	}
	if near := nearest(strings.TrimLeft(name, "-"), names); near != "" {
		return "did you mean: --" + near
	}
	return ""
}

// nearest returns the one of names that takes the fewest changes of a letter
// to come to from name, or "" when none is near: at most a third of the
// letters may differ, and one of which name is the beginning is near, too.
func nearest(name string, names []string) string {
	best, least := "", len(name)/3+1
	slices.Sort(names)
	for _, n := range names {
		d := distance(name, n)
		if len(name) > 1 && strings.HasPrefix(n, name) {
			d = 1
		}
		if d < least || d == least && best == "" && d <= len(name)/3 {
			best, least = n, d
		}
	}
	return best
}

// distance counts the insertions, removals, replacements and swaps of two
// neighbours that make b from a (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
