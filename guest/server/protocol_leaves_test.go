package server

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestEffect(t *testing.T) {
	bash, _ := forProtocol("bash", 7)
	sh, _ := forProtocol("sh", 7)
	for want, texts := range map[protocolEffect][]string{
		protocolPrints: {
			":", "true", "false", "echo", "echo a b", " echo\ta ", "echo 'a $(b) \\'", `echo "a 'b' !"`, "echo a; echo b", "echo a;", "echo a\n\necho b\n",
			"false || echo a && true", "echo a >&2", "echo a 2>&1", "echo a 1>&2 b", "pwd", "printf '%s\\n' a", `printf "%d%%\n" 1`, "echo --x=y * ?", "echo ~", "echo if then", `echo "\a"`,
		},
		protocolLeaves: {
			"ls", "ls -la", "/bin/true", "./x y", "git status", "a.b-c+d a=b", "ls | cat", "echo a | cat", "echo a >f", "echo a >> 'f g'", "cat <f", "ls 2>/dev/null",
			"ls >f 2>&1", "test -f x", "test -f x && echo y", "7z x", "1", "12 a", "env A=1 b", "sleep 1; echo done", "cat 'a[1]'", "echo>f",
		},
		protocolChanges: {
			"", " ", "\n", ";", "a=1", "a=1 ls", "a+=1", "cd", "cd /", "export a", "read x", "echo $a", `echo "$a"`, "echo `a`", "echo \"`a`\"", "echo \\a", `echo "\\a"`, `echo "a\"`, `echo "a\"b"`,
			"echo 'a", `echo "a`, "ls &", "ls & echo", "ls |& cat", "ls &> f", "ls ||| b", "ls &&& b", "ls &&", "ls |", "ls && \n ls", "&& ls", "; ls", "ls ;; ls", "ls ; ; ls",
			"(ls)", "{ ls; }", "! ls", "[ -f x ]", "[[ a ]]", "if true", "time ls", "coproc ls", "function f", "exec ls", "eval ls", ". f", "source f", "command ls", "builtin echo",
			"ls <<a", "ls <<<a", "ls <(a)", "ls >(a)", "ls <>f", "ls >|f", ">f", ">f eval x", "2>f eval x", "2>&1 ls", "ls 3>f", "ls 250>f", "ls 10>&1", "ls >&3", "ls >&-", "ls >& f", "ls >",
			"ls > > f", "ls > ;", "<f read x", "ls #x", "ls a{b,c}", "printf", "printf -v x a", "printf '-v' x", "printf %n x", "printf %5n x", "printf '%'n x", "printf \"%\"'n' x", "printf % x",
			"printf a%", "printf '%(%s)T'", "printf %*d 1 2", "pwd -P", "test -v 'a[x++]'", "test -v a[1]", "%1", "-x", "+x", "1>f", "12>f a", "~ a", "*", "l*", "l?", "'ls'", "l's'", "e'val' x", "a,b", "a@b", "a%b",
			"ls\r", "ls\x00", "ls \x01", "l\u00e9", "ls \u00e9", "ls\u00a0a", "ls\u200b", "wait", "kill 1", "trap x EXIT", "set -e", "shopt -s x", "umask 0", "ulimit", "exit", "return",
			"echo " + strings.Repeat("x", 5000), "declare x", "a[1]=x", "a^b",
		},
	} {
		for _, text := range texts {
			if got := bash.Effect(text); got != want {
				t.Errorf("%.80q: got %d, want %d", text, got, want)
			}
			if sh.Effect(text) != protocolChanges {
				t.Errorf("%q: another shell than bash is thought to be left as it is", text)
			}
		}
	}
}

func findBash(t *testing.T) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		testenv.Lack(t, "bash", err)
	}
	return bash
}

// TestEffectKnowsBash holds that nothing that bash does itself counts as a
// program.
func TestEffectKnowsBash(t *testing.T) {
	names, err := exec.Command(findBash(t), "-c", "compgen -b; compgen -k").Output()
	if err != nil || len(strings.Fields(string(names))) < 70 {
		t.Fatalf("%q, %v", names, err)
	}
	d, _ := forProtocol("bash", 7)
	harmless := map[string]bool{":": true, "true": true, "false": true, "echo": true, "pwd": true, "test": true}
	for _, name := range strings.Fields(string(names)) {
		if got := d.Effect(name); (got != protocolChanges) != harmless[name] {
			t.Errorf("%s: got %d", name, got)
		}
	}
}

