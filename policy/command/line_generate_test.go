package command

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A maker composes lines at random, from a seed, so that each can be made
// again.
type maker struct {
	*rand.Rand
	depth int
}

func newMaker(seed uint64) *maker { return &maker{Rand: rand.New(rand.NewPCG(seed, 5))} }

func pick[T any](m *maker, of ...T) T { return of[m.IntN(len(of))] }

// line makes a line.
func (m *maker) line() string {
	m.depth = 0
	s := m.list()
	for m.IntN(4) == 0 {
		s = m.disturb(s)
	}
	return s
}

// disturb changes one byte of s, so that what is nearly a construct is read too.
func (m *maker) disturb(s string) string {
	if s == "" {
		return s
	}
	i := m.IntN(len(s))
	switch m.IntN(4) {
	case 0:
		return s[:i] + s[i+1:]
	case 1:
		return s[:i] + pick(m, "'", `"`, "`", "\\", "$", "(", ")", "{", "}", "\n", ";", "&", "|", "<", ">", "#", " ", "!", "=", "[", "]", "~", "\\\n", "*", ",") + s[i:]
	case 2:
		j := m.IntN(len(s))
		b := []byte(s)
		b[i], b[j] = b[j], b[i]
		return string(b)
	}
	return s[:i] + s[i:min(len(s), i+1+m.IntN(6))] + s[i:]
}

func (m *maker) list() string {
	m.depth++
	defer func() { m.depth-- }()
	n := 1 + m.IntN(3)
	if m.depth > 4 {
		n = 1
	}
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(pick(m, "; ", ";", "\n", " && ", "&&", " || ", " | ", "|", " & ", "&", " |& ", " # x\n", "\\\n;"))
		}
		b.WriteString(m.command())
	}
	return b.String()
}

func (m *maker) command() string {
	if m.depth > 4 || m.IntN(3) > 0 {
		return m.call()
	}
	switch m.IntN(20) {
	case 0:
		return "( " + m.list() + ")"
	case 1:
		return "{ " + m.list() + "\n}"
	case 2:
		return "if " + m.list() + "\nthen " + m.list() + pick(m, "", "\nelse "+m.list(), "\nelif "+m.list()+"\nthen "+m.list()) + "\nfi"
	case 3:
		return "for i in " + m.word() + " " + m.word() + "; do " + m.list() + "\ndone"
	case 4:
		return pick(m, "while ", "until ") + pick(m, "false", "! true", m.call()+"; false") + "; do " + m.list() + "\nbreak; done"
	case 5:
		return "case " + m.word() + " in " + pick(m, "", "(") + pick(m, "a", "*", m.word(), "a|b", "[a-z]") + ") " + m.list() + pick(m, "\n;;", "\n;&", "\n;;&") + " *) " + m.list() + "\nesac"
	case 6:
		name := pick(m, "fn", "g2", "ls", "h-1")
		return pick(m, name+"() ", "function "+name+" ", name+" ( )\n") + "{ " + m.list() + "\n}; " + pick(m, name, "fn a")
	case 7:
		return "! " + m.call()
	case 8:
		return "time " + pick(m, "", "-p ") + m.call()
	case 9:
		return "coproc " + pick(m, m.call(), "{ "+m.list()+"\n}", "N { "+m.list()+"\n}", "N "+m.call())
	case 10:
		return "[[ " + m.word() + pick(m, " == ", " = ", " != ", " -nt ", " =~ ", " < ") + m.word() + " ]]" + pick(m, "", " && "+m.call())
	case 11:
		return "(( " + m.arith() + " ))"
	case 12:
		return m.call() + " <<" + m.heredoc()
	case 13:
		return "for ((i=0; i<2; i++)); do " + m.list() + "\ndone"
	case 14:
		return "{ " + m.list() + "; } " + m.redirect()
	case 15:
		return "(" + m.list() + ") " + m.redirect()
	case 16:
		return pick(m, "export ", "declare ", "local ", "readonly ", "typeset -a ") + pick(m, "V="+m.word(), "V", "V=("+m.word()+")", "-p")
	case 17:
		return "trap " + m.quoted(m.list()) + " " + pick(m, "EXIT", "0", "DEBUG", "ERR")
	case 18:
		return pick(m, "select", "for") + " i do " + m.list() + "\ndone"
	}
	return pick(m, "V", "x", "y") + "=" + m.word() + "; " + pick(m, "$V", "$x", "\"$y\"", "${x}", "ls $x", "x$x") + " " + m.word()
}

func (m *maker) heredoc() string {
	end := pick(m, "EOF", "E", "_")
	body := pick(m, "text "+m.word(), "$("+m.list()+")", "`"+m.call()+"`", m.call(), "a\\", "'", "\"", "${x:-"+m.word()+"}", "\\$(ls)", "\\\\$(ls)")
	return pick(m, end, "'"+end+"'", `"`+end+`"`, "-"+end, "\\"+end) + pick(m, "", "; "+m.call(), " | "+m.call()) + "\n" + body + "\n" + pick(m, end, "\t"+end, end+" ", end) + "\n" + pick(m, m.call(), end, "")
}

