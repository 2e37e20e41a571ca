package fake_test

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// shellTexts are texts that any shell makes the same of, the interpreter
// included. It cannot keep what is quoted inside ${…} apart from what is not:
// ${x#'*'} removes anything, and ${x-"a  b"} is split.
func shellTexts() map[string]string {
	return map[string]string{
		"quotes":              `echo 'a  b' "c  d" e\ \ f "$(echo 'x  y')" 'it'"'"s`,
		"splitting":           `x='a  b'; echo $x "$x"; set -- $x; echo $#; y=; set -- $y "$y"; echo $#`,
		"at":                  `f() { echo $#; for a in "$@"; do echo "[$a]"; done; }; set -- 'a b' c; f "$@"; f $@; f "$*"; f x"$@"y; set --; f "$@"`,
		"defaults":            `echo ${a-1} ${a:-2} ${b=3} $b ${b+4} ${b:+5}; a=; echo "${a-1}${a:-2}" "${#b}"; echo "${c:-x  y}" ${c:-$b}`,
		"cut":                 `x=/a/b/c.tar.gz; echo ${x##*/} ${x#*/} ${x%.*} ${x%%.*} ${x#nothing} ${x%"gz"}`,
		"arithmetic":          `n=3; echo $((n*2+1)) $(( (1+2) * 3 )) $((7/2)) $((7%4)) $((-n)) $((n>2)) $((n==3)); n=$((n+1)); echo $n`,
		"if":                  `if false; then echo a; elif true; then echo b; else echo c; fi; if false; then :; fi; echo $?`,
		"loops":               `for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done; i=0; while [ $i -lt 3 ]; do i=$((i+1)); [ $i = 2 ] && break; done; echo $i; until true; do :; done`,
		"nested break":        `for a in 1 2; do for b in 1 2; do [ $b = 2 ] && continue 2; echo $a$b; done; done; for a in 1 2; do for b in 1 2; do break 2; done; done; echo $a`,
		"case":                `for x in abc a1 '' '*' 'x y'; do case $x in a[0-9]) echo digit;; a*|b*) echo "ab";; '') echo empty;; \*) echo star;; *) echo other;; esac; done`,
		"functions":           `f() { echo $1; return 3; }; f x; echo $?; g() { f "$1" || return 4; }; g y; echo $?; h() (exit 5); h; echo $?`,
		"here":                "x=1; cat <<A; cat <<'B'; cat <<-C\nx is $x $(echo two)\nA\nx is $x\nB\n\ttabs\n\tC\necho after",
		"redirections":        `echo one >/tmp/rtest.$$; echo two >>/tmp/rtest.$$; cat </tmp/rtest.$$; rm /tmp/rtest.$$; { echo out; echo err >&2; } 2>&1 >/dev/null; (echo x) >/dev/null`,
		"pipes":               `printf '3\n1\n2\n' | sort | head -n 2; echo a | while read -r x; do echo "<$x>"; done; true | false; echo $?; ! false | true; echo $?`,
		"status":              `false; echo $?; (exit 7); echo $?; sh -c 'exit 8'; echo $?; x=$(exit 9); echo $?; nosuchprogram 2>/dev/null; echo $?`,
		"and or":              `true && echo a || echo b; false && echo c || echo d; false || false || echo e; ! true || echo f`,
		"errexit":             `set -e; false || true; if false; then :; fi; ! true; echo on; false; echo off`,
		"errexit in a child":  `set -e; (false; echo a); echo b`,
		"background":          `(exit 6) & wait $!; echo $?; { echo bg; } & wait`,
		"traps":               `trap 'echo bye' EXIT; (trap 'echo sub' EXIT; :); echo main; exit 3`,
		"signal trap":         `trap 'echo got' TERM; kill -TERM $$; echo after`,
		"ignored":             `trap '' TERM; kill -TERM $$; sh -c 'kill -TERM $$; echo child lives'; echo alive`,
		"killed child":        `sh -c 'kill -9 $$'; echo $?`,
		"subshell":            `x=1; (x=2; cd /; echo $x); echo $x; cd /tmp; pwd; (cd /); pwd`,
		"environment":         `A=1 sh -c 'echo $A'; echo "[$A]"; export B=2; sh -c 'echo $B'; C=3; sh -c 'echo "[$C]"'; unset B; sh -c 'echo "[$B]"'`,
		"read":                "printf 'a b c\\nlast' | { read x y; echo \"$y\"; read z || echo end $z; }",
		"eval":                `x='echo "a  b"'; eval $x; eval "$x; y=5"; echo $y`,
		"exec":                `exec sh -c 'echo replaced'; echo never`,
		"test":                `[ a = a ] && [ 2 -gt 1 ] && [ -n x ] && [ ! -e /nothing ] && [ -d / ] && test -z "" && echo yes; [ 1 = 2 ]; echo $?; [ "" ]; echo $?`,
		"printf":              `printf '%s|%s\n' a b c; printf '%d%%\n' 42; printf 'a\tb\\n\101\n'; printf '%b' 'x\ny\n'`,
		"comments":            "echo a # b\n# c\necho d#e",
		"continued":           "echo a \\\n b; echo 'a\\\nb' \"c\\\nd\"",
		"backquotes":          "echo `echo a \\`echo b\\`` \"`echo 'c  d'`\"",
		"glob":                `mkdir /tmp/g.$$; cd /tmp/g.$$; : >b; : >a; : >.h; mkdir d; : >d/x; echo *; echo "*" \*; echo */x; echo .h*; echo [ab]; echo no*; set -f; echo *; cd /; rm -r /tmp/g.$$`,
		"alias is late":       "echo one",
		"bad text":            `echo "unclosed`,
		"lone operator":       `&& echo`,
		"unset":               `set -u; echo ${x-fine}; echo $x; echo off`,
		"dollar":              `echo $ "$" a$ '$x'`,
		"empty":               ``,
		"command -v":          `f() { :; }; command -v f; command -v nosuch; echo $?`,
		"umask":               `umask 027; umask; (umask 0); umask`,
		"shift":               `set -- a b c; shift; echo $1; shift 2; echo $#`,
		"readonly":            `readonly r=1; (r=2) 2>/dev/null; echo $r`,
		"seq and wc":          `seq 3; seq 2 4 | wc -l; printf abc | wc -c`,
		"function redirected": `f() { echo x; }; f >/dev/null; f | cat`,
	}
}

