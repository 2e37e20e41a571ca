package fake

import (
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// escapes replaces backslash escapes as printf has them.
func escapes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		at := strings.IndexByte(`abfnrtv\"'`, s[i])
		switch {
		case at >= 0:
			b.WriteByte("\a\b\f\n\r\t\v\\\"'"[at])
		case s[i] >= '0' && s[i] <= '7':
			n := 0
			for ; n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7'; n++ {
			}
			code, _ := strconv.ParseUint(s[i:i+n], 8, 16) // digits only
			b.WriteByte(byte(code))
			i += n - 1
		default:
			b.WriteString(s[i-1 : i+1])
		}
	}
	return b.String()
}

// printf knows %s, %b, %d, %c and %%, and goes through its format again while
// arguments are left.
func printf(p *Proc) int {
	if len(p.Args) < 2 {
		fmt.Fprintln(p.Stderr, "printf: a format is needed")
		return 2
	}
	format, args := p.Args[1], p.Args[2:]
	var b strings.Builder
	for {
		before := len(args)
		for rest := format; rest != ""; {
			at := strings.IndexByte(rest, '%')
			if at < 0 || at+1 == len(rest) {
				b.WriteString(escapes(rest))
				break
			}
			b.WriteString(escapes(rest[:at]))
			verb := rest[at+1]
			rest = rest[at+2:]
			if verb == '%' {
				b.WriteByte('%')
				continue
			}
			arg := ""
			if len(args) > 0 {
				arg, args = args[0], args[1:]
			}
			if !format1(&b, verb, arg) {
				fmt.Fprintf(p.Stderr, "printf: %%%c of %q: the fake cannot\n", verb, arg)
				return 1
			}
		}
		if len(args) == 0 || len(args) == before {
			io.WriteString(p.Stdout, b.String())
			return 0
		}
	}
}

func format1(b *strings.Builder, verb byte, arg string) bool {
	switch verb {
	case 's':
		b.WriteString(arg)
	case 'b':
		b.WriteString(escapes(arg))
	case 'c':
		b.WriteString(arg[:min(len(arg), 1)])
	case 'd':
		n, err := strconv.ParseInt("0"+arg, 10, 64)
		if strings.HasPrefix(arg, "-") {
			n, err = strconv.ParseInt(arg, 10, 64)
		}
		fmt.Fprint(b, n)
		return err == nil
	default:
		return false
	}
	return true
}

// test is test and [.
func test(p *Proc) int {
	args := p.Args[1:]
	if p.Args[0] == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			fmt.Fprintln(p.Stderr, "[: missing ]")
			return 2
		}
		args = args[:len(args)-1]
	}
	yes, err := (&tester{p, args}).either()
	if err != nil {
		fmt.Fprintln(p.Stderr, "test:", err)
		return 2
	}
	return truth(yes)
}

// A tester takes an expression of test apart.
type tester struct {
	p    *Proc
	args []string
}

func (t *tester) either() (bool, error) {
	yes, err := t.both()
	for err == nil && len(t.args) > 0 && t.args[0] == "-o" {
		t.args = t.args[1:]
		var more bool
		more, err = t.both()
		yes = yes || more
	}
	if err == nil && len(t.args) > 0 {
		err = fmt.Errorf("unexpected %q", t.args[0])
	}
	return yes, err
}

func (t *tester) both() (bool, error) {
	yes, err := t.one()
	for err == nil && len(t.args) > 0 && t.args[0] == "-a" {
		t.args = t.args[1:]
		var more bool
		more, err = t.one()
		yes = yes && more
	}
	return yes, err
}

func (t *tester) one() (bool, error) {
	a := t.args
	switch {
	case len(a) == 0:
		return false, nil
	case len(a) >= 3 && binary(a[1]):
		t.args = a[3:]
		return compare(a[0], a[1], a[2])
	case a[0] == "!" && len(a) > 1:
		t.args = a[1:]
		yes, err := t.one()
		return !yes, err
	case len(a) >= 2 && len(a[0]) == 2 && a[0][0] == '-' && strings.IndexByte("nzefdLhprwxs", a[0][1]) >= 0:
		t.args = a[2:]
		return t.unary(a[0][1], a[1]), nil
	}
	t.args = a[1:]
	return a[0] != "", nil
}

func binary(op string) bool {
	switch op {
	case "=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
		return true
	}
	return false
}

func compare(a, op, b string) (bool, error) {
	switch op {
	case "=", "==":
		return a == b, nil
	case "!=":
		return a != b, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(a))
	if err != nil {
		return false, err
	}
	m, err := strconv.Atoi(strings.TrimSpace(b))
	switch op {
	case "-eq":
		return n == m, err
	case "-ne":
		return n != m, err
	case "-lt":
		return n < m, err
	case "-le":
		return n <= m, err
	case "-gt":
		return n > m, err
	}
	return n >= m, err
}

func (t *tester) unary(op byte, arg string) bool {
	switch op {
	case 'n':
		return arg != ""
	case 'z':
		return arg == ""
	}
	view, full := t.p.Files(), t.p.Path(arg)
	info, err := view.Lstat(full)
	if op == 'L' || op == 'h' {
		return err == nil && info.Mode().Type() == fs.ModeSymlink
	}
	if info, err = view.Stat(full); err != nil || arg == "" {
		return false
	}
	switch op {
	case 'f':
		return info.Mode().IsRegular()
	case 'd':
		return info.IsDir()
	case 'p':
		return info.Mode().Type() == fs.ModeNamedPipe
	case 's':
		return info.Size() > 0
	case 'r':
		return info.Mode().Perm()&0o444 != 0
	case 'w':
		return info.Mode().Perm()&0o222 != 0
	case 'x':
		return info.Mode().Perm()&0o111 != 0
	}
	return true
}
