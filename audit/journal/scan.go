package journal

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// A raw is one line as it lies in a file.
type raw struct {
	text   []byte // without line feed; nil when it is longer than any line of ours; valid until the next one
	offset int64
	length int64 // with line feed
	number int   // from 1; 0 when reading backwards
	ended  bool  // a line feed is there
}

// lines reads the bytes from..to of r line by line in bounded memory. The
// first one has the number 1.
func lines(r io.ReaderAt, from, to int64) iter.Seq2[raw, error] {
	return func(yield func(raw, error) bool) {
		b := bufio.NewReaderSize(io.NewSectionReader(r, from, to-from), 2*maxLine)
		at := from
		for number := 1; at < to; number++ {
			l, err := nextLine(b)
			l.offset, l.number = at, number
			at += l.length
			if err != nil && !errors.Is(err, io.EOF) {
				yield(l, err)
				return
			}
			if l.length == 0 || !yield(l, nil) || err != nil {
				return // the file is shorter than it was, or at its end
			}
		}
	}
}

// nextLine reads one line; io.EOF comes with one that has no line feed.
func nextLine(b *bufio.Reader) (raw, error) {
	text, err := b.ReadSlice('\n')
	l := raw{text: text, length: int64(len(text))}
	for errors.Is(err, bufio.ErrBufferFull) {
		l.text = nil
		text, err = b.ReadSlice('\n')
		l.length += int64(len(text))
	}
	if err == nil {
		l.ended = true
		l.text = bytes.TrimSuffix(l.text, []byte("\n"))
	}
	return l, err
}

// backChunk is how much is read at once backwards.
const backChunk = 64 << 10

// linesBack reads the bytes 0..to of r line by line from the end in bounded
// memory.
func linesBack(r io.ReaderAt, to int64) iter.Seq2[raw, error] {
	return func(yield func(raw, error) bool) {
		var rest []byte // what is known of a line whose begin was not seen yet
		restEnd := to   // where that line ends, its line feed included
		ended, long := false, false
		for pos := to; pos > 0; {
			n := min(pos, backChunk)
			pos -= n
			chunk := make([]byte, n, int(n)+len(rest))
			if got, err := r.ReadAt(chunk, pos); got < len(chunk) {
				yield(raw{offset: pos}, err)
				return
			}
			chunk = append(chunk, rest...)
			for {
				i := bytes.LastIndexByte(chunk, '\n')
				if i < 0 {
					break
				}
				begin := pos + int64(i) + 1
				if begin < restEnd && !yield(backLine(chunk[i+1:], begin, restEnd, ended, long), nil) {
					return
				}
				chunk, restEnd, ended, long = chunk[:i], begin, true, false
			}
			if rest = chunk; len(rest) > maxLine {
				rest, long = nil, true
			}
		}
		if restEnd > 0 {
			yield(backLine(rest, 0, restEnd, ended, long), nil)
		}
	}
}

func backLine(text []byte, begin, end int64, ended, long bool) raw {
	l := raw{text: text, offset: begin, length: end - begin, ended: ended}
	if long {
		l.text = nil
	}
	return l
}
