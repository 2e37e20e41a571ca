package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools/running"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// The bounds of what an answer shows of the values of code.
const (
	maxCodePictures = 8
	maxCodeValues   = 64
	maxCodeValue    = 64 << 10 // bytes of one form of a value
	maxCodeValueAll = 256 << 10
)

// runCode runs code in the kernel that the session has for its language.
func (c *call) runCode(ctx context.Context, in schema.RunCode) (Answer, error) {
	limits, err := c.usable()
	if err != nil {
		return Answer{}, err
	}
	supervisor := c.tools.o.Running
	if in.Restart {
		_, err := supervisor.RestartCodeContext(ctx, c.request(), "default-"+in.Language)
		if sandbox.IsNotFound(err) { // it has not begun yet
			err = nil
		}
		if err != nil || in.Code == "" {
			return Answer{Text: "the kernel is a new one: nothing of the one before is left", Data: schema.RunCodeResult{State: "restarted", Results: []schema.CodeValue{}}}, err
		}
	}
	limit, more := timeLimit(limits.Timeout, time.Duration(in.Timeout)*time.Second)
	out := newCapture(limits.Output, c.progress)
	got := &codeValues{}
	d := schema.RunCodeResult{State: "ended"}
	req := c.request()
	req.Again = func() {
		out.again()
		*got, d = codeValues{}, schema.RunCodeResult{State: "ended"}
	}
	o, err := supervisor.RunCode(ctx, req, running.Code{Text: in.Code, Language: in.Language, Env: in.Env, Timeout: limit, Output: limits.Output}, func(e sandbox.CodeEvent) (err error) {
		switch e.Type {
		case sandbox.CodeEventStdout:
			_, err = out.stdout().Write([]byte(e.Text))
		case sandbox.CodeEventStderr:
			_, err = out.stderr().Write([]byte(e.Text))
		case sandbox.CodeEventResult:
			got.add(e.Result)
		case sandbox.CodeEventError:
			d.Error = e.Error
		case sandbox.CodeEventCount:
			d.ExecutionCount = e.ExecutionCount
		case sandbox.CodeEventTruncated:
			d.Dropped = e.Dropped
		}
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	d.Stdout, d.Stderr, _ = out.streams()
	d.Results, d.TimedOut, d.Sandbox, d.DurationMS = got.list(), o.TimedOut, o.Name, o.Duration.Milliseconds()
	return codeAnswer(d, got, more), nil
}

// codeAnswer is the answer of a run that has ended.
func codeAnswer(d schema.RunCodeResult, got *codeValues, more string) Answer {
	parts := []string{d.Stdout.Text}
	if d.Stderr.Text != "" {
		parts = append(parts, "[stderr]\n"+d.Stderr.Text)
	}
	for _, v := range d.Results {
		parts = append(parts, v.Text)
	}
	if d.Error != nil {
		e := *d.Error
		e.Traceback = plainText(e.Traceback)
		d.Error = &e
		parts = append(parts, e.Traceback)
		if e.Traceback == "" {
			parts = append(parts, e.Name+": "+e.Value)
		}
	}
	var notes []string
	if d.TimedOut {
		notes = append(notes, fmt.Sprintf("the code was interrupted at its time limit after %s; %s", time.Duration(d.DurationMS)*time.Millisecond, more))
	}
	if omitted := d.Stdout.Omitted + d.Stderr.Omitted + d.Dropped; omitted > 0 {
		notes = append(notes, fmt.Sprintf("%d bytes of the output are left out and were not kept; to see them all write the output to a file and read that", omitted))
	}
	if got.left > 0 {
		notes = append(notes, fmt.Sprintf("%d more values are left out", got.left))
	}
	text := lines(append(parts, remarks(notes...))...)
	if text == "" {
		text = "[no output]"
	}
	return Answer{Text: text, Pictures: got.pictures, Data: d, Failed: d.Error != nil || d.TimedOut}
}

// plainText is text without the escape sequences of terminals.
func plainText(s string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		at := strings.IndexFunc(after, func(r rune) bool { return r >= '@' && r <= '~' })
		if at < 0 {
			return b.String()
		}
		s = after[at+1:]
	}
}

// codeValues are the values of a run, within the bounds of an answer.
type codeValues struct {
	values   []schema.CodeValue
	pictures []Picture
	size     int
	left     int
}

func (v *codeValues) list() []schema.CodeValue {
	if v.values == nil {
		return []schema.CodeValue{}
	}
	return v.values
}

func (v *codeValues) add(r *sandbox.CodeDisplay) {
	if len(v.values) >= maxCodeValues {
		v.left++
		return
	}
	out := schema.CodeValue{Main: r.Main, Omitted: r.Omitted}
	fits := func(name string, size int) bool {
		ok := size <= maxCodeValue && v.size+size <= maxCodeValueAll
		if ok {
			v.size += size
		} else {
			out.Omitted = append(out.Omitted, name)
		}
		return ok
	}
	for _, f := range []struct {
		name string
		from string
		to   *string
	}{{"text", r.Text, &out.Text}, {"html", r.HTML, &out.HTML}, {"markdown", r.Markdown, &out.Markdown}, {"latex", r.LaTeX, &out.LaTeX}} {
		if f.from != "" && fits(f.name, len(f.from)) {
			*f.to = f.from
		}
	}
	for _, f := range []struct {
		name string
		from json.RawMessage
		to   *json.RawMessage
	}{{"json", r.JSON, &out.JSON}, {"chart", r.Chart, &out.Chart}} {
		if f.from != nil && fits(f.name, len(f.from)) {
			*f.to = f.from
		}
	}
	for _, p := range []Picture{{"image/png", r.PNG}, {"image/jpeg", r.JPEG}} {
		if len(p.Data) == 0 || out.Picture > 0 {
			continue
		}
		if _, err := measurePicture(p.MIME, p.Data); err != nil || len(v.pictures) >= maxCodePictures {
			out.Omitted = append(out.Omitted, p.MIME)
			continue
		}
		v.pictures = append(v.pictures, p)
		out.Picture = len(v.pictures)
	}
	for _, f := range []struct {
		name  string
		there bool
	}{{"svg", r.SVG != ""}, {"pdf", len(r.PDF) > 0}, {"javascript", r.JavaScript != ""}, {"data", r.Data != nil}} {
		if f.there {
			out.Omitted = append(out.Omitted, f.name)
		}
	}
	v.values = append(v.values, out)
}
