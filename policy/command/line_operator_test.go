package command

import (
	"fmt"
	"strings"
	"testing"
)

// TestOperators holds which signs the shell acts upon, and where.
func TestOperators(t *testing.T) {
	for text, want := range map[string]string{
		"ls -l":                            "",
		"ls; pwd":                          ";@2",
		"ls;":                              ";@2",
		"ls\npwd":                          ";@3",
		"ls # a; b | c":                    "",
		"a && b || c | d":                  "&&@2 ||@7 |@12",
		"a |& b":                           "|@2",
		"echo `id` $(id)":                  "`@5 $(@10",
		"echo ${x} $y ${z:-1}":             "${@5x2",
		`echo "${x} $(id)"`:                "${@6 $(@11",
		"diff <(a) <(b)":                   "<(@5x2",
		"tee >(cat)":                       ">(@4",
		`echo 'a; b && c | d $(e) ${f}'`:   "",
		`echo "a; b && c | d"`:             "",
		`echo a\;b \$\(x\) \| \&\& \${x}`:  "",
		`echo $'a;b'`:                      "",
		`find . -exec ls {} \;`:            "",
		"sleep 1 & wait":                   "",
		"sleep 1 & wait; ls":               ";@14",
		"echo $((1 + 2))":                  "",
		"echo $((1 + $(id)))":              "$(@12",
		"ls > out 2>&1":                    "",
		"ls >| out":                        "",
		"[[ a == b || c == d && -n e ]]":   "",
		"((a = 1 || b && c))":              "",
		"for f in a b; do ls; done":        ";@12x2",
		"for f in a b\ndo ls\ndone":        "",
		"for ((i=0;i<3;i++)); do ls\ndone": ";@19",
		"if ls; then pwd; fi":              ";@5x2",
		"while ls; do pwd; done":           ";@8x2",
		"case x in a|b) ls;; esac":         ";@17",
		"{ ls; }":                          ";@4",
		"(ls)":                             "",
		"f() { ls; }":                      ";@8",
		"bash -c 'ls; pwd | wc'":           ";@8 |@8",
		"eval 'ls && pwd'":                 "&&@5",
		"cat <<'EOF'\n$(id); ${x}\nEOF":    "",
		"cat <<EOF\n$(id); ${x}\nEOF":      "$(@10 ${@17",
		"bash <<'EOF'\nls; pwd\nEOF":       ";@5",
		"x=${y} ls":                        "${@2",
		"a=(1 $(id))":                      "$(@5",
		"ls > ${x}":                        "${@5",
		"cat <<<${x}":                      "${@7",
		`git commit -m "a; b"`:             "",
		"awk '{print $1; x | \"y\"}' a":    "",
		"ls ä; pwd":                        ";@5",
	} {
		l, refused := parseLine(text, lineStart{Dir: "/w"})
		if refused != nil {
			t.Errorf("%q: %+v", text, refused)
			continue
		}
		var got []string
		for _, o := range l.Operators {
			s := fmt.Sprintf("%s@%d", o.Text, o.Span.Start)
			if o.Count > 1 {
				s += fmt.Sprintf("x%d", o.Count)
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: %q, want %q", text, s, want)
		}
	}
}
