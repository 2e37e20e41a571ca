//go:build linux

package sandboxexec

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestShellKeeps holds what stays from line to line, and what a line writes.
func TestShellKeeps(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	h := r.open(s)
	sh := r.shell(h, sandbox.ShellOptions{Env: map[string]string{"FROM_SHELL": "shell"}})
	for _, tt := range []struct{ name, set, show, want string }{
		{"environment", ":", `echo "$FROM_SPEC $FROM_SHELL"; sh -c 'echo "$FROM_SHELL"'`, "spec shell\nshell\n"},
		{"folder", "mkdir -p 'a b/c'; cd 'a b/c'", "pwd", s.Mounts[0].Source + "/a b/c\n"},
		{"folder before", "cd /; cd /usr", `cd - >/dev/null; pwd`, "/\n"},
		{"variable", "x='a  b\n\"c\" $d'", `printf %s "$x"`, "a  b\n\"c\" $d"},
		{"not exported", "x=1", `sh -c 'echo "${x-unset}"'`, "unset\n"},
		{"exported", "export y=2", `sh -c 'echo "$y"'`, "2\n"},
		{"unset", "unset FROM_SPEC", `echo "${FROM_SPEC-unset}"`, "unset\n"},
		{"array", "arr=(a 'b c' d)", `echo "${#arr[@]} ${arr[1]}"`, "3 b c\n"},
		{"integer", "declare -i n=3", "n=n+4; echo $n", "7\n"},
		{"read-only", "readonly fixed=1", "(fixed=2) 2>/dev/null; echo $fixed", "1\n"},
		{"bytes", `odd=$'\x01\xff\xc3\xa9'`, `printf %s "$odd"`, "\x01\xff\xc3\xa9"},
		{"function", `f() { local v="$1"; echo "f $v"; }`, "f x", "f x\n"},
		{"exported function", `g() { echo g; }; export -f g`, "bash -c g", "g\n"},
		{"alias", "alias hi='echo hello'", "hi there", "hello there\n"},
		{"option", "set -f", "echo /*", "/*\n"},
		{"option off", "set +f", "echo /us*", "/usr\n"},
		{"shopt", "shopt -s extglob nullglob", "echo /us+(r) /no-such-*", "/usr\n"},
		{"umask", "umask 027", "umask", "0027\n"},
		{"parameters", "set -- 'a b' c", `echo "$# $1"`, "2 a b\n"},
		{"IFS", "IFS=:", `v=a:b; printf '%s-' $v`, "a-b-"},
		{"trap", "trap 'echo usr1' USR1", "kill -USR1 $$", "usr1\n"},
		{"trap at the end", "trap 'echo bye' EXIT", "echo here", "here\n"},
		{"overridden", "cd() { builtin cd \"$@\"; echo moved; }; printf() { echo no; }", "cd /", "moved\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &rig{T: t, dir: r.dir}
			r.says(sh, tt.set, "")
			r.says(sh, tt.show, tt.want)
			r.says(sh, ":", "")
		})
	}
	if got := r.line(sh, "unset -f cd printf; exit 5"); got.out != "bye\n" || got.exit.Code != 5 || !got.exit.Restarted {
		t.Errorf("the trap at the end: %+v", got)
	}
}

