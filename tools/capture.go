package tools

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// The bounds of the output in an answer, and the interval of progress reports.
const (
	maxStream     = 64 << 10 // bytes of each stream: the first half and the last one
	maxMessage    = 200      // bytes of a line in a Progress
	progressEvery = 200 * time.Millisecond
)

// A capture takes the output of a command. It is safe for concurrent use.
type capture struct {
	kept  int   // bytes of each stream
	bound int64 // limits.maxOutputBytes; 0 is unbounded

	mu       sync.Mutex
	progress func(Progress)
	reported time.Time
	line     []byte // that is written, the beginning of it
	last     []byte // that was written before
	lines    int64
	out, err ends
}

func newCapture(bound int64, progress func(Progress)) *capture {
	c := &capture{kept: maxStream, bound: bound, progress: progress}
	if bound > 0 && bound < maxStream {
		c.kept = int(bound)
	}
	return c
}

// stdout and stderr are the streams as writers.
func (c *capture) stdout() io.Writer { return stream{c, &c.out} }
func (c *capture) stderr() io.Writer { return stream{c, &c.err} }

// again forgets what was written: the command is run once more.
func (c *capture) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out, c.err, c.line, c.last, c.lines = ends{}, ends{}, nil, nil, 0
}

// A stream is one output of a command.
type stream struct {
	c  *capture
	to *ends
}

// Write implements io.Writer. It takes everything.
func (s stream) Write(p []byte) (int, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s.to.add(p, c.kept)
	c.follow(p)
	if now := time.Now(); now.Sub(c.reported) >= progressEvery {
		c.reported = now
		line := c.line
		if len(bytes.TrimSpace(line)) == 0 {
			line = c.last
		}
		c.progress(Progress{Message: termsafe.Line(strings.ToValidUTF8(string(line), "\ufffd")), Bytes: c.out.total + c.err.total, Lines: c.lines})
	}
	return len(p), nil
}

// follow notes the last lines of what is written.
func (c *capture) follow(p []byte) {
	c.lines += int64(bytes.Count(p, []byte("\n")))
	if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
		head := p[:i]
		if j := bytes.LastIndexByte(head, '\n'); j >= 0 {
			c.line, head = c.line[:0], head[j+1:]
		}
		c.line = append(c.line, head[:min(len(head), max(0, maxMessage-len(c.line)))]...)
		c.last, c.line = c.line, c.last[:0]
		p = p[i+1:]
	}
	c.line = append(c.line, p[:min(len(p), max(0, maxMessage-len(c.line)))]...)
}

// streams are both outputs as answers have them, and the bound of the settings
// where one of them is beyond it.
func (c *capture) streams() (out, err schema.Stream, hit *sandbox.LimitHit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most := max(c.out.total, c.err.total); c.bound > 0 && most > c.bound {
		hit = &sandbox.LimitHit{Limit: sandbox.LimitMaxOutputBytes, Current: most, Bound: c.bound, Unit: sandbox.UnitBytes}
	}
	return c.out.stream(c.kept), c.err.stream(c.kept), hit
}

// ends keep the beginning and the end of a stream, of so many bytes in all.
type ends struct {
	total int64
	head  []byte
	tail  []byte // a ring, once it is full
	at    int    // where the oldest byte of a full ring is
}

// add takes p; kept is the same each time.
func (e *ends) add(p []byte, kept int) {
	e.total += int64(len(p))
	n := min(len(p), kept/2-len(e.head))
	e.head, p = append(e.head, p[:n]...), p[n:]
	size := kept - kept/2
	if len(p) > size {
		p = p[len(p)-size:]
	}
	n = min(len(p), size-len(e.tail))
	e.tail, p = append(e.tail, p[:n]...), p[n:]
	for len(p) > 0 {
		n = copy(e.tail[e.at:], p)
		e.at = (e.at + n) % size
		p = p[n:]
	}
}

// stream is what was kept.
func (e *ends) stream(kept int) schema.Stream {
	tail := append(append([]byte{}, e.tail[e.at:]...), e.tail[:e.at]...)
	s := schema.Stream{Bytes: e.total, Omitted: e.total - int64(len(e.head)+len(tail))}
	if s.Omitted == 0 {
		s.Text = valid(append(append([]byte{}, e.head...), tail...))
		return s
	}
	// Characters that are cut in two are left out as well.
	head := e.head
	for i := 1; i < utf8.UTFMax && i <= len(head); i++ {
		if r := head[len(head)-i:]; utf8.RuneStart(r[0]) {
			if !utf8.FullRune(r) {
				head = head[:len(head)-i]
			}
			break
		}
	}
	for i := 0; i < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	s.Omitted = e.total - int64(len(head)+len(tail))
	s.Text = lines(valid(head), remarks("… "+counted(s.Omitted)+" left out …"), valid(tail))
	return s
}
