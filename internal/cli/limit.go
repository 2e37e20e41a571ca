package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// limitView is what --format json says of a command that reached a limit.
type limitView struct {
	Limit    sandbox.LimitHit `json:"limit"`
	Message  string           `json:"message"`
	Hint     string           `json:"hint"`
	Waited   *sandbox.Waited  `json:"waited,omitempty"`
	Warnings []string         `json:"warnings,omitempty"`
}

// waitedView is what --format json says of a command whose connections waited.
type waitedView struct {
	Waited   sandbox.Waited `json:"waited"`
	Message  string         `json:"message"`
	Hint     string         `json:"hint"`
	Warnings []string       `json:"warnings,omitempty"`
}

// leftView is what --format json says of a command that left processes running.
type leftView struct {
	Left     sandbox.Left    `json:"left"`
	Message  string          `json:"message"`
	Waited   *sandbox.Waited `json:"waited,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

// sayLimit says on standard error which limit the command reached, behind what
// the command said itself: one line, or one JSON document.
func (a *app) sayLimit(out manager.Outcome) error {
	h, waited := out.Exit.Limit, out.Waited
	switch {
	case h == nil && waited.Long() && a.globals.json():
		return writeJSON(a.Stderr, waitedView{Waited: *waited, Message: waited.String(), Hint: waited.Hint(), Warnings: out.Warnings})
	case h == nil && len(out.Warnings) > 0 && a.globals.json():
		return writeJSON(a.Stderr, warningsView{Warnings: out.Warnings, Message: warningText(out.Warnings)})
	case h == nil:
		return nil
	case a.globals.json():
		return a.writeLimit(h, h.Hint(), out)
	}
	a.say("%s; %s", termsafe.Line(h.String()), h.Hint())
	return nil
}

func (a *app) writeLimit(h *sandbox.LimitHit, hint string, out manager.Outcome) error {
	return writeJSON(a.Stderr, limitView{Limit: *h, Message: h.String(), Hint: hint, Waited: out.Waited, Warnings: out.Warnings})
}

// warningsView is what --format json says of a command line of which the policy
// warns.
type warningsView struct {
	Warnings []string `json:"warnings"`
	Message  string   `json:"message"`
}

// warningText is the warnings of the policy in one line.
func warningText(warnings []string) string {
	return "warning: " + strings.Join(warnings, ", ") + "; strictness strict refuses such lines"
}

// sayWarnings says them on standard error; as JSON they are part of the document
// about the end of the command.
func (a *app) sayWarnings(out manager.Outcome) {
	if len(out.Warnings) > 0 && !a.globals.json() {
		a.say("%s", termsafe.Line(warningText(out.Warnings)))
	}
}

// sayEnded does so for an outcome of which it was said already whether rules
// stopped it; as JSON that is the one document.
func (a *app) sayEnded(out manager.Outcome) error {
	a.sayWarnings(out)
	if err := a.sayNetworkLimits(out); err != nil {
		return err
	}
	if a.globals.json() && (out.Blocked || slices.ContainsFunc(out.Violations, limited)) {
		return nil
	}
	if out.Waited.Long() && !a.globals.json() {
		a.say("%s; %s", out.Waited, out.Waited.Hint())
	}
	left := out.Exit.Left
	switch {
	case left == nil:
	case a.globals.json() && out.Exit.Limit == nil:
		return writeJSON(a.Stderr, leftView{Left: *left, Message: left.String(), Waited: out.Waited, Warnings: out.Warnings})
	case !a.globals.json():
		a.say("%s", termsafe.Line(left.String()))
	}
	return a.sayLimit(out)
}

// sayTimedOut does so for the limit that this program has held itself, which the
// request has set where it has one.
func (a *app) sayTimedOut(req manager.Request, out manager.Outcome) error {
	a.sayWarnings(out)
	h, hint := out.Exit.Limit, ""
	switch {
	case h != nil && req.Timeout > 0:
		hint = h.HintFor("--timeout")
	case h != nil:
		hint = h.Hint()
	}
	if h != nil && a.globals.json() {
		return a.writeLimit(h, hint, out)
	}
	after := out.Duration.Round(time.Millisecond)
	if out.Waited.Long() && !a.globals.json() {
		a.say("%s; %s", out.Waited, out.Waited.Hint())
	}
	if h == nil {
		a.say("the command was ended at its time limit after %s", after)
		return nil
	}
	a.say("the command was ended at its time limit after %s: %s; %s", after, h, hint)
	return nil
}

// sayNetworkLimits says which limits of the network have refused something to a
// command that did without it: also one that succeeded may have been slowed
// down, or have left something out.
func (a *app) sayNetworkLimits(out manager.Outcome) error {
	var said []string
	for _, v := range out.Violations {
		if limited(v) && !slices.Contains(said, v.Rule) {
			said = append(said, v.Rule)
		}
	}
	if len(said) == 0 || out.Blocked && (a.globals.json() || len(out.Causes) > 0 && limited(out.Causes[0])) {
		return nil
	}
	reason := "the network's limits were reached, and requests refused: network." + strings.Join(said, ", network.")
	if a.globals.json() {
		return writeJSON(a.Stderr, blockedView{
			Reason: reason, Hint: limitHint, Violations: notNil(out.Violations), Answers: notNil(out.Answers), Limit: out.Exit.Limit, Waited: out.Waited, Warnings: out.Warnings,
		})
	}
	a.say("%s; %s", reason, limitHint)
	return nil
}

const limitHint = "raise them in the settings, or use less"

// limited reports whether v is what a limit of the network refused.
func limited(v sandbox.Violation) bool {
	return v.Kind == sandbox.ResourceNetwork && strings.HasPrefix(v.Rule, "limits.")
}
