package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// logged are the programs of the stage that only note that they were started.
var logged = []string{
	"rm", "touch", "ls", "cat", "grep", "git", "npm", "cp", "mv", "curl", "id", "a", "b", "c", "d", "e", "f", "x", "y",
	"sed", "awk", "make", "tee", "head", "wc", "sort", "python3", "chmod", "seq", "date", "uname", "sleep",
	"l", "m", "s", "to", "uch", "r", "rmx", "lsx", "-", "--", "{", "ls-la", "then", "do", "fi", "done", "EOF", "a=b", "[[", "((", "local",
	"n", "o", "p", "q", "-rf", "-la", "-c", "if", "echo x", "rm -rf", "*", "?", "$x", "}", "!", "in", "esac", "function", "select", "coproc", "until", "repeat",
}

// passed are the wrappers of the stage: they note that they were started and
// then do what they do everywhere.
var passed = []string{"env", "timeout", "nice", "nohup", "stdbuf", "setsid", "xargs", "find", "bash", "ionice", "chrt", "taskset", "time", "flock"}

// A stage is a file system with a real bash and otherwise nothing but
// wrappers, in which lines run isolated.
type fixture struct {
	dir string
}

// newFixture builds the programs of a stage.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	testenv.Require(t, "local")
	dir := t.TempDir()
	for d := dir; d != filepath.Dir(os.TempDir()) && d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"bin", "real"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	shim := func(name, more string) {
		// One write, so that the notes of programs that run at once do not mix.
		text := "#!/.real/dash\nn=\"P\x1f${0##*/}\"\nfor a; do n=\"$n\x1f$a\"; done\nprintf '%s\\036' \"$n\" >>/.log/now\n" + more
		if err := os.WriteFile(filepath.Join(dir, "bin", name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range logged {
		shim(name, "")
	}
	for _, name := range append(slices.Clip(passed), "dash") {
		real, err := exec.LookPath(name)
		if err != nil && (name == "dash" || name == "bash") {
			testenv.Lack(t, "local", err)
		}
		if err != nil {
			continue
		}
		if real, err = filepath.EvalSymlinks(real); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(real)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "real", name), data, 0o755); err != nil {
			t.Fatal(err)
		}
		shim(name, "exec /.real/"+name+" \"$@\"\n")
	}
	shim("sh", "exec /.real/dash \"$@\"\n")
	return &fixture{dir: dir}
}

// driver runs the lines that it reads, each ended by NUL, and notes what bash
// thinks of each.
const driver = `
ulimit -t 20 -f 256 -u 600 2>/dev/null
i=0
while IFS= read -r -d '' line <&3; do
	rm -rf /w/* 2>/dev/null
	: >/.log/now
	/.real/bash -n -c -- "$line" </dev/null >/dev/null 2>&1
	parsed=$?
	(cd /w && exec /.real/timeout -k 1 2 /.real/bash -c -- "$line" </dev/null >/dev/null 2>&1)
	read -r -d '' notes </.log/now
	printf '%s\036%s\036%s\0' "$i" "$parsed" "$notes" >&4
	i=$((i+1))
done
`

// A ran is what bash did with one line.
type ran struct {
	parsed   bool
	programs [][]string
}

// stages is how many stages run lines at the same time: a line that waits is
// ended after two seconds.
const stages = 4

