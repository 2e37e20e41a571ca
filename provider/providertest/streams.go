package providertest

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// streamChecks hold that bytes go in and come out as they are.
func streamChecks() []Check {
	return []Check{
		{Name: "stdout and stderr are separate", run: separateStreams},
		{Name: "streams carry every byte unchanged", run: binarySafe},
		{Name: "a missing stdin is empty", run: emptyStdin},
		{Name: "missing writers discard", run: discarding},
		{Name: "a command that does not read its stdin ends", run: stdinUnread},
		{Name: "arguments arrive as they are", run: argumentsExact},
		{Name: "large input comes back whole", run: largeCopy},
	}
}

func separateStreams(r *rig) {
	_, sb := r.box("a")
	exit, stdout, stderr := r.run(sb, r.h.Programs.Echo("to out", "to err"))
	if exit.Code != 0 || stdout != "to out" || stderr != "to err" {
		r.Errorf("%+v, stdout %q, stderr %q", exit, stdout, stderr)
	}
}

func everyByte() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

func binarySafe(r *rig) {
	_, sb := r.box("a")
	inputs := []struct{ name, data string }{
		{"all byte values", everyByte()},
		{"NUL only", "\x00"},
		{"no newline at the end", "line\nrest"},
		{"newline at the end", "line\n"},
		{"carriage returns", "a\r\nb\rc"},
		{"invalid UTF-8", "ok\xff\xfe\xc0\xaf\xed\xa0\x80end"},
		{"escape sequences", "\x1b[2J\x1b]0;t\x07\x04\x03\x1a"},
		{"all pairs of bytes", strings.Repeat(everyByte(), 256)},
		{"nothing", ""},
	}
	for _, in := range inputs {
		c := r.h.Programs.Copy()
		c.Stdin = strings.NewReader(in.data)
		if exit, stdout, stderr := r.run(sb, c); exit.Code != 0 || stdout != in.data || stderr != "" {
			r.Errorf("%s through stdout: %+v, %d bytes %.60q, stderr %.60q", in.name, exit, len(stdout), stdout, stderr)
		}
		c = r.h.Programs.CopyToStderr()
		c.Stdin = strings.NewReader(in.data)
		if exit, stdout, stderr := r.run(sb, c); exit.Code != 0 || stderr != in.data || stdout != "" {
			r.Errorf("%s through stderr: %+v, %d bytes %.60q, stdout %.60q", in.name, exit, len(stderr), stderr, stdout)
		}
	}
}

func emptyStdin(r *rig) {
	_, sb := r.box("a")
	if exit, stdout, _ := r.run(sb, r.h.Programs.Copy()); exit.Code != 0 || stdout != "" {
		r.Errorf("%+v, stdout %q", exit, stdout)
	}
}

func discarding(r *rig) {
	_, sb := r.box("a")
	c := r.h.Programs.Echo(strings.Repeat("x", 100_000), strings.Repeat("y", 20_000))
	p, err := sb.Start(r.ctx, c) // not r.start, which would gather
	if err != nil {
		r.Fatalf("Start: %v", err)
	}
	if exit := r.exit(p); exit.Code != 0 {
		r.Errorf("%+v", exit)
	}
}

// stdinUnread holds that neither endless nor silent input keeps a command
// alive that does not want it.
func stdinUnread(r *rig) {
	_, sb := r.box("a")
	for name, stdin := range map[string]io.Reader{"endless": endless{}, "silent": r.stalled()} {
		c := r.h.Programs.Exit(5)
		c.Stdin = stdin
		if exit := r.exit(r.start(r.ctx, sb, c)); exit.Code != 5 {
			r.Errorf("%s input: %+v", name, exit)
		}
	}
}

// endless is input without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func argumentsExact(r *rig) {
	_, sb := r.box("a")
	for _, arg := range []string{
		"", " ", "two words", "$HOME", "`id`", "$(id)", `"'\`, "a\nb\tc", "*", "-n", "--", "%s %d", "日本", "\xff\xfe", "\x1b[31m",
	} {
		if exit, stdout, _ := r.run(sb, r.h.Programs.Echo(arg, "")); exit.Code != 0 || stdout != arg {
			r.Errorf("argument %q came out as %q, %+v", arg, stdout, exit)
		}
	}
	for name, c := range map[string]sandbox.Command{
		"no program":              {},
		"an empty program":        {Args: []string{""}},
		"NUL in an argument":      r.h.Programs.Echo("a\x00b", ""),
		"NUL in a variable":       {Args: r.h.Programs.True().Args, Env: map[string]string{"A": "b\x00c"}},
		"equals sign in a name":   {Args: r.h.Programs.True().Args, Env: map[string]string{"A=B": "c"}},
		"a variable without name": {Args: r.h.Programs.True().Args, Env: map[string]string{"": "c"}},
	} {
		p, err := sb.Start(r.ctx, c)
		r.wantCode("Start with "+name, err, sandbox.CodeValidation, sandbox.CodeExecution)
		if p != nil && err != nil {
			r.Errorf("Start with %s gave a process beside its error", name)
		}
	}
}

func largeCopy(r *rig) {
	_, sb := r.box("a")
	want := bytes.Repeat([]byte(everyByte()), 32<<10) // 8 MiB
	c := r.h.Programs.Copy()
	c.Stdin = bytes.NewReader(want)
	check := &comparer{rest: want}
	c.Stdout = check
	exit := r.exit(r.start(r.ctx, sb, c))
	if exit.Code != 0 || check.err != nil || len(check.rest) != 0 {
		r.Errorf("%+v, %v, %d bytes missing", exit, check.err, len(check.rest))
	}
}

// A comparer holds that exactly rest is written to it.
type comparer struct {
	rest []byte
	err  error
}

func (c *comparer) Write(p []byte) (int, error) {
	if !bytes.HasPrefix(c.rest, p) {
		c.err = errors.New("other bytes came out than went in")
		c.rest = nil
		return len(p), nil
	}
	c.rest = c.rest[len(p):]
	return len(p), nil
}
