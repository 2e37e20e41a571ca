package cli

import (
	"io"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A Diagnosis is what doctor found out.
type Diagnosis struct {
	Failed   bool      `json:"failed"` // a check failed or an attempt was not contained
	Checks   []Check   `json:"checks"`
	Attempts []Attempt `json:"attempts"` // empty unless an attack was asked for
}

// A Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn, fail, or skip: it depends on a check that failed
	Detail string `json:"detail"` // what was seen
	Fix    string `json:"fix"`    // empty when there is nothing to fix
}

// An Attempt is one connection to the outside that was tried from inside a
// sandbox.
type Attempt struct {
	Name    string `json:"name"`
	What    string `json:"what"`
	Outcome string `json:"outcome"` // contained, escaped or skipped
	Seen    string `json:"seen"`
}

func (a *app) doctorCommand() *ucli.Command {
	var attack bool
	return &ucli.Command{
		Name:        "doctor",
		Usage:       "check this machine and say how to fix what is wrong",
		UsageText:   "sandbox doctor [flags]",
		Description: "The exit status is 1 when a check fails or an attempt to escape succeeds.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "attack", Usage: "also start a temporary sandbox and run the known escape attempts inside it", Destination: &attack},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			d, err := a.Backend.Doctor(c.Context, a.options(), a.globals.who(), a.globals.layer(), attack)
			if err != nil {
				return err
			}
			d.Checks, d.Attempts = notNil(d.Checks), notNil(d.Attempts)
			if err := a.showDiagnosis(d); err != nil {
				return err
			}
			if d.Failed {
				return silentStatus(statusFailed)
			}
			return nil
		},
	}
}

func (a *app) showDiagnosis(d Diagnosis) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, d)
	}
	_, err := io.WriteString(wrapped(a.Stdout), diagnosisText(d))
	return err
}

// diagnosisText writes one line for each check, its fix below it, and the
// attempts in a table.
func diagnosisText(d Diagnosis) string {
	var b strings.Builder
	width := 0
	var skipped []string
	why := ""
	for _, c := range d.Checks {
		if c.Status == "skip" {
			skipped, why = append(skipped, termsafe.Line(c.Name)), termsafe.Line(c.Detail)
		}
		width = max(width, termsafe.Width(termsafe.Line(c.Name)))
	}
	for _, c := range d.Checks {
		if c.Status == "skip" {
			continue
		}
		b.WriteString(termsafe.Pad(c.Status, 4) + "  " + termsafe.Pad(c.Name, width) + "  " + termsafe.Line(c.Detail) + "\n")
		if c.Fix != "" {
			b.WriteString("      fix: " + termsafe.Line(c.Fix) + "\n")
		}
	}
	if len(skipped) > 0 {
		b.WriteString("skip  " + why + ": " + strings.Join(skipped, ", ") + "\n")
	}
	if len(d.Attempts) == 0 {
		return b.String()
	}
	t := newTable("OUTCOME", "ATTEMPT", "WHAT", "SEEN INSIDE")
	for _, x := range d.Attempts {
		t.add(x.Outcome, x.Name, x.What, x.Seen)
	}
	b.WriteString("\n")
	_ = t.write(&b) // a strings.Builder never fails
	return b.String()
}