// run has bash run the lines, in several stages.
func (st *fixture) run(t *testing.T, lines []string) []ran {
	t.Helper()
	parts := make([][]ran, stages)
	errs := make([]error, stages)
	var wg sync.WaitGroup
	for i := range stages {
		part := lines[len(lines)*i/stages : len(lines)*(i+1)/stages]
		if len(part) > 0 {
			wg.Go(func() { parts[i], errs[i] = st.stage(t.Context(), part) })
		}
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(parts...)
}

// stage has bash run the lines, one after the other.
func (st *fixture) stage(ctx context.Context, lines []string) ([]ran, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	log, err := os.MkdirTemp(st.dir, "log")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(log, 0o777); err != nil {
		return nil, err
	}
	var in, out bytes.Buffer
	for _, l := range lines {
		in.WriteString(l + "\x00")
	}
	cmd := exec.CommandContext(ctx, "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
		"--setenv", "PATH", "/bin", "--setenv", "HOME", "/home/u",
		"--tmpfs", "/w", "--tmpfs", "/tmp", "--dir", "/home/u", "--proc", "/proc", "--dev", "/dev",
		"--ro-bind", "/usr/lib", "/usr/lib", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--ro-bind-try", "/usr/lib64", "/usr/lib64",
		"--ro-bind", filepath.Join(st.dir, "bin"), "/bin", "--symlink", "../bin", "/usr/bin",
		"--ro-bind", filepath.Join(st.dir, "real"), "/.real", "--bind", log, "/.log",
		"--chdir", "/w", "--", "/.real/bash", "--norc", "-c", "exec 3<&0 4>&1 5>&2; "+driver)
	cmd.Dir = "/"
	cmd.Stdin = &in
	cmd.Stdout = &out
	testenv.AsUser(cmd)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the stage broke down: %w\n%.2000s", err, errOut.String())
	}
	got := make([]ran, 0, len(lines))
	for _, one := range strings.Split(strings.TrimSuffix(out.String(), "\x00"), "\x00") {
		parts := strings.Split(one, "\x1e")
		if len(parts) < 3 {
			return nil, fmt.Errorf("the stage said %q", one)
		}
		r := ran{parsed: parts[1] == "0"}
		for _, p := range parts[2:] {
			if argv, ok := strings.CutPrefix(strings.TrimLeft(p, "\n"), "P\x1f"); ok {
				r.programs = append(r.programs, strings.Split(argv, "\x1f"))
			}
		}
		got = append(got, r)
	}
	if len(got) != len(lines) {
		return nil, fmt.Errorf("the stage ran %d of %d lines\n%s", len(got), len(lines), errOut.String())
	}
	return got, nil
}

// found reports whether argv, which bash ran, is among what l says.
func found(l *line, argv []string) bool {
	for _, c := range l.Commands {
		if slices.Contains(c.Wrappers, argv[0]) || matches(c, argv) || script(c, argv[0]) {
			return true
		}
	}
	return false
}

// script reports whether c is a shell that runs name as a script: the
// programs of the stage are scripts.
func script(c lineCommand, name string) bool {
	base := filepath.Base(c.Words[0].Value)
	return (base == "bash" || base == "sh" || base == "dash") &&
		slices.ContainsFunc(c.Words[1:], func(w lineWord) bool { return w.Static && filepath.Base(w.Value) == name })
}

// matches reports whether c can have been run as argv. A program that was
// itself found may have been run by a wrapper of the stage.
func matches(c lineCommand, argv []string) bool {
	if !c.Words[0].Static || filepath.Base(c.Words[0].Value) != argv[0] {
		return false
	}
	for i, w := range c.Words {
		if i == 0 {
			continue
		}
		if !fixed(w) {
			// From here on the number of words is not known; but what is known must fit.
			return w.Glob || i >= len(argv) || strings.HasPrefix(argv[i], w.Prefix) || !w.single
		}
		if i >= len(argv) || argv[i] != w.Value {
			return false
		}
	}
	return c.Open || len(argv) == len(c.Words)
}

// disagreements runs those of lines that are read without a doubt, and returns
// what bash did otherwise than it was read.
func (st *fixture) disagreements(t *testing.T, lines []string) (bad []string, clear int) {
	t.Helper()
	var sure []string
	var read []*line
	for _, text := range lines {
		l, refused := parseLine(text, lineStart{Dir: "/w", Home: "/home/u"})
		if refused == nil && len(l.Unknowns) == 0 && !strings.Contains(text, "\x00") {
			sure = append(sure, text)
			read = append(read, l)
		}
	}
	if len(sure) == 0 {
		return nil, 0
	}
	for i, r := range st.run(t, sure) {
		if why := disagreement(read[i], r); why == "" {
			continue
		}
		// A program of the line before may have come late, so once more alone.
		if why := disagreement(read[i], st.run(t, sure[i:i+1])[0]); why != "" {
			bad = append(bad, why)
		}
	}
	return bad, len(sure)
}

func disagreement(l *line, r ran) string {
	if !r.parsed {
		return "bash cannot read it, but we can: " + l.Text + "\n\tread as " + show(l)
	}
	for _, argv := range r.programs {
		if !found(l, argv) {
			return "bash ran " + strings.Join(argv, "|") + " for:\n" + l.Text + "\n\tread as " + show(l)
		}
	}
	return ""
}