// TestEffectIsTrue has bash run whatever of many lines is thought to leave it
// as it was, the same way as a guest does, and looks. The lines are of pieces
// that mean something to bash. They can write to files, so none of them names
// one outside, and the test does not run them as a user that could write there.
func TestEffectIsTrue(t *testing.T) {
	bash := findBash(t)
	d, _ := forProtocol("bash", 7)
	r := rand.New(rand.NewPCG(4, 2))
	pieces := strings.Split(`printf -v x %d |printf '-v' x |printf '%d%n' 1 x |test -v 'a[x=9]' |:|true|false|echo|pwd|printf|test|cat|expr|./tool|env|x=1|x|a[0]|'a[x=9]'|-v|-n|'%n'|%s|%d|'%s %d'|1|5|=|'$x'|"a b"|''|'|"|eval|set|-e|cd|..|export|read|$x|\|(|)|{|}|!|if|then|fi|[|]|[[|#|~|*|f|f g|>|>>|<|<<|2>|>&2|2>&1|>&|&>|;|;;|&|&&|BAR|BAR BAR|NL|2|alias|trap|unset|exit|y=`, "|")
	var script bytes.Buffer
	// What bash changes by itself is left out.
	const look = `{ declare -p; alias -p; trap -p; umask; shopt -p; set +o; declare -f; pwd; } 2>&1 |
grep -Ev '^declare -[-aAirx]+ (_|PIPESTATUS|RANDOM|SRANDOM|SECONDS|EPOCH[A-Z]*|BASH_[A-Z]*|LINENO|BASHPID|FUNCNAME)=' >`
	fmt.Fprintf(&script, "mkdir w; cd w; builtin printf '#!/bin/sh\\necho tool\\n' >tool; chmod +x tool; x=7; a=(1 2)\n%s../was\n", look)
	lines := map[string]bool{}
	for tries := 0; tries < 400_000 && len(lines) < 250; tries++ {
		var b strings.Builder
		for range 1 + r.IntN(7) {
			p := pieces[r.IntN(len(pieces))]
			b.WriteString(strings.NewReplacer("BAR", "|", "NL", "\n").Replace(p))
			b.WriteString(strings.Repeat(" ", min(1, r.IntN(4))))
		}
		text := b.String()
		effect := d.Effect(text)
		if effect == protocolChanges || lines[text] || strings.Count(text, " ") < 2 {
			continue
		}
		lines[text] = true
		quoted := "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
		if effect == protocolPrints {
			fmt.Fprintf(&script, "{ %s\n} >/dev/null 2>&1 </dev/null\n", text)
		} else {
			fmt.Fprintf(&script, "builtin eval %s >/dev/null 2>&1 </dev/null\n", quoted)
		}
		fmt.Fprintf(&script, "%s../is; cmp -s ../is ../was || { builtin printf 'CHANGED by %%q\\n' %s; diff ../was ../is; mv ../is ../was; }\n", look, quoted)
	}
	if len(lines) < 250 {
		t.Fatalf("only %d lines", len(lines))
	}
	script.WriteString("builtin echo the end\n")
	dir := t.TempDir()
	cmd := exec.Command(bash, "--norc", "--noprofile", "-s")
	if os.Geteuid() == 0 {
		const nobody = 65534
		if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chown(dir, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	cmd.Stdin = &script
	cmd.Dir, cmd.Env = dir, []string{"PATH=/bin:/usr/bin", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if string(out) != "the end\n" {
		t.Errorf("%v: %.4000s", err, out)
	}
}

func TestUsual(t *testing.T) {
	const opts = "checkwinsize:expand_aliases:sourcepath"
	const set = "braceexpand:hashall:interactive-comments"
	const reported = "__sandbox_traps() {\nbuiltin unset -f __sandbox_traps\n"
	for _, tt := range []struct {
		name, tail string
		want       bool
	}{
		{"usual", "declare -- x=\"1\"\numask 0022\n__sandbox_end " + opts + " " + set + "\n", true},
		{"strict", "x\numask 0077\n__sandbox_end " + opts + " " + set + ":errexit:nounset:pipefail\n", true},
		{"cut", "umask 0022\n__sandbox_end " + opts + " " + set + "\n", false},
		{"not whole", "x\numask 0022\n__sandbox_end " + opts + " " + set, false},
		{"an alias", "x\numask 0022\nalias a='b'\n__sandbox_end " + opts + " " + set + "\n", false},
		{"an alias that looks like an umask", "x\numask 0022\nalias a='\numask 0022'\n__sandbox_end " + opts + " " + set + "\n", false},
		{"a trap", "x\numask 0022\ntrap -- 'x' EXIT\n__sandbox_end " + opts + " " + set + "\n", false},
		{"a trap of bash", reported + "trap -- 'x' DEBUG\n}\nx\numask 0022\n__sandbox_end " + opts + " " + set + "\n", false},
		{"no trap of bash", reported + "}\nx\numask 0022\n__sandbox_end " + opts + " " + set + "\n", true},
		{"a function", "x\numask 0022\n#f\nf () \n{ \n    umask 0022\n}\n__sandbox_end " + opts + " " + set + "\n", false},
		{"a builtin that is disabled", "x\numask 0022\n#echo\n__sandbox_end " + opts + " " + set + "\n", false},
		{"posix", "x\numask 0022\nbuiltin set +o posix\n__sandbox_end " + opts + " " + set + ":posix\n", false},
		{"lastpipe", "x\numask 0022\n__sandbox_end " + opts + ":lastpipe " + set + "\n", false},
		{"extdebug", "x\numask 0022\n__sandbox_end extdebug " + set + "\n", false},
		{"failglob", "x\numask 0022\n__sandbox_end " + opts + ":failglob " + set + "\n", false},
		{"xtrace", "x\numask 0022\n__sandbox_end " + opts + " " + set + ":xtrace\n", false},
		{"verbose", "x\numask 0022\n__sandbox_end " + opts + " " + set + ":verbose\n", false},
		{"functrace", "x\numask 0022\n__sandbox_end " + opts + " " + set + ":functrace\n", false},
		{"keyword", "x\numask 0022\n__sandbox_end " + opts + " " + set + ":keyword\n", false},
		{"no umask", "x\n__sandbox_end " + opts + " " + set + "\n", false},
		{"another umask", "x\numask u=rwx\n__sandbox_end " + opts + " " + set + "\n", false},
		{"nothing", "", false},
		{"an end alone", "__sandbox_end a b\n", false},
		{"no options", "x\numask 0022\n__sandbox_end\n", false},
	} {
		if got := usualProtocol([]byte(tt.tail[:min(len(tt.tail), usualHead)]), []byte(tt.tail)); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// FuzzEffect holds that nothing is looked at beyond its end, and that a line
// that leaves its shell as it was holds nothing that bash puts something into.
func FuzzEffect(f *testing.F) {
	for _, s := range []string{"echo 'a' >&2", "ls 2>f; :", `printf "%s" a || x`, "a |"} {
		f.Add(s)
	}
	d, _ := forProtocol("bash", 7)
	f.Fuzz(func(t *testing.T, text string) {
		if d.Effect(text) == protocolChanges {
			return
		}
		rest := text
		for at := strings.IndexByte(rest, '\''); at >= 0; at = strings.IndexByte(rest, '\'') {
			if q := strings.IndexByte(rest, '"'); q >= 0 && q < at {
				return // quotes in quotes: not for such a simple look
			}
			end := strings.IndexByte(rest[at+1:], '\'')
			if end < 0 {
				t.Fatalf("%q: a quote is open", text)
			}
			rest = rest[:at] + rest[at+end+2:]
		}
		if strings.ContainsAny(rest, "$`\\(){}!#\r\x00") && !strings.Contains(rest, `"`) {
			t.Errorf("%q leaves everything as it was", text)
		}
	})
}
