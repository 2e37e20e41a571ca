package secret

import (
	"bytes"
	"io"
	"net/http"
	"slices"
)

// chunk is the size of one read of a response, in bytes.
const chunk = 32 << 10

// maxEmpty is how many consecutive reads may return neither bytes nor an
// error.
const maxEmpty = 100

// ScrubHeader replaces values with stand-ins in every field of a response. A
// field whose name contains a value is removed.
func (s *Set) ScrubHeader(header http.Header) {
	for name, values := range header {
		if s.named(name) {
			delete(header, name)
			continue
		}
		for i, value := range values {
			values[i] = s.ScrubString(value)
		}
	}
}

// named reports whether the name of a field contains a value, in any case.
func (s *Set) named(name string) bool {
	if s == nil || len(name) < minValue {
		return false
	}
	v, lower := s.in, bytes.ToLower([]byte(name))
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.closed || v.match != nil && slices.ContainsFunc(v.match.folded, func(value []byte) bool { return bytes.Contains(lower, value) })
}

// ScrubString replaces values with stand-ins in a short text: the reason
// phrase of a response, a message for a record. After Close it returns "".
func (s *Set) ScrubString(text string) string {
	if s == nil {
		return text
	}
	v := s.in
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return ""
	}
	if v.match == nil || len(text) < v.match.window {
		return text
	}
	if at, _, _ := v.match.next([]byte(text), len(text)); at < 0 {
		return text
	}
	out, _ := v.match.replace(nil, []byte(text), true)
	return string(out)
}

// ScrubBody returns r with values replaced by stand-ins. The length may
// differ, so a Content-Length is void. Bytes are passed on as soon as they are
// read, except an end that could be the beginning of a value, which is held
// until more is read. The reader is not safe for concurrent use, and closes
// nothing.
func (s *Set) ScrubBody(r io.Reader) io.Reader {
	if s == nil {
		return r
	}
	return &scrubber{set: s.in, from: r}
}

// A scrubber holds undecided bytes in raw[:] and scrubbed ones in out[sent:].
type scrubber struct {
	set  *vault
	from io.Reader
	buf  []byte // chunk of room beside raw
	raw  []byte
	out  []byte
	sent int
	err  error // error of from, once it occurred

	empty int // consecutive reads without bytes
}

func (b *scrubber) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for b.sent == len(b.out) {
		if b.err != nil && len(b.raw) == 0 {
			return 0, b.err
		}
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.out[b.sent:])
	b.sent += n
	return n, nil
}

// fill reads once and scrubs what can be decided.
func (b *scrubber) fill() error {
	if b.err == nil {
		if need := len(b.raw) + chunk; cap(b.buf) < need {
			buf := make([]byte, need+chunk)
			copy(buf, b.raw)
			b.buf, b.raw = buf, buf[:len(b.raw)]
		} else {
			b.raw = b.buf[:copy(b.buf, b.raw)]
		}
		n, err := b.from.Read(b.buf[len(b.raw) : len(b.raw)+chunk])
		b.raw, b.err = b.buf[:len(b.raw)+n], err
		if b.empty++; n > 0 {
			b.empty = 0
		} else if b.empty == maxEmpty && err == nil {
			b.err = io.ErrNoProgress
		}
	}
	v := b.set
	v.mu.RLock()
	defer v.mu.RUnlock()
	b.out, b.sent = b.out[:0], 0
	if v.closed {
		b.raw, b.err = nil, errClosed()
		return b.err
	}
	taken := len(b.raw)
	if v.match == nil {
		b.out = append(b.out, b.raw...)
	} else {
		b.out, taken = v.match.replace(b.out, b.raw, b.err != nil)
	}
	b.raw = b.raw[taken:]
	return nil
}
