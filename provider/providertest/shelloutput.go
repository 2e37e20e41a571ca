package providertest

import (
	"runtime"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// shellOutputChecks hold that a line's streams are its own.
func shellOutputChecks() []Check {
	return []Check{
		{Name: "outputs of a line are separate and exact", run: lineOutputs},
		{Name: "every line has outputs of its own", run: lineOutputsOwn},
		{Name: "a line reads its own stdin and nothing else", run: lineStdin},
		{Name: "a line's status comes through", run: lineStatus},
		{Name: "a line that makes no sense ends with a status", run: lineNonsense},
		{Name: "a line that corrupts the shell costs at most one more", run: lineCorrupts},
		{Name: "what a line leaves running lives on unheard", run: lineBackground},
		{Name: "large output of a line needs little memory", run: lineLargeOutput, alone: true},
	}
}

func lineOutputs(r *rig) {
	_, sh := r.shellBox()
	for _, tt := range []struct{ name, line, stdout, stderr string }{
		{"both", "printf out; printf err >&2", "out", "err"},
		{"nothing", ":", "", ""},
		{"no newline at the end", `printf 'a\nb'`, "a\nb", ""},
		{"NUL and high bytes", `printf 'a\000b\377\376\r\n' >&2`, "", "a\x00b\xff\xfe\r\n"},
		{"what it waited for", `(echo later) & wait`, "later\n", ""},
		{"children of children", `sh -c 'sh -c "echo deep; echo low >&2"'`, "deep\n", "low\n"},
	} {
		if _, stdout, stderr := r.runLine(sh, tt.line); stdout != tt.stdout || stderr != tt.stderr {
			r.Errorf("%s: stdout %q, stderr %q", tt.name, stdout, stderr)
		}
	}
	all := strings.Repeat(everyByte(), 64)
	p := r.line(r.ctx, sh, "cat", sandbox.Command{Stdin: strings.NewReader(all)})
	if exit := r.exit(p); exit.Code != 0 || p.stdout.String() != all {
		r.Errorf("all bytes through cat: %+v, %d bytes, want %d", exit, len(p.stdout.String()), len(all))
	}
	// A command needs no writer for its output.
	q, err := sh.Run(r.ctx, "echo dropped; echo too >&2", sandbox.Command{})
	if err != nil {
		r.Fatalf("Run: %v", err)
	}
	if exit := r.exit(q); exit.Code != 0 {
		r.Errorf("without writers: %+v", exit)
	}
}

func lineOutputsOwn(r *rig) {
	_, sh := r.shellBox()
	for i := range 20 {
		n := strconv.Itoa(i)
		r.says(sh, "echo "+n, n+"\n")
	}
	// What a line does to its streams is over with it.
	if exit, stdout, _ := r.runLine(sh, "exec >/dev/null 2>&1; echo gone"); exit.Code != 0 || stdout != "" {
		r.Errorf("after exec >/dev/null: %+v, %q", exit, stdout)
	}
	if exit, stdout, _ := r.runLine(sh, "echo back"); exit.Code != 0 || stdout != "back\n" {
		r.Errorf("the line after exec >/dev/null: %+v, %q", exit, stdout)
	}
}

func lineStdin(r *rig) {
	_, sh := r.shellBox()
	r.says(sh, `cat; read -r x || echo "end"`, "end\n")
	p := r.line(r.ctx, sh, `read -r x; echo "got $x"; cat`, sandbox.Command{Stdin: strings.NewReader("one\ntwo\nthree")})
	if exit := r.exit(p); exit.Code != 0 || p.stdout.String() != "got one\ntwo\nthree" {
		r.Errorf("%+v, %q", exit, p.stdout.String())
	}
	// What is left of the input is neither run nor read by the next line.
	p = r.line(r.ctx, sh, ":", sandbox.Command{Stdin: strings.NewReader("echo evil\n")})
	if exit := r.exit(p); exit.Code != 0 || p.stdout.String() != "" {
		r.Errorf("a line that does not read: %+v, %q", exit, p.stdout.String())
	}
	r.says(sh, "cat; echo next", "next\n")
	p = r.line(r.ctx, sh, "(exit 4)", sandbox.Command{Stdin: r.stalled()})
	if exit := r.exit(p); exit.Code != 4 {
		r.Errorf("with silent input: %+v", exit)
	}
}

func lineStatus(r *rig) {
	_, sh := r.shellBox()
	for line, want := range map[string]int{
		"true": 0, "false": 1, "(exit 77)": 77, "(exit 255)": 255, "! true": 1, "false; true": 0, "false\n\n": 1,
		"no-such-program-here": 127, "/etc/passwd": 126, `sh -c 'kill -9 $$'`: 137, `sh -c 'kill -TERM $$'`: 143,
	} {
		if exit, _, _ := r.runLine(sh, line); exit.Code != want || exit.Restarted {
			r.Errorf("%q: %+v, want status %d and the same shell", line, exit, want)
		}
	}
	if u := r.exit(r.line(r.ctx, sh, "true", sandbox.Command{})).Usage; u.User < 0 || u.System < 0 || u.MaxRSS < 0 {
		r.Errorf("usage %+v", u)
	}
}

// lineNonsense holds that text which is no command neither hangs nor hurts: the
// next line works, in this shell or in another.
func lineNonsense(r *rig) {
	_, sh := r.shellBox()
	r.says(sh, "x=kept", "")
	for _, line := range []string{"echo 'unclosed", `echo "unclosed`, "if true", "(", ")", "fi", "cat <<E\nno end", "&&"} {
		exit, _, _ := r.runLine(sh, line)
		if exit.Code == 0 && !strings.HasPrefix(line, "cat") {
			r.Errorf("%q ended with 0", line)
		}
		next, stdout, stderr := r.runLine(sh, `echo "$x"`)
		if next.Code != 0 || next.Restarted || stdout != "kept\n" || stderr != "" {
			r.Errorf("after %q (%+v) the next line: %+v, stdout %q, stderr %q", line, exit, next, stdout, stderr)
		}
	}
}

// lineCorrupts runs a line after which bash 5.2 may crash at any time, because
// it frees what it has not allocated. One line may be lost to that, and says so;
// then the state is there again.
func lineCorrupts(r *rig) {
	_, sh := r.shellBox()
	r.says(sh, "x=kept", "")
	if exit, _, _ := r.runLine(sh, "echo $("); exit.Code == 0 {
		r.Errorf("%+v", exit)
	}
	lost := 0
	for range 5 {
		exit, stdout, _ := r.runLine(sh, `echo "$x"`)
		switch {
		case exit.Code == 0 && stdout == "kept\n":
		case exit.Restarted && stdout == "":
			lost++
		default:
			r.Errorf("%+v, stdout %q", exit, stdout)
		}
	}
	if lost > 1 {
		r.Errorf("%d lines were lost", lost)
	}
}

func lineBackground(r *rig) {
	sb, sh := r.shellBox()
	marker := newMarker()
	first := r.line(r.ctx, sh, sleeper(marker)+" & ("+until("${TMPDIR:-/tmp}/go")+"; echo late; echo late >&2; : >${TMPDIR:-/tmp}/said; "+sleeper(marker)+") &", sandbox.Command{})
	if exit := r.exit(first); exit.Code != 0 || exit.Restarted {
		r.Errorf("%+v", exit)
	}
	r.awaitCount(sb, marker, 1)
	r.says(sh, ": >${TMPDIR:-/tmp}/go; "+until("${TMPDIR:-/tmp}/said")+"; echo mine", "mine\n")
	r.awaitCount(sb, marker, 2)
	r.says(sh, "echo mine", "mine\n")
	if out, errOut := first.stdout.String(), first.stderr.String(); out != "" || errOut != "" {
		r.Errorf("after its end the line wrote %q and %q", out, errOut)
	}
	if n := r.count(sb, marker); n != 2 {
		r.Errorf("%d of 2 background processes live on", n)
	}
}

func lineLargeOutput(r *rig) {
	_, sh := r.shellBox()
	runtime.GC()
	base := liveHeap()
	m := &meter{}
	p := r.line(r.ctx, sh, "head -c "+strconv.Itoa(outputSize)+" /dev/zero", sandbox.Command{Stdout: m})
	if exit := r.exit(p); exit.Code != 0 || m.n != outputSize || m.others != 0 {
		r.Errorf("%+v, %d bytes, %d of them not zero", exit, m.n, m.others)
	}
	if m.peak > base && m.peak-base > memoryBound {
		r.Errorf("the heap grew by %d MiB", (m.peak-base)>>20)
	}
}
