package line

import (
	"fmt"
	"strings"
	"testing"
)

// show writes what was read in one line.
func show(l *Line) string {
	var b strings.Builder
	for i, c := range l.Commands {
		if i > 0 {
			b.WriteString(" ; ")
		}
		for _, w := range c.Wrappers {
			b.WriteString(w + ">")
		}
		for j, w := range c.Words {
			if j > 0 {
				b.WriteByte(' ')
			}
			if w.Static {
				fmt.Fprintf(&b, "%s", w.Value)
			} else {
				fmt.Fprintf(&b, "<%s>", w.Prefix)
			}
		}
		if c.Open {
			b.WriteString(" …")
		}
	}
	if len(l.Unknowns) > 0 {
		b.WriteString(" ??")
	}
	return b.String()
}

func TestShow(t *testing.T) {
	for _, text := range []string{
		"ls -la", "ls; rm x", "env -i FOO=1 timeout 5 npm run test", "bash -lc 'cd x && rm -rf *'", "echo $(id)", "x=rm; $x -rf /", "find . -name '*.go' -exec grep foo {} +",
		"{rm,-rf,/}", "t'o'uch F", `to\uch F`, `$'\x72m' F`, "for ((i=0;i<10;i++)); do echo $((i+1)); done", "[[ -v a[x] ]]", "cat <<EOF\n$(rm x)\nEOF\n", "cat <<'EOF'\n$(rm x)\nEOF\n",
		"xargs rm", "xargs env", "cd /tmp && rm *", "cd /tmp; rm *", "cd /tmp || exit; rm *", "sudo -u root rm x", "eval 'ls; rm x'", "trap 'rm x' EXIT", "ls(){ rm; }; ls", "f(){ rm; }; g",
		"bash <<EOF\nls\nEOF\n", "while read -r x; do echo $x; done", "export PATH=/x", "test -v 'a[$(x)]'", "[ $# -gt 0 ]", "echo ${x:-$(rm)}", "time ls", "watch -n 1 'ls -l'",
		`echo "${x:-'$(rm)'}"`, "a | b | c && d || e", "if cd x; then ls; else rm; fi", "git commit -m 'x'", "declare -i x=1", "bash -c 'echo \"$1\"; $0 x' ls b", "echo @(a|b)", "[[ $a == @(a|b) ]]",
	} {
		l, r := Parse(text, Start{Dir: "/w", Home: "/home/u"})
		if r != nil {
			t.Logf("%q: REFUSED %s", text, r.Message)
			continue
		}
		t.Logf("%q: %s", text, show(l))
		for _, c := range l.Commands {
			if strings.Contains(text, "cd") {
				t.Logf("      %v dir=%q unsure=%v", c.Words[0].Value, c.Dir, c.Unsure)
			}
		}
		for _, u := range l.Unknowns {
			t.Logf("      ? %s", u.Why)
		}
	}
}
