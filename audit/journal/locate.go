package journal

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// An end describes where the journal ends: where the next line goes and what
// has to be written first.
type end struct {
	tail
	usable bool  // the file tail.file is there and begins with its header
	length int64 // bytes of that file, what is no line included
	stray  int64 // where bytes begin that are no lines; tail.size or more
	open   bool  // the last byte is no line feed
	why    string
	lost   tail // of sealTruncated: the tail that the head recorded
}

// locate finds the end of the journal in dir without writing anything. It
// starts at the end that the head records and follows the lines that a process
// wrote before it ended without updating the head. The caller holds the lock.
func locate(dir string) (end, error) {
	head, ok, err := readHead(dir)
	if err != nil {
		return end{}, err
	}
	e := end{tail: head, stray: head.size}
	if !ok {
		if e, err = withoutHead(dir); err != nil {
			return end{}, err
		}
	}
	for {
		if err := e.follow(dir); err != nil {
			return end{}, err
		}
		next, ok, err := e.successor(dir)
		if err != nil {
			return end{}, err
		}
		if !ok {
			return e, nil
		}
		e = end{tail: next, why: e.why, lost: e.lost}
	}
}

// withoutHead begins at the newest file that has a header. Without any file
// the journal is new.
func withoutHead(dir string) (end, error) {
	numbers, _, err := list(dir)
	if err != nil || len(numbers) == 0 {
		return end{}, err
	}
	e := end{tail: tail{file: numbers[len(numbers)-1], oldest: numbers[0]}, why: sealHead}
	for i := len(numbers) - 1; i >= 0; i-- {
		line, h, ok, err := readHeader(dir, numbers[i])
		if err != nil {
			return end{}, err
		}
		if ok {
			e.tail = tail{file: numbers[i], seq: line.seq - 1, hash: line.prev, oldest: h.Oldest}
			break
		}
	}
	return e, nil
}

// readHeader returns the first line of a file when it is a header for it.
func readHeader(dir string, number uint64) (entry, header, bool, error) {
	f, err := openRegular(filepath.Join(dir, fileName(number)), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return entry{}, header{}, false, nil
	}
	if err != nil {
		return entry{}, header{}, false, err
	}
	defer f.Close()
	for l, err := range lines(f, 0, maxLine) {
		if err != nil {
			return entry{}, header{}, false, err
		}
		e, h, ok := asHeader(l, number)
		e.data = nil // it lies in the reader's buffer
		return e, h, ok, nil
	}
	return entry{}, header{}, false, nil
}

// asHeader reads a line as the header of the file with that number.
func asHeader(l raw, number uint64) (entry, header, bool) {
	var h header
	e, err := parseLine(l.text)
	if err != nil || !l.ended || e.kind != kindHeader || json.Unmarshal(e.data, &h) != nil {
		return entry{}, header{}, false
	}
	return e, h, h.Format == format && h.File == number && h.Oldest > 0 && h.Oldest <= number && e.seq > 0
}

// follow reads the file of e from where e ends. It reads a file that is shorter
// than the head says from its beginning.
func (e *end) follow(dir string) error {
	e.usable, e.open, e.length, e.stray = false, false, 0, e.size
	if e.file == 0 {
		return nil
	}
	f, err := openRegular(filepath.Join(dir, fileName(e.file)), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	e.length = fi.Size()
	switch {
	case e.size == 0:
		// The header is still to be read.
	case e.length == e.size:
		e.usable = true
		// An edit can leave the same number of bytes and no line feed; the
		// next line must not become part of what is there.
		var last [1]byte
		_, err := f.ReadAt(last[:], e.size-1)
		e.open = last[0] != '\n'
		return err
	case e.length < e.size:
		e.why, e.lost = sealTruncated, e.tail
		if err := e.rewind(f); err != nil {
			return err
		}
	default:
		e.usable = true
	}
	return e.scan(f)
}

// rewind sets e to before the header of the file, so that it is read anew.
func (e *end) rewind(f *os.File) error {
	e.size, e.stray = 0, 0
	for l, err := range lines(f, 0, min(e.length, maxLine)) {
		if err != nil {
			return err
		}
		if h, _, ok := asHeader(l, e.file); ok {
			e.seq, e.hash = h.seq-1, h.prev
		}
		break
	}
	return nil
}

// scan advances e over the lines after it that are chained to it.
func (e *end) scan(f *os.File) error {
	e.stray = e.size
	for l, err := range lines(f, e.size, e.length) {
		if err != nil {
			return err
		}
		e.open = !l.ended
		if !e.usable {
			line, h, ok := asHeader(l, e.file)
			if !ok || line.prev != e.hash || line.seq <= e.seq {
				return nil // not a file of this chain
			}
			e.usable, e.oldest = true, h.Oldest
		}
		line, err := parseLine(l.text)
		if err != nil || line.prev != e.hash || line.seq <= e.seq {
			continue // a whole line that lacks only its line feed counts
		}
		e.size, e.seq, e.hash = l.offset+l.length, line.seq, line.hash
		e.stray = e.size
	}
	switch {
	case e.length == e.stray || !e.usable:
	case e.open: // all that a write can leave that does not come to its end
		e.why = cmp.Or(e.why, sealTorn)
	default:
		e.why = cmp.Or(e.why, sealForeign)
	}
	return nil
}

// successor returns the begin of the next file, when a process made it and
// ended before it could say so.
func (e *end) successor(dir string) (tail, bool, error) {
	if _, err := os.Lstat(filepath.Join(dir, fileName(e.file+1))); errors.Is(err, fs.ErrNotExist) {
		return tail{}, false, nil
	}
	line, h, ok, err := readHeader(dir, e.file+1)
	if err != nil || !ok || line.prev != e.hash || line.seq <= e.seq {
		return tail{}, false, err
	}
	return tail{file: e.file + 1, seq: line.seq - 1, hash: line.prev, oldest: h.Oldest}, true, nil
}
