package egress

import "strings"

// A framing holds the fields of a head that determine the request's host and
// its end.
type framing struct {
	host     *string // nil when there is no Host field
	length   string  // of Content-Length; empty when there is none
	transfer bool    // Transfer-Encoding is chunked
}

// fields parses the lines after the request line.
func fields(lines []string) (framing, error) {
	if len(lines) > maxFields {
		return framing{}, &requestError{431, "the request has more than 200 fields"}
	}
	var f framing
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		switch {
		case line != "" && (line[0] == ' ' || line[0] == '\t'):
			return f, requestMalformed("a field is folded over two lines")
		case !ok:
			return f, requestMalformed("a line of the head is no field")
		case !token(name):
			return f, requestMalformed("a field has a name that is none")
		}
		value = strings.Trim(value, " \t")
		if !plainValue(value) {
			return f, requestMalformed("a field has a control character in it")
		}
		if err := f.add(strings.ToLower(name), value); err != nil {
			return f, err
		}
	}
	return f, nil
}

// add adds one field, its name in lower case.
func (f *framing) add(name, value string) error {
	switch name {
	case "host":
		if f.host != nil {
			return requestMalformed("there is more than one Host")
		}
		f.host = &value
	case "content-length":
		if f.length != "" || value == "" {
			return requestMalformed("there is more than one Content-Length, or an empty one")
		}
		f.length = value
	case "transfer-encoding":
		if f.transfer || !strings.EqualFold(value, "chunked") {
			return &requestError{501, "only chunked is taken as Transfer-Encoding, and only once"}
		}
		f.transfer = true
	}
	return nil
}

// token reports whether s is a token of HTTP: a method or a field's name.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !alphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// plainValue reports whether s has no control characters but tabs.
func plainValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