func (m *maker) arith() string {
	return pick(m, "1", "i", "i+1", "i=3", "x", "i++", "1<2", "(1)+2", "a[0]", "a[$("+m.call()+")]", "$(echo 1)", "1,2", "1?2:3", "$i", "2**3", "0x1f", "`echo 1`", "i<<1")
}

func (m *maker) redirect() string {
	return pick(m, "", "2>") + pick(m, ">", ">>", "<", "&>", ">|", "<>", "<<<", ">&", ">&2 >") + pick(m, "", " ") + m.word()
}

// call makes a simple command.
func (m *maker) call() string {
	var b strings.Builder
	if m.IntN(8) == 0 {
		b.WriteString(pick(m, "A=1 ", "A="+m.word()+" ", "a[0]=1 ", "A+=x ", "A=(1 2) ", "X=~ "))
	}
	if m.IntN(10) == 0 {
		b.WriteString(m.redirect() + " ")
	}
	if m.IntN(4) == 0 {
		b.WriteString(m.wrapper())
		return b.String()
	}
	b.WriteString(m.program())
	for range m.IntN(3) {
		b.WriteString(pick(m, " ", " ", "  ", "\t", " \\\n") + m.word())
	}
	if m.IntN(8) == 0 {
		b.WriteString(" " + m.redirect())
	}
	return b.String()
}

func (m *maker) wrapper() string {
	inner := m.program() + " " + m.word()
	if m.IntN(3) == 0 && m.depth < 6 {
		m.depth++
		inner = m.wrapper()
		m.depth--
	}
	switch m.IntN(24) {
	case 0:
		return "env " + pick(m, "", "-i ", "A=1 ", "-u X ", "-- ", "- ", "-C /tmp ", "-uX ", "--unset=X ", "-S 'ls -la' ", "-S "+m.word()+" ", "-v ") + inner
	case 1:
		return "timeout " + pick(m, "5 ", "-k 1 5 ", "-s KILL 5 ", "--signal=KILL 5 ", "-k1 5 ", "-- 5 ", "--foreground 1 ", "-v 1 ") + inner
	case 2:
		return "nice " + pick(m, "", "-n 5 ", "-5 ", "-n5 ", "--adjustment=5 ", "-- ") + inner
	case 3:
		return "nohup " + pick(m, "", "-- ") + inner
	case 4:
		return "stdbuf " + pick(m, "-oL ", "-o L ", "-i0 -oL ", "--output=L ") + inner
	case 5:
		return pick(m, "command ", "command -p ", "command -v ", "command -- ", "\\command ", "command command ") + inner
	case 6:
		return pick(m, "exec ", "exec -a z ", "exec -c ", "exec -- ", "exec -cl ", "exec -la z ") + inner
	case 7:
		return "xargs " + pick(m, "", "-0 ", "-n 1 ", "-r ", "-t ", "-n1 ", "-I{} ", "-P2 ", "-I % ", "-L 1 ") + inner + pick(m, "", " <<< ab", " < /dev/null", " {}", " %")
	case 8:
		return "find . " + pick(m, "-exec ", "-name x -o -exec ", "-execdir ") + inner + pick(m, " {} \\;", " {} +", " \\;", " ';'", " {} ';' -exec "+inner+" \\;")
	case 9, 10, 11:
		return pick(m, "bash ", "sh ", "/bin/bash ", "bash --norc ", "bash -e ", "bash +e ", "bash -o pipefail ") + pick(m, "-c ", "-ec ", "-c -- ", "-xc ", "-lc ") + m.quoted(m.list()) + pick(m, "", " a b", " ls")
	case 12, 13:
		return pick(m, "eval ", "eval -- ", "builtin eval ", "command eval ") + pick(m, m.quoted(m.list()), inner, m.quoted(m.program())+" "+m.word())
	case 14:
		return "bash <<< " + m.quoted(m.list())
	case 15:
		return "bash " + pick(m, "", "-s ", "/dev/stdin ") + "<<" + pick(m, "", "-") + pick(m, "'X'", "X") + "\n" + m.list() + "\nX\n"
	case 16:
		return "setsid -w " + inner
	case 17:
		return "builtin " + pick(m, "echo x", "cd /tmp", "test -v x", "command "+inner, "printf -v x %s ls")
	case 18:
		return pick(m, "test ", "[ ") + pick(m, "-v x", "-v 'a[$(ls)]'", "-n \"$x\"", "x = x -a -v 'a[$(ls)]'", "\"$x\" = y", "-f "+m.word()) + pick(m, "", " ]")
	case 19:
		return pick(m, "read x", "printf -v 'a[$(ls)]' x", "unset 'a[$(ls)]'", "read 'a[$(ls)]' <<< x", "declare 'a[$(ls)]=1'", "let 'a[$(ls)]=1'", "mapfile -C ls -c 1 <<< x", "printf %s x", "let i=1+2", "declare -i x='a[$(ls)]'")
	case 20:
		return "ionice " + pick(m, "-c 3 ", "-c3 ", "") + inner
	case 21:
		return "taskset " + pick(m, "1 ", "-c 0 ", "0x1 ") + inner
	case 22:
		return "flock " + pick(m, "/tmp/l ", "-n /tmp/l ", "/tmp/l -c "+m.quoted(m.list())+" #") + inner
	}
	return pick(m, "set -- ", "shift; ", "set -x; ", "set -f; ", "alias q=ls; ", "shopt -s nullglob; ", "cd /tmp && ", "hash -r; ", "pushd /tmp; ") + inner
}

