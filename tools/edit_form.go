package tools

import "bytes"

// A Form is how a text is written, beside its lines.
type nearForm struct {
	BOM  bool // a byte order mark stands before it
	CRLF bool // its lines end with a carriage return and a newline, all of them
}

// bom is the byte order mark in UTF-8.
const bom = "\ufeff"

// formOf returns the form of a text, as far as none of the others, which are
// about to be held against it, is written so itself: who writes a carriage
// return or a mark means it.
func formOf(text []byte, others ...[]byte) nearForm {
	newlines := bytes.Count(text, []byte("\n"))
	f := nearForm{
		BOM:  bytes.HasPrefix(text, []byte(bom)),
		CRLF: newlines > 0 && newlines == bytes.Count(text, []byte("\r\n")),
	}
	for _, o := range others {
		f.CRLF = f.CRLF && bytes.IndexByte(o, '\r') < 0
		f.BOM = f.BOM && !bytes.HasPrefix(o, []byte(bom))
	}
	return f
}

// Strip returns a text of that form without mark and carriage returns.
func (f nearForm) Strip(text []byte) []byte {
	if f.BOM {
		text = bytes.TrimPrefix(text, []byte(bom))
	}
	if f.CRLF {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	return text
}

// Dress puts back what [Form.Strip] has taken off.
func (f nearForm) Dress(text []byte) []byte {
	if f.CRLF {
		text = bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	}
	if f.BOM {
		text = append([]byte(bom), text...)
	}
	return text
}
