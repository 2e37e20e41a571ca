package server

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// body returns the body of a call with its bound, which is limit where the route
// has no other, and with a deadline for each piece. A body that is read whole
// also has to arrive at the rate of arriving.
func (q *request) body(c *resource.Call, limit int64) io.ReadCloser {
	if q.route.Body != 0 {
		limit = q.route.Body
	}
	b := q.patient(c, c.Request.Body, q.route.Request != nil)
	if limit > 0 {
		b = http.MaxBytesReader(q.w, b, limit)
	}
	return b
}

// arriving is the least average rate, in bytes per second, at which the body of
// a request that is read whole has to arrive: 128 kbit/s, with which 32 MiB take
// 34 minutes. A streamed body, such as the content of a file, is not held in
// memory and may be produced while it is sent, so only each piece of it has a
// deadline.
const arriving = 16 << 10

// step is how many bytes of a body that is read whole are reserved at a time.
// The first step is not reserved: the number of requests of a tenant bounds
// those.
const step = 64 << 10

func (q *request) patient(c *resource.Call, body io.ReadCloser, whole bool) io.ReadCloser {
	if body == nil || body == http.NoBody {
		return body
	}
	p := &patient{ReadCloser: body, rest: q.w.rest, slow: q.s.o.SlowRead, whole: whole, room: step}
	if whole && q.who != nil {
		p.hold = func() error {
			give, err := q.s.holdBody(account(c), step)
			if err == nil {
				c.Until(give)
			}
			return err
		}
	}
	return p
}

// patient is a body each piece of which has a deadline.
type patient struct {
	io.ReadCloser
	rest  *rest
	slow  time.Duration
	whole bool // it may keep us waiting for slow and a second for each arriving bytes in all

	came   int64
	waited time.Duration // time spent in Read alone: a slow handler is not the client's fault
	room   int64         // for how many bytes there is some
	hold   func() error  // takes room for a step more; nil is always room
	refuse func(error)   // is called when there is no room for the body or it is late; nil leaves the error to the reader
}

func (p *patient) Read(b []byte) (int, error) {
	if p.hold != nil && p.came >= p.room {
		if err := p.hold(); err != nil {
			return 0, p.refused(err)
		}
		p.room += step
	}
	began, wait := time.Now(), p.slow
	if p.whole {
		wait = min(wait, p.slow+time.Duration(p.came)*time.Second/arriving-p.waited)
	}
	p.rest.until(began.Add(wait))
	if p.hold != nil {
		b = b[:min(int64(len(b)), p.room-p.came)]
	}
	n, err := p.ReadCloser.Read(b)
	p.came += int64(n)
	p.waited += time.Since(began)
	p.rest.passed(err)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, p.refused(err)
	}
	return n, err
}

func (p *patient) refused(err error) error {
	if p.refuse != nil {
		p.refuse(resource.BodyErr(err))
	}
	return err
}

// Close implements [io.Closer]; it reads what is left.
func (p *patient) Close() error { return p.rest.close(p.ReadCloser) }

// contentOf refuses a body of another kind than the route takes.
func contentOf(r *http.Request, of *resource.Route) error {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	wants := of.RequestContent
	if of.Request != nil {
		wants = api.ContentJSON
	}
	if wants == "" {
		return &resource.Fault{Status: http.StatusUnprocessableEntity, Close: true, Err: &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Message: "this takes no body"}}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return wrongContent("identity, which is no encoding at all")
	}
	got, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := strings.ToLower(params["charset"])
	if wants == api.ContentJSON && (err != nil || got != wants || charset != "" && charset != "utf-8") {
		return wrongContent(wants)
	}
	return nil
}

func wrongContent(wants string) error {
	return &resource.Fault{Status: http.StatusUnsupportedMediaType, Close: true, Err: &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "read request", Field: "Content-Type", Message: "the body is of another kind than this takes", Hint: "send " + wants,
	}}
}