func TestShellLine(t *testing.T) {
	r := newRig(t)
	sh := r.shell(r.open(r.spec("a")), sandbox.ShellOptions{})
	for _, tt := range []struct {
		line, out, err string
		code           int
	}{
		{"echo out; echo err >&2; exit_with() { return 3; }; exit_with", "out\n", "err\n", 3},
		{"echo $?", "3\n", "", 0},
		{"", "", "", 0},
		{"# nothing", "", "", 0},
		{"cat <<E\nhere\nE", "here\n", "", 0},
		{"cat <<E\nset here", "set here\n", "", 0},
		{"echo a \\", "a\n", "", 0},
		{"for i in 1 2\ndo echo $i; done", "1\n2\n", "", 0},
		{`printf 'a\000b\377'`, "a\x00b\xff", "", 0},
		{"false", "", "", 1},
		{"no-such-command 2>/dev/null", "", "", 127},
		{"(echo later) & wait", "later\n", "", 0},
		{"echo x >&4", "", "", 1},
		{"set -e; true", "", "", 0},
		{"false; echo went on", "went on\n", "", 0},
		{"set -e; test -f /no/such && true", "", "", 1},
		{"set -u; echo ok", "ok\n", "", 0},
		{`echo "[$never_set]"`, "[]\n", "", 0},
	} {
		got := r.line(sh, tt.line)
		if tt.line == "echo x >&4" || strings.HasPrefix(tt.line, "cat <<E\nset") {
			got.err = "" // bash says why
		}
		if got.out != tt.out || got.err != tt.err || got.exit.Code != tt.code || got.exit.Restarted {
			t.Errorf("%q: %+v, %q, %q", tt.line, got.exit, got.out, got.err)
		}
	}
	if got := r.line(sh, "if"); got.exit.Code == 0 || got.exit.Restarted || got.err == "" {
		t.Errorf("nonsense: %+v", got)
	}
	r.says(sh, "set -x", "")
	if got := r.line(sh, "echo traced"); got.out != "traced\n" || !strings.HasSuffix(got.err, "+ echo traced\n") || strings.Contains(got.err, "__sandbox") {
		t.Errorf("under xtrace: %q, %q", got.out, got.err)
	}
	if got := r.line(sh, "set +x"); got.exit.Code != 0 {
		t.Errorf("%+v", got)
	}
	r.says(sh, "echo quiet", "quiet\n")
	long := strings.Repeat("x", 300_000)
	if got := r.line(sh, "long="+long+"; echo ${#long}"); got.out != "300000\n" {
		t.Errorf("a long line: %+v", got.exit)
	}
	r.says(sh, "echo ${#long}", "300000\n")
	var out bytes.Buffer
	p, err := sh.Run(t.Context(), "read a; cat; echo $a", sandbox.Command{Stdin: strings.NewReader("one\ntwo"), Stdout: &out})
	must(t, err)
	if _, err := p.Wait(); err != nil || out.String() != "twoone\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestShellEnds holds that a shell which ends takes everything with it, and that
// the next line finds the state before.
func TestShellEnds(t *testing.T) {
	for i, tt := range []struct {
		line   string
		code   int
		signal string
	}{
		{"exit 3", 3, ""}, {"exit 0", 0, ""}, {"exec sh -c 'exit 4'", 4, ""}, {"set -e; false; echo went on", 1, ""},
		{`set -u; echo "$never_set"; echo went on`, 127, ""}, {"kill -9 $$", 137, "KILL"}, {"set -n; true", 0, ""},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			r := newRig(t)
			s := r.spec("a")
			sh := r.shell(r.open(s), sandbox.ShellOptions{})
			r.says(sh, "x=kept; cd /; sleep 300 & echo $! >"+s.Mounts[0].Source+"/pid", "")
			pid := r.pidIn(filepath.Join(s.Mounts[0].Source, "pid"))
			if !alive(pid) {
				t.Fatal("what the line left running has ended with it")
			}
			got := r.line(sh, "x=lost; y=lost; cd /usr; echo before; "+tt.line)
			if got.out != "before\n" || got.exit.Code != tt.code || got.exit.Signal != tt.signal || !got.exit.Restarted {
				t.Errorf("%+v, %q", got.exit, got.out)
			}
			testenv.Until(t, "the process ends", func() bool { return !alive(pid) })
			r.says(sh, `echo "$x ${y-unset} $PWD"`, "kept unset /\n")
		})
	}
}

