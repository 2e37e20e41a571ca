package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// reportFlags name files that say afterwards what a command did.
type reportFlags struct{ report, summary text }

func newReportFlags() reportFlags {
	return reportFlags{text{check: notEmpty}, text{check: notEmpty}}
}

func (f *reportFlags) flags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.GenericFlag{Name: "report", Usage: "write to `FILE` as JSON how the command ended, what it reached, what was blocked and which files it changed", Value: &f.report},
		&ucli.GenericFlag{Name: "summary", Usage: "append the same to `FILE` as Markdown", Value: &f.summary},
	}
}

func (f *reportFlags) given() bool { return f.report.given || f.summary.given }

// A commandReport is what --report writes.
type commandReport struct {
	Format     int           `json:"format"` // 1
	Command    []string      `json:"command"`
	Status     int           `json:"status"` // of this program
	Code       int           `json:"code"`   // of the command
	Signal     string        `json:"signal,omitempty"`
	TimedOut   bool          `json:"timedOut"`
	DurationMs int64         `json:"durationMs"`
	Error      *reportedFail `json:"error,omitempty"` // why the command did not run, or the sandbox failed

	*manager.Report
}

type reportedFail struct {
	Code    sandbox.Code `json:"code"`
	Message string       `json:"message"`
}

// A reportWriter has the files of one call open, since before its command ran: what
// the command does to their names has no effect on where the report goes.
type reportWriter struct {
	report, summary *os.File
	args            []string
}

// open makes the files.
func (f *reportFlags) open(args []string) (*reportWriter, error) {
	w := &reportWriter{args: args}
	var err error
	if f.report.given {
		w.report, err = openReport(f.report.value, os.O_TRUNC)
	}
	if err == nil && f.summary.given {
		w.summary, err = openReport(f.summary.value, os.O_APPEND)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func openReport(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|flag, 0o644)
	if err == nil {
		var fi os.FileInfo
		if fi, err = f.Stat(); err == nil && !fi.Mode().IsRegular() {
			err = errors.New("it is no regular file")
		}
	}
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "run", Field: "--report", Resource: path, Message: "the report cannot be written to " + path, Err: err, Hint: "name a file that can be made, and is no link"}
	}
	return f, nil
}

func (w *reportWriter) close() {
	for _, f := range []*os.File{w.report, w.summary} {
		if f != nil {
			f.Close()
		}
	}
}

// write writes what became of the command. status is that of this program, and
// failure what it says about it; nil for a command that ran.
func (w *reportWriter) write(out manager.Outcome, status int, failure error) error {
	defer w.close()
	r := commandReport{
		Format: 1, Command: w.args, Status: status, Code: out.Exit.Code, Signal: out.Exit.Signal, TimedOut: out.TimedOut,
		DurationMs: out.Duration.Milliseconds(), Report: out.Report,
	}
	if r.Report == nil {
		r.Report = &manager.Report{Reached: []proxy.Reached{}, Blocked: []sandbox.Violation{}, Changed: []manager.FileChange{}, Notes: []string{}}
	}
	if failure != nil {
		r.Error = &reportedFail{sandbox.CodeOf(failure), failure.Error()}
	}
	var errs []error
	if w.report != nil {
		enc := json.NewEncoder(w.report)
		enc.SetIndent("", "  ")
		errs = append(errs, enc.Encode(r))
	}
	if w.summary != nil {
		_, err := io.WriteString(w.summary, r.markdown())
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "run", Field: "--report", Message: "the report cannot be written", Err: err}
	}
	return nil
}

// maxSummaryRows bounds each table of a summary: a job summary of GitHub is at most
// 1 MiB.
const maxSummaryRows = 100

// markdown is the report for people.
func (r commandReport) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Sandbox: %s\n\n", r.verdict())
	fmt.Fprintf(&b, "%s\n\n", codeSpan(strings.Join(r.Command, " "), 300))
	if r.Error != nil {
		fmt.Fprintf(&b, "%s\n\n", codeSpan(r.Error.Message, 500))
	}
	if r.Sandbox != "" {
		fmt.Fprintf(&b, "Provider %s, user %s, network %s, %s.\n\n", plain(r.Provider), plain(r.User), plain(r.Network), time.Duration(r.DurationMs*int64(time.Millisecond)).Round(time.Millisecond))
	}
	if len(r.Services) > 0 {
		fmt.Fprintf(&b, "Services: %s.\n\n", codeSpan(strings.Join(r.Services, ", "), 300))
	}
	section := func(title, head string, n, more int, row func(int) string) {
		fmt.Fprintf(&b, "**%s:** ", title)
		if n == 0 {
			b.WriteString("nothing\n\n")
			return
		}
		fmt.Fprintf(&b, "%d\n\n%s", n+more, head)
		for i := range min(n, maxSummaryRows) {
			b.WriteString(row(i))
		}
		if left := n + more - min(n, maxSummaryRows); left > 0 {
			fmt.Fprintf(&b, "\nand %d more\n", left)
		}
		b.WriteString("\n")
	}
	section("Reached", "| host | connections | bytes in | bytes out |\n|---|---|---|---|\n", len(r.Reached), 0, func(i int) string {
		h := r.Reached[i]
		return fmt.Sprintf("| %s | %d | %d | %d |\n", codeSpan(h.Host+":"+strconv.Itoa(int(h.Port)), 300), h.Connections, h.BytesIn, h.BytesOut)
	})
	section("Blocked", "| what | rule |\n|---|---|\n", len(r.Blocked), 0, func(i int) string {
		v := r.Blocked[i]
		return fmt.Sprintf("| %s %s | %s |\n", plain(string(v.Operation)), codeSpan(v.Resource, 300), codeSpan(v.Rule, 300))
	})
	if r.Unknown != "" {
		fmt.Fprintf(&b, "Changed files are not all known: %s\n\n", codeSpan(r.Unknown, 300))
	}
	section("Changed", "| file | how |\n|---|---|\n", len(r.Changed), r.ChangedMore, func(i int) string {
		c := r.Changed[i]
		return fmt.Sprintf("| %s | %s |\n", codeSpan(c.Path, 300), plain(c.How))
	})
	if c := r.CopiedOut; c != nil && len(c.Left) > 0 {
		section("Not copied out", "| file |\n|---|\n", len(c.Left), 0, func(i int) string { return "| " + codeSpan(c.Left[i], 300) + " |\n" })
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "- %s\n", codeSpan(n, 500))
	}
	return b.String()
}

// verdict says how the command ended.
func (r commandReport) verdict() string {
	switch {
	case r.Error != nil:
		return "failed (" + plain(string(r.Error.Code)) + ")"
	case r.TimedOut:
		return "timed out"
	case r.Signal != "":
		return "ended by SIG" + plain(r.Signal)
	}
	return "exit status " + strconv.Itoa(r.Code)
}

// plain returns a word of ours with nothing in it that Markdown reads.
func plain(s string) string { return escapeMarkdown(termsafe.Line(s)) }

// codeSpan returns text from anywhere as a code element of HTML, cut to so many
// characters. Every character with a meaning in Markdown or HTML is a reference: in a
// code span of Markdown, a name of a file could end the span.
func codeSpan(s string, most int) string {
	s = termsafe.Line(s)
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return "<code>" + escapeMarkdown(s) + "</code>"
}

func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == ' ', c == '/', c == '-', c == ',', c > 0x7f:
			b.WriteRune(c)
		default:
			fmt.Fprintf(&b, "&#%d;", c)
		}
	}
	return b.String()
}
