package images

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// maxMessage bounds one message of the engine's progress stream in bytes.
const maxMessage = 1 << 20

// message is one line of the progress stream of a pull, import or build.
type message struct {
	Stream   string `json:"stream"`
	Status   string `json:"status"`
	ID       string `json:"id"`
	Progress struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	Error       string `json:"error"`
	ErrorDetail struct {
		Message string `json:"message"`
	} `json:"errorDetail"`
	Aux struct {
		ID string `json:"ID"`
	} `json:"aux"`
}

// streamError is a failure that the engine reported in the stream.
type streamError struct{ text string }

func (e *streamError) Error() string { return clip(printable(e.text), 2000) }

// follow reads the progress stream until its end and calls each for every
// message. It returns a *streamError when the stream reports a failure, and
// io.ErrUnexpectedEOF when the connection broke in the middle of a message.
func follow(r io.Reader, each func(message)) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxMessage)
	for sc.Scan() {
		line := strings.TrimSpace(sc.Text())
		if line == "" {
			continue
		}
		var m message
		// Aux differs from message to message; what does not fit is no
		// reason to give up on the rest.
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			var misfit *json.UnmarshalTypeError
			if !errors.As(err, &misfit) {
				return fmt.Errorf("progress stream broke off: %w", io.ErrUnexpectedEOF)
			}
		}
		if m.Error != "" || m.ErrorDetail.Message != "" {
			text := m.ErrorDetail.Message
			if text == "" {
				text = m.Error
			}
			return &streamError{text: text}
		}
		each(m)
	}
	return sc.Err()
}

// work bounds a long operation: a deadline for the whole, and one for the
// silence between two signs of life, which alive ends.
func (s *Store) work(ctx context.Context) (work context.Context, alive func(), cancel func()) {
	return watch(ctx, s.cfg.Timeouts.Operation, s.cfg.Timeouts.Idle)
}

func watch(ctx context.Context, whole, silence time.Duration) (context.Context, func(), func()) {
	ctx, stop := context.WithTimeoutCause(ctx, whole, errDeadline)
	ctx, abort := context.WithCancelCause(ctx)
	timer := time.AfterFunc(silence, func() { abort(errIdle) })
	alive := func() { timer.Reset(silence) }
	return ctx, alive, func() {
		timer.Stop()
		abort(nil)
		stop()
	}
}

// tail keeps the last lines of an output.
type tail struct {
	lines []string
	open  bool // the last line has no line feed yet
}

const (
	tailLines = 20
	tailWidth = 400 // bytes of one line
)

func (t *tail) reset() { *t = tail{} }

func (t *tail) write(text string) {
	for len(text) > 0 {
		line, rest, ended := strings.Cut(text, "\n")
		if t.open {
			t.lines[len(t.lines)-1] = clip(t.lines[len(t.lines)-1]+line, tailWidth)
		} else {
			t.lines = append(t.lines, clip(line, tailWidth))
			if len(t.lines) > tailLines {
				t.lines = t.lines[1:]
			}
		}
		t.open, text = !ended, rest
	}
}

// String is the kept output with control characters escaped.
func (t *tail) String() string {
	out := make([]string, 0, len(t.lines))
	for _, l := range t.lines {
		if l = strings.TrimRight(l, "\r "); l != "" {
			out = append(out, printable(l))
		}
	}
	return strings.Join(out, "\n")
}
