package sdk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// An event is one of a stream, as the specification of server-sent events has
// it. Its data is valid until the next one is read.
type event struct {
	name string
	id   string
	data []byte
}

// follow makes a request that is answered with events and hands each to each,
// until that says that it was the last one. A stream that ends before was cut
// off, which is an error: it is not known then what there was still to say. So is
// one that is silent, where daemons say all the time that they live.
func (c *API) follow(ctx context.Context, q Request, each func(event) (last bool, err error)) error {
	heard, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h := http.Header{"Accept": {api.ContentEvents}}
	for name, values := range q.Header {
		h[name] = values
	}
	q.Header = h
	a, err := c.Do(heard, q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type")); err != nil || kind != api.ContentEvents {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: q.Op, Message: "the daemon answers with something else than events"}
	}
	silence := time.AfterFunc(c.o.Silence, func() { cancel(errSilent) })
	defer silence.Stop()
	in := bufio.NewReaderSize(alive{a.Body, silence, c.o.Silence}, 32<<10)
	for {
		e, err := readEvent(in)
		if err != nil {
			return c.cut(heard, ctx, q.Op, err)
		}
		if e.name == api.EventError {
			return api.Read(q.Op, http.StatusInternalServerError, e.data)
		}
		if last, err := each(e); last || err != nil {
			return err
		}
	}
}

var (
	errSilent = errors.New("it says nothing, not even that it lives")
	errLong   = errors.New("an event has no end")
)

// alive notes that something came.
type alive struct {
	io.Reader
	silence *time.Timer
	most    time.Duration
}

func (r alive) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.silence.Reset(r.most)
	}
	return n, err
}

// cut is the error of a stream that ended before its last event.
func (c *API) cut(heard, ctx context.Context, op string, err error) error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "the stream was cut off, and it is not known what came after it", Err: err}
	switch {
	case ctx.Err() != nil:
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: op, Message: "the call ended before the stream had", Retryable: true, Err: ctx.Err()}
	case errors.Is(context.Cause(heard), errSilent):
		e.Err = errSilent
	case errors.Is(err, io.EOF):
		e.Err = nil
	}
	return e
}

// readEvent reads one event; comments, and unknown fields, are passed
// over.
func readEvent(in *bufio.Reader) (event, error) {
	var e event
	seen := false
	for left := maxAnswer; ; {
		line, err := readLine(in, left)
		if err != nil {
			return e, err
		}
		left -= len(line)
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && seen:
			return e, nil
		case len(line) == 0:
			e.name, e.id, left = "", "", maxAnswer // an event without data is none
		case string(field) == "event":
			e.name = string(value)
		case string(field) == "id":
			e.id = string(value)
		case string(field) == "data" && seen:
			e.data = append(append(e.data, '\n'), value...)
		case string(field) == "data":
			e.data, seen = append(e.data, value...), true
		}
	}
}

// readLine reads one line of at most so many bytes, without its end.
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var long []byte
	for {
		piece, err := in.ReadSlice('\n')
		if len(long)+len(piece) > most {
			return nil, errLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, piece...)
			continue
		}
		if err != nil {
			return nil, err
		}
		line := bytes.TrimSuffix(piece[:len(piece)-1], []byte("\r"))
		if long != nil {
			line = append(long, line...)
		}
		return line, nil
	}
}

// reported reads the data of an event.
func reported[T any](op string, e event) (T, error) {
	var out T
	if err := json.Unmarshal(e.data, &out); err != nil {
		return out, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "an event of the daemon cannot be read", Err: err}
	}
	return out, nil
}
