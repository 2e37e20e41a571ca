package fake

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/provider/fake/syntax"
)

// A piece is expanded text. What is quoted is neither split nor a pattern.
type piece struct {
	text   string
	quoted bool
	split  bool // came from an expansion, so it is split into fields
	next   bool // a new field begins here, as between the words of "$@"
}

// errExpansion is an expansion that has been complained about.
var errExpansion = errors.New("expansion failed")

// expansionFailed is what becomes of a command whose words make no sense: the
// shell ends, as the standard has it.
func (r *interp) expansionFailed(err error) flow {
	if !errors.Is(err, errExpansion) {
		r.complain("%v", err)
	}
	r.status = 1
	return flowExit
}

// single expands to one string, without splitting or matching files.
func (r *interp) single(w syntax.Word) (string, error) {
	pieces, err := r.pieces(w)
	var b strings.Builder
	for _, p := range pieces {
		if p.next && b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.text)
	}
	return b.String(), err
}

// pattern expands to a pattern for matchPattern.
func (r *interp) pattern(w syntax.Word) (string, error) {
	pieces, err := r.pieces(w)
	return asPattern(pieces), err
}

func asPattern(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		if !p.quoted {
			b.WriteString(p.text)
			continue
		}
		for i := range len(p.text) {
			b.WriteByte('\\')
			b.WriteByte(p.text[i])
		}
	}
	return b.String()
}

// fields expands words to arguments.
func (r *interp) fields(words []syntax.Word) ([]string, error) {
	var out []string
	for _, w := range words {
		pieces, err := r.pieces(w)
		if err != nil {
			return nil, err
		}
		for _, field := range r.splitFields(pieces) {
			out = append(out, r.glob(field)...)
		}
	}
	return out, nil
}

// splitFields cuts at IFS where text came from expansions.
func (r *interp) splitFields(pieces []piece) [][]piece {
	ifs := " \t\n"
	if v, ok := r.vars["IFS"]; ok {
		ifs = v.value
	}
	var out [][]piece
	var field []piece
	cut := func() {
		if len(field) > 0 {
			out = append(out, field)
		}
		field = nil
	}
	for _, p := range pieces {
		if p.next {
			cut()
		}
		if !p.split {
			if p.quoted || p.text != "" {
				field = append(field, p)
			}
			continue
		}
		start := 0
		for i := range len(p.text) {
			if strings.IndexByte(ifs, p.text[i]) < 0 {
				continue
			}
			if i > start {
				field = append(field, piece{text: p.text[start:i]})
			}
			cut()
			start = i + 1
		}
		if start < len(p.text) {
			field = append(field, piece{text: p.text[start:]})
		}
	}
	cut()
	return out
}

// glob replaces a field that is a pattern by the files that match.
func (r *interp) glob(field []piece) []string {
	literal, special := "", false
	for _, p := range field {
		literal += p.text
		special = special || !p.quoted && strings.ContainsAny(p.text, "*?[")
	}
	if !special || r.option("f") {
		return []string{literal}
	}
	bases := []string{""}
	for i, element := range strings.Split(asPattern(field), "/") {
		var next []string
		for _, base := range bases {
			if i > 0 {
				base += "/"
			}
			if !strings.ContainsAny(element, "*?[") {
				next = append(next, base+unescape(element))
				continue
			}
			dir := base
			if dir == "" {
				dir = "."
			}
			entries, _ := r.view().ReadDir(r.path(dir)) // what cannot be read matches nothing
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(unescape(element), ".") {
					continue
				}
				if matchPattern(element, e.Name()) {
					next = append(next, base+e.Name())
				}
			}
		}
		bases = next
	}
	bases = slices.DeleteFunc(bases, func(b string) bool { _, err := r.view().Lstat(r.path(b)); return err != nil })
	if len(bases) == 0 {
		return []string{literal}
	}
	return bases
}

func unescape(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' && i+1 < len(pattern) {
			i++
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// hasSpecial reports whether a pattern matches more than one text.
func hasSpecial(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

// matchPattern reports whether a shell pattern matches all of s. A slash is an
// ordinary character.
func matchPattern(pattern, s string) bool {
	// path.Match does not let * match a slash, so slashes become another byte.
	const slash = "\x01"
	pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, "/", slash), "[!", "[^")
	ok, err := path.Match(pattern, strings.ReplaceAll(s, "/", slash))
	if err != nil {
		return unescape(pattern) == strings.ReplaceAll(s, "/", slash)
	}
	return ok
}

func (r *interp) pieces(w syntax.Word) ([]piece, error) {
	var out []piece
	for _, part := range w {
		switch part.Kind {
		case syntax.Literal:
			out = append(out, piece{text: part.Text, quoted: part.Quoted})
		case syntax.Output:
			text, err := r.output(part.Body)
			if err != nil {
				return nil, err
			}
			out = append(out, piece{text: text, quoted: part.Quoted, split: !part.Quoted})
		case syntax.Arithmetic:
			text, err := r.single(part.Arg)
			if err != nil {
				return nil, err
			}
			n, err := r.compute(text)
			if err != nil {
				return nil, err
			}
			out = append(out, piece{text: strconv.FormatInt(n, 10), quoted: part.Quoted})
		case syntax.Param:
			more, err := r.param(part)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

// output runs a list and returns what it writes, without newlines at the end.
func (r *interp) output(body *syntax.List) (string, error) {
	to := newPipe()
	defer to.readers.release()
	s := r.io
	s.out = &pipeWriter{r.p, to}
	child := r.child(s, func(c *interp) flow { c.guarded = 0; return c.list(body) })
	to.writers.release()
	b, err := io.ReadAll(&pipeReader{r.p, to})
	if err != nil {
		return "", err
	}
	r.status = r.p.Join(child)
	return strings.TrimRight(string(b), "\n"), nil
}

// compute evaluates an arithmetic expression.
func (r *interp) compute(text string) (int64, error) {
	c := &calculator{src: text, value: func(name string) int64 {
		v, _ := r.value(name)
		n, _ := strconv.ParseInt(strings.TrimSpace(v), 0, 64) // what is no number counts as 0
		return n
	}}
	n, err := c.whole()
	if err != nil {
		return 0, fmt.Errorf("arithmetic %q: %w", text, err)
	}
	return n, nil
}