// program makes a word in the place of a program.
func (m *maker) program() string {
	name := pick(m, "rm", "ls", "touch", "git", "cat", "a", "echo", "true", "/bin/rm", "/usr/bin/ls", "npm", "grep", "rm", "curl")
	switch m.IntN(16) {
	case 0:
		return m.dress(name)
	case 1:
		return m.dress(name)
	case 2:
		return pick(m, "{rm,-rf}", "{ls,}", "{,ls}", "{r,l}m", "r{m,n}", "{l..n}", "ls{,}", "{ls,-la,{a,b}}", "{1..3}", "{a}", "{rm,'-rf'}")
	case 3:
		return pick(m, "$x", "${x:-rm}", "$(echo rm)", "`echo rm`", "l$x", "${!x}", "r?", "*", "~/x", "~", "[r]m", "\"\"", "''rm", "rm''", "$''ls", "\"rm\"", "$1", "$@", "\"$@\"", "$0")
	case 4:
		return pick(m, "if", "'if'", "\\if", "then", "}", "{", "in", "do", "[", "!", "a=b", "'a=b'", "\\a=b", "a\\=b", "a'='b", "2", "2x", "#", "a#", "\\#", "-", "--", "a[0]", "[[", "'[['", "function", "time", "'time'")
	}
	return name
}

// dress writes s with quotes and escapes that change nothing.
func (m *maker) dress(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		n := min(1+m.IntN(3), len(s)-i)
		p := s[i : i+n]
		i += n
		switch m.IntN(8) {
		case 0:
			b.WriteString("'" + p + "'")
		case 1:
			b.WriteString(`"` + p + `"`)
		case 2:
			b.WriteString(`\` + p)
		case 3:
			for _, c := range []byte(p) {
				b.WriteString("$'" + fmt.Sprintf(pick(m, `\x%02x`, `\%03o`, `\u%04x`, `\U%08x`), c) + "'")
			}
		case 4:
			b.WriteString(p + "\\\n")
		case 5:
			b.WriteString(p + pick(m, "''", `""`, "$''", `$""`))
		default:
			b.WriteString(p)
		}
	}
	return b.String()
}

func (m *maker) quoted(s string) string {
	switch m.IntN(4) {
	case 0:
		r := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")
		return `"` + r.Replace(s) + `"`
	case 1:
		r := strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`)
		return "$'" + r.Replace(s) + "'"
	case 2:
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// word makes an argument.
func (m *maker) word() string {
	if m.depth > 5 {
		return pick(m, "a", "-la", "x1")
	}
	switch m.IntN(26) {
	case 0:
		return "$(" + m.list() + ")"
	case 1:
		return "`" + strings.ReplaceAll(strings.ReplaceAll(m.call(), `\`, `\\`), "`", "\\`") + "`"
	case 2:
		return `"$(` + m.list() + `)"`
	case 3:
		return pick(m, "<(", ">(") + m.list() + ")"
	case 4:
		return "${x" + pick(m, ":-", "-", ":=", "+", ":+", "#", "%", "##", "/a/", ":0:", "^", "@Q", "@P", "[", ":?") + m.word() + "}"
	case 5:
		return `"${x:-` + m.word() + `}"`
	case 6:
		return "$((" + m.arith() + "))"
	case 7:
		return pick(m, "{a,b}", "{a..c}", "*", "?", "[a-z]", "~", "~/x", "a=~", "a:~", "@(a|b)", "!(a)", "{a,b", "a,b}", "{a,$(ls)}", "{a,\"b c\"}", "$'a\\'b'", "#a", "a#b", "\\", "\\\\", "\"\\$x\"", "\"\\`ls\\`\"")
	case 8:
		return m.quoted(m.list())
	case 9:
		return m.dress(pick(m, "abc", "-rf", "/tmp/x", "EOF", "a b"))
	case 10:
		return pick(m, "$x", `"$x"`, "${x}", "$1", `"$@"`, "$*", "$#", "$?", "$$", "$!", "$-", "$HOME", `"$HOME/x"`, "${#x}", "${x[0]}", "${x[@]}", "${x[$(ls)]}", "${!x}", "${!x*}", "$[1+1]", "$[ $(ls) ]")
	case 11:
		return "'" + m.word2() + "'" + m.word2()
	}
	return m.word2()
}

func (m *maker) word2() string {
	return pick(m, "a", "-la", "x1", "file", "--", "-c", ".", "/tmp", "b", "-n", "--flag=x", "k=v")
}
