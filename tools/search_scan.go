package tools

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// sniffed is how many bytes of a file say whether it is text.
const searchSniffed = 8 << 10

// A scanner goes through the lines of one file. It keeps its memory from file
// to file.
type scanner struct {
	in     *bufio.Reader
	line   []byte
	before [][]byte // the last lines that were not shown, at most query.Context, oldest first
	after  int      // lines that are still to be shown after a match
	number int
	long   bool // a line was longer than what is matched
}

// search gives the lines of a file to each.
func (s *searcher) search(name string) error {
	room := min(searchMaxFile, searchMaxBytes-s.tally.Bytes)
	if room <= 0 {
		return s.stop("too much was read; search a part of the tree, or use a glob")
	}
	r, err := s.files.Read(s.ctx, name, 0, room+1)
	if err != nil {
		return err
	}
	defer r.Close()
	counted := &io.LimitedReader{R: r, N: room}
	if s.scan.in == nil {
		s.scan.in = bufio.NewReaderSize(counted, 64<<10)
	}
	s.scan.in.Reset(counted)
	defer func() { s.tally.Bytes += room - counted.N }()
	head, err := s.scan.in.Peek(searchSniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if kindShow(head) != "" {
		s.tally.Binary++
		return nil
	}
	s.tally.Files++
	s.scan.before, s.scan.after, s.scan.number, s.scan.long = s.scan.before[:0], 0, 0, false
	err = s.lines(name)
	if counted.N <= 0 || s.scan.long {
		s.tally.Partial++
	}
	return err
}

// lines goes through the file that is open.
func (s *searcher) lines(name string) error {
	for {
		line, err := s.scan.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		hit := s.query.Match.Match(line)
		if done, err := s.take(name, line, hit); done || err != nil {
			return err
		}
		if s.scan.number%1024 == 0 && s.ctx.Err() != nil {
			return s.ctx.Err()
		}
	}
}

// take shows a line if it matches or is close to one that does. done says that
// nothing more is wanted of this file.
func (s *searcher) take(name string, line []byte, hit bool) (done bool, err error) {
	c, n := &s.scan, s.scan.number
	give := func(number int, text []byte, hit bool) error {
		if !s.each(searchLine{Path: name, Number: number, Text: text, Hit: hit}) {
			return errEnough
		}
		return nil
	}
	switch {
	case hit:
		for i, text := range c.before {
			if err := give(n-len(c.before)+i, text, false); err != nil {
				return true, err
			}
		}
		c.before, c.after = c.before[:0], s.query.Context
		if err := give(n, line, true); err != nil {
			return true, err
		}
		return s.query.First, nil
	case c.after > 0:
		c.after--
		err := give(n, line, false)
		return err != nil, err
	case s.query.Context > 0:
		c.keep(line, s.query.Context)
	}
	return false, nil
}

// keep notes a line that may stand before a match.
func (c *scanner) keep(line []byte, most int) {
	if len(c.before) < most {
		c.before = append(c.before, bytes.Clone(line))
		return
	}
	oldest := c.before[0]
	copy(c.before, c.before[1:])
	c.before[most-1] = append(oldest[:0], line...)
}

// next returns the next line without its end, or the beginning of a line that
// is longer than MaxLine. It is valid until the next call.
func (c *scanner) next() ([]byte, error) {
	c.line = c.line[:0]
	for {
		piece, err := c.in.ReadSlice('\n')
		if room := maxLine - len(c.line); room < len(piece) {
			c.long = true
			c.line = append(c.line, piece[:room]...)
		} else if err == nil && len(c.line) == 0 {
			c.number++
			return searchEnded(piece), nil
		} else {
			c.line = append(c.line, piece...)
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(c.line) > 0:
			c.number++
			return searchEnded(c.line), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// ended takes the end of a line away.
func searchEnded(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
