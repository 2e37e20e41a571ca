package cli

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/replay"
	"github.com/bulkhead-dev/sandbox/grant"
)

// typeOperation is what --type calls a begin and an end together.
const typeOperation = "operation"

// statusOpen is that of an operation without an end.
const statusOpen = "open"

// An operationSelection is what the flags say about which operations are meant.
type operationSelection struct {
	status, code, tool, call, grant, subject, id text
}

func (s *operationSelection) flags() []ucli.Flag {
	s.status.check = oneOf(string(evidence.OK), string(evidence.Denied), string(evidence.Failed), string(evidence.Aborted), statusOpen)
	var out []ucli.Flag
	for _, f := range s.all() {
		if f.value.check == nil {
			f.value.check = notEmpty
		}
		out = append(out, &ucli.GenericFlag{Name: f.name, Usage: f.usage, Value: f.value})
	}
	return out
}

type operationFlag struct {
	name, usage string
	value       *text
}

func (s *operationSelection) all() []operationFlag {
	return []operationFlag{
		{"status", "operations that ended with `STATUS`: ok, denied, error, aborted, or open without an end", &s.status},
		{"code", "operations that ended with the error `CODE`", &s.code},
		{"tool", "operations of `TOOL`", &s.tool},
		{"call", "operations of the tool call with this `ID`", &s.call},
		{"grant", "operations under the grant with this `ID`", &s.grant},
		{"subject", "operations on behalf of `SUBJECT`", &s.subject},
		{"operation", "the operation with this `ID`", &s.id},
	}
}

// given returns the first flag that was given, or "".
func (s *operationSelection) given() string {
	for _, f := range s.all() {
		if f.value.given {
			return f.name
		}
	}
	return ""
}

// match reports whether an operation is meant. One whose begin is missing is
// meant only where nothing is asked of the begin.
func (s *operationSelection) match(i evidence.Item) bool {
	var b evidence.Begin
	status, code, id := statusOpen, sandbox.Code(""), ""
	if i.End != nil {
		status, code, id = string(i.End.Status), i.End.Code, i.End.ID
	}
	if i.Begin != nil {
		b, id = *i.Begin, i.Begin.ID
	}
	for _, q := range []struct {
		want *text
		have string
	}{
		{&s.status, status}, {&s.code, string(code)}, {&s.tool, b.Tool}, {&s.call, b.Call}, {&s.grant, b.Grant}, {&s.subject, b.Subject}, {&s.id, id},
	} {
		if q.want.given && q.want.value != q.have {
			return false
		}
	}
	return true
}

// items returns what is meant of the records of the tenants that f names,
// operations brought together. What is said of records has to hold for the
// begin of an operation, so that its end is not lost over it.
func (s *evidenceSelection) items(all iter.Seq2[evidence.Record, error], f evidence.Filter) iter.Seq2[evidence.Item, error] {
	f.Type, f.Limit, f.AllTenants = "", 0, true
	only := s.operationsOnly()
	return func(yield func(evidence.Item, error) bool) {
		for i, err := range evidence.Newest(all) {
			if err == nil && (!f.Match(i.First()) || only && !i.Operation() || i.Operation() && !s.operations.match(i)) {
				continue
			}
			if !yield(i, err) {
				return
			}
		}
	}
}

// firstOf passes on the first n items, and all for 0; errors do not count.
func firstOf[T any](all iter.Seq2[T, error], n int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := n
		for v, err := range all {
			if !yield(v, err) {
				return
			}
			if err == nil {
				if left--; left == 0 {
					return
				}
			}
		}
	}
}

// operationRow shows an operation beside other records.
func operationRow(i evidence.Item) (id, verdict, what, rule string) {
	o := operationOf(i)
	done := strings.TrimSpace(o.kind + " " + o.capability)
	if i.Begin != nil && i.Begin.Kind == evidence.Command && o.capability != "" {
		done = o.capability // which says so itself
	}
	if o.tool != "" {
		done += " by " + o.tool
	}
	if i.Begin != nil && i.Begin.Parent != nil {
		done += " " + parentText(*i.Begin.Parent)
	}
	parts := slices.DeleteFunc([]string{done, o.code, o.duration}, func(s string) bool { return s == "" })
	if i.End != nil {
		rule = i.End.Rule
	}
	return o.id, o.status, strings.Join(parts, ", "), rule
}

// parentText says what a sandbox begins with.
func parentText(p evidence.Parent) string {
	text := "begins with checkpoint " + p.Checkpoint
	if p.Sandbox != "" {
		text += " of " + p.Sandbox + ", session " + p.Session
	}
	if p.Head != nil {
		text += fmt.Sprintf(", chain %d %.12s", p.Head.Seq, p.Head.Hash)
	}
	return text
}

// operationCells are what is shown of one operation.
type operationCells struct {
	id, kind, tool, capability, status, code, used, duration string
}

func operationOf(i evidence.Item) operationCells {
	c := operationCells{status: statusOpen}
	if b := i.Begin; b != nil {
		c.id, c.kind, c.tool, c.capability = b.ID, string(b.Kind), b.Tool, replay.What(*b)
	}
	if e := i.End; e != nil {
		c.id, c.status, c.code, c.used = e.ID, string(e.Status), string(e.Code), usedText(e.Used)
		if e.Status != evidence.Aborted || e.Duration > 0 { // 0 where its program has died, which kept no time
			c.duration = shownDuration(e.Duration)
		}
	}
	return c
}

// usedText writes what of a budget is not 0.
func usedText(b grant.Budget) string {
	return amountsText(b, func(n int64) bool { return n != 0 })
}

// amountsText writes the amounts that say something.
func amountsText(b grant.Budget, says func(int64) bool) string {
	var out []string
	for _, a := range []struct {
		n          int64
		name, unit string
	}{
		{b.Calls, "calls", ""}, {b.BytesIn, "in", ""}, {b.BytesOut, "out", ""}, {b.Files, "files", ""},
		{b.CPUMs, "cpu", "ms"}, {b.GPUMs, "gpu", "ms"}, {b.WallMs, "wall", "ms"},
	} {
		if says(a.n) {
			out = append(out, fmt.Sprintf("%s %d%s", a.name, a.n, a.unit))
		}
	}
	return strings.Join(out, ", ")
}

// operationsRow shows an operation among others.
func operationsRow(i evidence.Item) []string {
	o := operationOf(i)
	return []string{shownTime(i.First().Time), o.kind, o.tool, o.capability, o.status, o.code, o.used, o.duration, o.id}
}

// shownDuration is d with three or four digits.
func shownDuration(d time.Duration) string {
	unit := 10 * time.Microsecond
	for ; d >= 1000*unit && unit < time.Second; unit *= 10 {
	}
	return d.Round(unit).String()
}

func shownTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }
