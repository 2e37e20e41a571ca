package tools

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// A Span says which lines of a file are wanted.
type showSpan struct {
	Offset int // the first one, from 1; 0 is 1
	Limit  int // the most; 0 is all
	Width  int // bytes that are shown of one; 0 is DefaultWidth
	Bytes  int // of the text; 0 is DefaultBytes
}

// A Listing is lines of a file.
type showListing struct {
	showPage
	First, Last int      // numbers of the lines in Text; 0 if there are none
	Size        int64    // bytes of the file
	Binary      string   // what the file is if it is no text, else empty; Text is empty then
	Notes       []string // what the text does not show of the file
}

// Lines reads a file to its end, in memory that does not depend on its size,
// and returns the lines that are wanted with their numbers. The only errors
// are those of r.
func linesShow(r io.Reader, s showSpan) (showListing, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(showSniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return showListing{}, err
	}
	l := showListing{Binary: kindShow(head)}
	if l.Binary != "" {
		l.Size, err = io.Copy(io.Discard, in)
		l.Hint = fmt.Sprintf("this is %s of %d bytes, not text", l.Binary, l.Size)
		return l, err
	}
	p := &printer{span: s, out: text{limit: orElse(s.Bytes, defaultBytes)}, listing: &l}
	p.span.Offset, p.span.Width = orElse(s.Offset, 1), orElse(s.Width, defaultWidth)
	if err := p.read(in); err != nil {
		return showListing{}, err
	}
	l.Text = p.out.String()
	p.finish()
	return l, nil
}

// A printer takes the lines of a file one after another.
type printer struct {
	span    showSpan
	out     text
	listing *showListing

	line    []byte // the one that is read, its beginning
	length  int    // of all of it, without its newline
	last    byte   // of it
	returns int    // lines that end with a carriage return
	spoiled int    // lines that are shown and no UTF-8
	cut     int    // lines that are shown and longer
	full    bool   // no further line is shown
	mark    bool   // a byte order mark stands before the first line
	unended bool   // the last line has no newline
}

// read goes through the file.
func (p *printer) read(in *bufio.Reader) error {
	for {
		piece, err := in.ReadSlice('\n')
		p.listing.Size += int64(len(piece))
		body, ended := bytes.CutSuffix(piece, []byte("\n"))
		if room := p.span.Width + utf8.UTFMax - len(p.line); room > 0 {
			p.line = append(p.line, body[:min(room, len(body))]...)
		}
		if p.length += len(body); len(body) > 0 {
			p.last = body[len(body)-1]
		}
		switch {
		case ended:
			p.take()
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			if p.length > 0 {
				p.unended = true
				p.take()
			}
			return nil
		default:
			return err
		}
	}
}

// take counts the line that was read, and shows it if it is wanted.
func (p *printer) take() {
	l := p.listing
	l.Total++
	if p.length > 0 && p.last == '\r' {
		p.returns++
		p.length--
		p.line = p.line[:min(len(p.line), p.length)]
	}
	if rest, ok := bytes.CutPrefix(p.line, []byte("\ufeff")); ok && l.Total == 1 {
		p.mark = true
		p.length -= len(p.line) - len(rest)
		p.line = rest
	}
	n := l.Total
	if n >= p.span.Offset && !p.full && (p.span.Limit <= 0 || l.Shown < p.span.Limit) {
		p.print(n)
	}
	p.line, p.length, p.last = p.line[:0], 0, 0
}

// print shows the line.
func (p *printer) print(n int) {
	l := p.listing
	shown := p.line
	var more string
	if p.length > p.span.Width {
		shown = whole(shown[:min(len(shown), p.span.Width)])
		more = fmt.Sprintf("… [%d more bytes]", p.length-len(shown))
	}
	if !p.out.line(fmt.Sprintf("%6d\t%s%s", n, bytes.ToValidUTF8(shown, []byte("\ufffd")), more)) {
		p.full = true
		return
	}
	if more != "" {
		p.cut++
	}
	if !utf8.Valid(shown) {
		p.spoiled++
	}
	if l.Shown++; l.First == 0 {
		l.First = n
	}
	l.Last = n
}

// finish says what the text does not.
func (p *printer) finish() {
	l := p.listing
	l.More = l.Last < l.Total && l.Shown > 0
	switch {
	case l.Total == 0:
		l.Hint = "the file is empty"
	case l.Shown == 0:
		l.Hint = fmt.Sprintf("the file has %d lines, and none from offset %d on", l.Total, p.span.Offset)
	case l.More:
		l.Hint = fmt.Sprintf("lines %d to %d of %d; go on with offset %d", l.First, l.Last, l.Total, l.Last+1)
	case l.First > 1:
		l.Hint = fmt.Sprintf("lines %d to %d of %d", l.First, l.Last, l.Total)
	}
	for _, n := range []struct {
		so   bool
		text string
	}{
		{p.cut > 0, fmt.Sprintf("%d lines are longer than %d bytes and are cut", p.cut, p.span.Width)},
		{p.spoiled > 0, fmt.Sprintf("%d lines hold bytes that are no UTF-8, shown as \ufffd", p.spoiled)},
		{p.mark, "the file begins with a byte order mark"},
		{p.returns > 0 && p.returns == l.Total, "the lines end with carriage return and newline"},
		{p.returns > 0 && p.returns < l.Total, fmt.Sprintf("%d of the lines end with a carriage return before the newline", p.returns)},
		{p.unended, "the file has no newline at its end"},
	} {
		if n.so {
			l.Notes = append(l.Notes, n.text)
		}
	}
}

// whole takes off a character that was cut in two.
func whole(line []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(line); i++ {
		if tail := line[len(line)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return line[:len(line)-i]
			}
			break
		}
	}
	return line
}
