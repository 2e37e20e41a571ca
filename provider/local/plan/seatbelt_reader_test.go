package plan

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An expr is one expression of a profile as the test's reader parses it: a
// list, a string or an atom.
type expr struct {
	list   []expr
	text   string
	atom   string
	string bool
}

// readProfile parses a profile by the syntax of the profile language: lists,
// strings with escapes, comments to the end of the line, atoms. It fails the
// test for anything else.
func readProfile(t *testing.T, s string) []expr {
	t.Helper()
	r := reader{t, s}
	var out []expr
	for r.blank(); r.s != ""; r.blank() {
		e := r.expr()
		if len(e.list) == 0 {
			t.Fatalf("at the top of the profile there is %+v", e)
		}
		out = append(out, e)
	}
	return out
}

type reader struct {
	t *testing.T
	s string
}

func (r *reader) blank() {
	for {
		r.s = strings.TrimLeft(r.s, " \t\n\r")
		if !strings.HasPrefix(r.s, ";") {
			return
		}
		_, r.s, _ = strings.Cut(r.s, "\n")
	}
}

func (r *reader) expr() expr {
	r.t.Helper()
	switch {
	case strings.HasPrefix(r.s, "("):
		e := expr{list: []expr{}}
		r.s = r.s[1:]
		for r.blank(); !strings.HasPrefix(r.s, ")"); r.blank() {
			if r.s == "" {
				r.t.Fatal("a list does not end")
			}
			e.list = append(e.list, r.expr())
		}
		r.s = r.s[1:]
		return e
	case strings.HasPrefix(r.s, `"`):
		return expr{text: r.text(), string: true}
	}
	i := strings.IndexAny(r.s, " \t\r\n()\";")
	if i <= 0 || strings.ContainsAny(r.s[:i], "#'`,\\|") {
		r.t.Fatalf("an odd atom begins at %.40q", r.s)
	}
	e := expr{atom: r.s[:i]}
	r.s = r.s[i:]
	return e
}

func (r *reader) text() string {
	r.t.Helper()
	var b strings.Builder
	for i := 1; i < len(r.s); i++ {
		switch c := r.s[i]; {
		case c == '"':
			r.s = r.s[i+1:]
			return b.String()
		case c < ' ' || c == 0x7f:
			r.t.Fatalf("a control character in a string at %.40q", r.s)
		case c == '\\' && i+3 < len(r.s) && r.s[i+1] == 'x':
			n, err := strconv.ParseUint(r.s[i+2:i+4], 16, 8)
			if err != nil {
				r.t.Fatal(err)
			}
			b.WriteByte(byte(n))
			i += 3
		case c == '\\' && i+1 < len(r.s) && (r.s[i+1] == '"' || r.s[i+1] == '\\'):
			i++
			b.WriteByte(r.s[i])
		case c == '\\':
			r.t.Fatalf("an odd escape at %.40q", r.s[i:])
		default:
			b.WriteByte(c)
		}
	}
	r.t.Fatal("a string does not end")
	return ""
}

// shape writes expressions without their strings, in an order that does not
// depend on the content of strings.
func shape(list []expr) string {
	var out []string
	for _, e := range list {
		switch {
		case e.string:
			out = append(out, `""`)
		case e.atom != "":
			out = append(out, e.atom)
		default:
			out = append(out, "("+shape(e.list)+")")
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (e expr) texts(out []string) []string {
	if e.string {
		out = append(out, e.text)
	}
	for _, x := range e.list {
		out = x.texts(out)
	}
	return out
}