// TestShellKilled holds that the end of a line's context ends the whole shell.
func TestShellKilled(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	sh := r.shell(r.open(s), sandbox.ShellOptions{})
	at := s.Mounts[0].Source
	r.says(sh, "x=kept; sleep 300 & echo $! >"+at+"/first", "")
	first := r.pidIn(at + "/first")
	ctx, cancel := context.WithCancel(t.Context())
	p, err := sh.Run(ctx, "x=lost; sleep 300 & echo $! >"+at+"/second; wait", sandbox.Command{})
	must(t, err)
	second := r.pidIn(at + "/second")
	cancel()
	if exit, err := p.Wait(); err != nil || exit.Signal != "KILL" || !exit.Restarted {
		t.Errorf("%+v, %v", exit, err)
	}
	testenv.Until(t, "both end", func() bool { return !alive(first) && !alive(second) })
	r.says(sh, "echo $x", "kept\n")

	p, err = sh.Run(t.Context(), "trap 'exit 7' TERM; >"+at+"/ready; while :; do sleep 0.05; done", sandbox.Command{})
	must(t, err)
	testenv.Until(t, "the trap is set", func() bool { _, err := os.Stat(at + "/ready"); return err == nil })
	must(t, p.Signal(t.Context(), "TERM"))
	if exit, err := p.Wait(); err != nil || exit.Code != 7 || !exit.Restarted {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestShellBackground holds that what a line leaves running lives on unheard, and
// ends with the shell.
func TestShellBackground(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	sh := r.shell(r.open(s), sandbox.ShellOptions{})
	at := s.Mounts[0].Source
	r.says(sh, "(sleep 0.3; while :; do echo noise; echo noise >&2; sleep 0.01; echo . >>"+at+"/beats; done) & echo $! >"+at+"/pid; echo said", "said\n")
	pid := r.pidIn(at + "/pid")
	r.says(sh, "echo next", "next\n")
	size := func() int64 {
		st, err := os.Stat(at + "/beats")
		if err != nil {
			return 0
		}
		return st.Size()
	}
	now := size()
	testenv.Until(t, "it goes on", func() bool { return size() > now+100 })
	must(t, sh.Close())
	testenv.Until(t, "it ends", func() bool { return !alive(pid) })
	if _, err := sh.Run(t.Context(), ":", sandbox.Command{}); sandbox.CodeOf(err) != sandbox.CodeNotFound {
		t.Errorf("a line in a closed shell: %v", err)
	}
}

func TestShellTurns(t *testing.T) {
	r := newRig(t)
	h := r.open(r.spec("a"))
	sh := r.shell(h, sandbox.ShellOptions{ID: "build"})
	if sh.ID() != "build" || sh.Program() != "bash" {
		t.Errorf("%q, %q", sh.ID(), sh.Program())
	}
	first, err := sh.Run(t.Context(), "while ! [ -e go ]; do sleep 0.01; done; x=first", sandbox.Command{})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := sh.Run(ctx, ">never", sandbox.Command{}); sandbox.CodeOf(err) != sandbox.CodeTimeout {
		t.Errorf("while another line runs: %v", err)
	}
	r.run(h, "touch", "go")
	if exit, err := first.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	r.says(sh, `[ -e never ] || echo "$x"`, "first\n")
	for field, c := range map[string]sandbox.Command{
		"args": {Args: []string{"x"}}, "env": {Env: map[string]string{"a": "b"}}, "dir": {Dir: "/"}, "tty": {TTY: &sandbox.TTY{}},
		"limits": {Limits: sandbox.Limits{OpenFiles: 1}}, "detach": {Detach: true}, "bare": {Bare: true},
	} {
		_, err := sh.Run(t.Context(), ":", c)
		if e, ok := err.(*sandbox.Error); !ok || e.Code != sandbox.CodeValidation || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := sh.Run(t.Context(), "a\x00b", sandbox.Command{}); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Error(err)
	}
	if _, err := h.OpenShell(t.Context(), sandbox.ShellOptions{Dir: "/no/such/dir"}); sandbox.CodeOf(err) != sandbox.CodeExecution {
		t.Errorf("a missing folder: %v", err)
	}
}

// TestShellState holds what becomes of a state that cannot be taken up, or kept.
func TestShellState(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	sh := r.shell(r.open(s), sandbox.ShellOptions{})
	at := s.Mounts[0].Source
	r.says(sh, "x=kept; mkdir d; cd d", "")
	must(t, os.Remove(at+"/d"))
	if got := r.line(sh, "echo $x; pwd"); got.out != "kept\n"+at+"\n" || !strings.Contains(got.err, "/d is gone") {
		t.Errorf("in a folder that is gone: %q, %q", got.out, got.err)
	}
	got := r.line(sh, `x=$(printf '%0*d' 17000000 0); echo ${#x}`)
	if got.out != "17000000\n" || got.exit.Restarted || !strings.Contains(r.warnings(), "larger than") {
		t.Errorf("a large state: %+v, %.40q, %q", got.exit, got.out, r.warnings())
	}
	r.says(sh, "echo $x", "kept\n")
	r.file("deaf", "")
	if got := r.line(sh, `echo "[$x]"`); got.out != "[]\n" || !got.exit.Restarted || !strings.Contains(r.warnings(), "given up") {
		t.Errorf("a state that is not taken up: %+v, %q, %q", got.exit, got.out, r.warnings())
	}
	r.file("broken", "")
	if _, err := sh.Run(t.Context(), "echo ran", sandbox.Command{}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("a shell that is not started: %v", err)
	}
}

// TestShellFollowsRules holds that each line has the profile of its moment.
func TestShellFollowsRules(t *testing.T) {
	r := newRig(t)
	s := r.spec("a")
	s.Filesystem.DenyRead = []string{"**/.env"}
	h := r.open(s)
	sh := r.shell(h, sandbox.ShellOptions{})
	r.says(sh, "x=1; mkdir late", "")
	secret := filepath.Join(s.Mounts[0].Source, "late", ".env")
	must(t, os.WriteFile(secret, nil, 0o600))
	r.says(sh, "echo $x", "1\n")
	if !strings.Contains(r.profile(), `(subpath "`+secret+`")`) {
		t.Errorf("what appeared is not closed:\n%s", r.profile())
	}
	other := filepath.Join(r.home, "other")
	must(t, os.Mkdir(other, 0o700))
	s.Grants = []sandbox.Grant{{Operation: sandbox.OpWrite, Path: other}}
	granted := r.reopen(s)
	moved, err := granted.MoveShell(t.Context(), sh, sandbox.ShellOptions{ID: "m"})
	must(t, err)
	defer moved.Close()
	if got := r.line(moved, "echo $x"); got.out != "1\n" || !got.exit.Restarted {
		t.Errorf("a moved shell: %+v, %q", got.exit, got.out)
	}
	r.says(moved, "echo $x", "1\n")
	if !strings.Contains(r.profile(), `(subpath "`+other+`")`) {
		t.Errorf("what was granted is closed:\n%s", r.profile())
	}
	if _, err := granted.MoveShell(t.Context(), nil, sandbox.ShellOptions{}); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
		t.Errorf("no shell: %v", err)
	}
	b := r.open(r.spec("b"))
	if _, err := b.MoveShell(t.Context(), sh, sandbox.ShellOptions{}); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
		t.Errorf("a shell of another sandbox: %v", err)
	}
}

// FuzzAnswer holds that what a shell tells of its state is taken whole or not at
// all, and is read back as it was told.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("Rx\nstate\x00"), "echo a")
	f.Add([]byte("R\n\x00\x00"), "set -e")
	f.Add([]byte{}, `\`)
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		state, ok := answer(b).state()
		if !ok || strings.IndexByte(text, 0) >= 0 {
			return
		}
		if strings.IndexByte(state, 0) >= 0 || "R"+state+"\x00" != string(b) {
			t.Errorf("%q is read as %q", b, state)
		}
		in := lineInput(state, text)
		if n := bytes.Count(in, []byte{0}); n != 2 || in[len(in)-1] != 0 || !bytes.Contains(in, []byte(text)) {
			t.Errorf("%q has %d parts", in, n)
		}
	})
}
