package providertest

import (
	"io"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// terminalChecks check what a pseudo-terminal does, or that its absence is
// reported.
func terminalChecks() []Check {
	return []Check{
		{Name: "a terminal has its size and can be resized", run: terminalResize},
		{Name: "with a terminal everything arrives on stdout", run: terminalOneStream},
		{Name: "without a terminal resize is an error", run: resizeWithout},
		{Name: "no terminal feature means unsupported", run: terminalUnsupported},
	}
}

func (r *rig) needTerminal() {
	r.Helper()
	if !r.p.Features().TTY {
		r.Skip("the provider says that it has no terminals")
	}
}

func terminalResize(r *rig) {
	r.needTerminal()
	_, sb := r.box("a")
	pr, pw := io.Pipe()
	defer pw.Close()
	c := r.h.Programs.Terminal()
	c.TTY = &sandbox.TTY{Rows: 31, Cols: 97}
	c.Stdin = pr
	p := r.start(r.ctx, sb, c)
	r.await(p.stdout, "31 97")
	if err := p.Resize(r.ctx, sandbox.TTY{Rows: 47, Cols: 211}); err != nil {
		r.Fatalf("Resize: %v", err)
	}
	if _, err := io.WriteString(pw, "\n"); err != nil {
		r.Fatalf("writing to the terminal: %v", err)
	}
	if exit := r.exit(p); exit.Code != 0 {
		r.Errorf("%+v", exit)
	}
	if out := p.stdout.String(); !strings.Contains(out, "47 211") {
		r.Errorf("after Resize the program says %q", out)
	}
}

func terminalOneStream(r *rig) {
	r.needTerminal()
	_, sb := r.box("a")
	c := r.h.Programs.Echo("to out\n", "to err\n")
	c.TTY = &sandbox.TTY{Rows: 24, Cols: 80}
	exit, stdout, stderr := r.run(sb, c)
	if exit.Code != 0 || stdout != "to out\r\nto err\r\n" || stderr != "" {
		r.Errorf("%+v, stdout %q, stderr %q", exit, stdout, stderr)
	}
}

func resizeWithout(r *rig) {
	_, sb := r.box("a")
	marker := newMarker()
	p := r.start(r.ctx, sb, r.h.Programs.Sleep(marker))
	err := p.Resize(r.ctx, sandbox.TTY{Rows: 10, Cols: 10})
	r.wantCode("Resize", err, sandbox.CodeValidation, sandbox.CodeUnsupported)
	if err := p.Kill(r.ctx); err != nil {
		r.Fatalf("Kill: %v", err)
	}
	r.exit(p)
}

func terminalUnsupported(r *rig) {
	if r.p.Features().TTY {
		r.Skip("the provider has terminals")
	}
	_, sb := r.box("a")
	c := r.h.Programs.True()
	c.TTY = &sandbox.TTY{Rows: 24, Cols: 80}
	_, err := sb.Start(r.ctx, c)
	r.wantCode("Start with a terminal", err, sandbox.CodeUnsupported)
}