// TestShellAgrees compares the fake's shell with the machine's.
func TestShellAgrees(t *testing.T) {
	real, err := exec.LookPath("dash")
	if err != nil {
		testenv.Lack(t, "dash", "it is not installed")
	}
	_, sb := box(t, fake.Options{})
	for name, text := range shellTexts() {
		t.Run(name, func(t *testing.T) {
			var want, got bytes.Buffer
			cmd := exec.CommandContext(t.Context(), real, "-c", text)
			cmd.Dir, cmd.Stdout = "/tmp", &want
			var exit *exec.ExitError
			if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			p, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", text}, Dir: "/tmp", Stdout: &got})
			if err != nil {
				t.Fatal(err)
			}
			result, err := p.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if strip(got.String()) != strip(want.String()) || (result.Code == 0) != cmd.ProcessState.Success() {
				t.Errorf("status %d, stdout %q; a real shell says %d, %q", result.Code, got.String(), cmd.ProcessState.ExitCode(), want.String())
			}
		})
	}
}

// strip drops blanks around numbers, which differ between versions of wc.
func strip(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "      ", "")) }

// TestRunaways holds that texts without end are ended by a limit or by a kill.
func TestRunaways(t *testing.T) {
	_, sb := box(t, fake.Options{})
	for name, text := range map[string]string{
		"recursion": "f() { f; }; f",
		"eval":      `x='eval "$x"'; eval "$x"`,
		"aliases":   "alias a='b; a' b='a; b'\na",
		"nesting":   strings.Repeat("(", 5000),
		"quoting":   strings.Repeat(`"$(`, 5000),
	} {
		p, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", text}})
		if err != nil {
			t.Fatal(err)
		}
		if exit, err := p.Wait(); err != nil || exit.Code == 0 {
			t.Errorf("%s: %+v, %v", name, exit, err)
		}
	}
	for _, text := range []string{"while :; do :; done", "for i in $(yes); do :; done", "f() { f & f; }; while :; do sleep 1 & done"} {
		p, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", text}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if exit, err := p.Wait(); err != nil || exit.Code != 137 {
			t.Errorf("%q: %+v, %v", text, exit, err)
		}
	}
}
