package command

import "strings"

// readSed reads a script of sed as GNU sed does, as far as is needed to tell
// where a command begins, and what runs, is read or is written.
func readSed(script string) sedReader {
	r := sedReader{rest: script}
	for {
		r.skip(" \t\n;{}")
		if r.rest == "" {
			return r
		}
		r.addresses()
		if r.failed = r.failed || r.rest == ""; r.failed {
			return r
		}
		r.acts = r.command() || r.acts
		if r.failed || r.runs {
			return r
		}
	}
}

// A sedReader is a script that is being read.
type sedReader struct {
	rest   string
	failed bool
	acts   bool     // it runs a command or writes a file
	runs   bool     // it runs a command
	reads  []string // the files that it reads (r, R)
	writes []string // the files that it writes (w, W, s///w)
}

// file takes in the name of a file, which goes on to the end of the line.
func (r *sedReader) file() string {
	name, rest, _ := strings.Cut(r.rest, "\n")
	r.rest = rest
	return strings.TrimLeft(name, " \t")
}

func (r *sedReader) skip(set string) { r.rest = strings.TrimLeft(r.rest, set) }

func (r *sedReader) next() byte {
	if r.rest == "" {
		r.failed = true
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

// addresses skips what stands before a command: numbers, $, /re/, \cREc, and
// what joins two of them.
func (r *sedReader) addresses() {
	for r.rest != "" && !r.failed {
		switch c := r.rest[0]; {
		case c >= '0' && c <= '9', strings.IndexByte("$,~+! \t", c) >= 0:
			r.next()
		case c == '/':
			r.next()
			r.until('/', true)
			r.skip("IM")
		case c == '\\':
			r.next()
			r.until(r.next(), true)
			r.skip("IM")
		default:
			return
		}
	}
}

// until skips to behind the delimiter; in a regular expression one between
// brackets does not count.
func (r *sedReader) until(delimiter byte, expression bool) {
	if delimiter == '\n' || delimiter == '\\' {
		r.failed = true
		return
	}
	for !r.failed {
		switch c := r.next(); {
		case c == '\\':
			r.next()
		case c == delimiter:
			return
		case c == '[' && expression:
			r.brackets(delimiter)
		}
	}
}

// brackets skips a set of characters. One that has no end within the line is
// no set to some seds, so that the script is not understood.
func (r *sedReader) brackets(delimiter byte) {
	end := strings.IndexByte(r.rest, ']')
	if strings.HasPrefix(r.rest, "]") || strings.HasPrefix(r.rest, "^]") {
		i := strings.IndexByte(r.rest, ']') + 1
		end = strings.IndexByte(r.rest[i:], ']')
		if end >= 0 {
			end += i
		}
	}
	if strings.HasPrefix(r.rest, "[:") || strings.HasPrefix(r.rest, "^[:") {
		if i := strings.Index(r.rest, ":]"); i >= 0 {
			if j := strings.IndexByte(r.rest[i+2:], ']'); j >= 0 {
				end = i + 2 + j
			}
		}
	}
	if end < 0 || strings.IndexByte(r.rest[:end], '\n') >= 0 || strings.IndexByte(r.rest[:end], delimiter) >= 0 && delimiter != '/' {
		r.failed = true
		return
	}
	r.rest = r.rest[end+1:]
}

// command reads one command and reports whether it acts.
func (r *sedReader) command() bool {
	switch c := r.next(); c {
	case 'e':
		r.runs = true
		return true
	case 'w', 'W':
		r.writes = append(r.writes, r.file())
		return true
	case 'r', 'R':
		r.reads = append(r.reads, r.file())
	case 's':
		return r.substitution()
	case 'y':
		d := r.next()
		r.until(d, false)
		r.until(d, false)
	case 'a', 'i', 'c', 'b', 't', 'T', ':', '#':
		r.line(c)
	case '{', '}':
	case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F', 'l', 'L', 'q', 'Q':
		r.skip("0123456789 \t")
	default:
		r.failed = true
	}
	return false
}

// line skips what belongs to a command up to the end of the line. Text for a,
// i and c goes on behind a backslash; a label ends at a semicolon for some.
func (r *sedReader) line(c byte) {
	for r.rest != "" {
		switch b := r.next(); {
		case b == '\n':
			return
		case b == '\\' && strings.IndexByte("aic", c) >= 0 && r.rest != "":
			r.next()
		case (b == ';' || b == '}') && strings.IndexByte("btT", c) >= 0:
			return
		}
	}
}

// substitution reads what follows an s and reports whether it acts.
func (r *sedReader) substitution() bool {
	d := r.next()
	r.until(d, true)
	r.until(d, false)
	if r.failed {
		return true
	}
	for r.rest != "" {
		switch c := r.rest[0]; {
		case c == 'e':
			r.runs = true
			return true
		case c == 'w':
			r.next()
			r.writes = append(r.writes, r.file())
			return true
		case strings.IndexByte("gpiImM0123456789", c) >= 0:
			r.next()
		default:
			return false
		}
	}
	return false
}
