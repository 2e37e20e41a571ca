package fake

import (
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/provider/fake/syntax"
)

// value returns a parameter and whether it is set.
func (r *interp) value(name string) (string, bool) {
	switch name {
	case "?":
		return strconv.Itoa(r.status), true
	case "#":
		return strconv.Itoa(len(r.params)), true
	case "$":
		return strconv.Itoa(r.self), true
	case "!":
		return strconv.Itoa(r.last), r.last > 0
	case "-":
		return r.options, true
	case "@", "*":
		return strings.Join(r.params, " "), len(r.params) > 0
	case "0":
		return r.name, true
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n > len(r.params) {
			return "", false
		}
		return r.params[n-1], true
	}
	v, ok := r.vars[name]
	return v.value, ok
}

func (r *interp) param(part syntax.Part) ([]piece, error) {
	value, set := r.value(part.Text)
	plain := []piece{{text: value, quoted: part.Quoted, split: !part.Quoted}}
	op := strings.TrimPrefix(part.Op, ":")
	missing := !set || op != part.Op && value == ""
	switch op {
	case "":
		if part.Text == "@" && part.Quoted {
			var all []piece
			for i, p := range r.params {
				all = append(all, piece{text: p, quoted: true, next: i > 0})
			}
			return all, nil
		}
		if !set && r.option("u") && part.Text != "@" && part.Text != "*" {
			r.complain("%s: unbound variable", part.Text)
			return nil, errExpansion
		}
		return plain, nil
	case "len":
		return []piece{{text: strconv.Itoa(len(value)), quoted: part.Quoted}}, nil
	case "+":
		if missing {
			return nil, nil
		}
		return r.pieces(part.Arg)
	case "-", "=", "?":
		if !missing {
			return plain, nil
		}
		return r.absent(op, part)
	}
	pattern, err := r.pattern(part.Arg)
	if err != nil {
		return nil, err
	}
	plain[0].text = cut(op, pattern, value)
	return plain, nil
}

// absent is what the operators make of a parameter that is not set.
func (r *interp) absent(op string, part syntax.Part) ([]piece, error) {
	pieces, err := r.pieces(part.Arg)
	if err != nil || op == "-" {
		return pieces, err
	}
	text, err := r.single(part.Arg)
	if err != nil {
		return nil, err
	}
	if op == "?" {
		r.complain("%s: %s", part.Text, text)
		return nil, errExpansion
	}
	if !r.set(part.Text, text) {
		return nil, errExpansion
	}
	return []piece{{text: text, quoted: part.Quoted, split: !part.Quoted}}, nil
}

// cut removes the part at the front (#) or back (%) that the pattern matches:
// the shortest, or the longest for the doubled operators.
func cut(op, pattern, value string) string {
	if plain := unescape(pattern); !hasSpecial(pattern) {
		if op[0] == '#' {
			return strings.TrimPrefix(value, plain)
		}
		return strings.TrimSuffix(value, plain)
	}
	n := len(value)
	for i := range n + 1 {
		k := i
		if len(op) == 2 {
			k = n - i
		}
		if op[0] == '#' && matchPattern(pattern, value[:k]) {
			return value[k:]
		}
		if op[0] == '%' && matchPattern(pattern, value[n-k:]) {
			return value[:n-k]
		}
	}
	return value
}
