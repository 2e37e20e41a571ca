package daemon

import (
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/daemon/api"
	"github.com/bulkhead-dev/sandbox/daemon/route"
)

// body is the body of a request with its bound, which is limit where the route
// has no other, and with time for each piece.
func (q *request) body(r *http.Request, limit int64) io.ReadCloser {
	if q.route.Body != 0 {
		limit = q.route.Body
	}
	b := io.ReadCloser(&patient{r.Body, q.w.rc, q.s.o.SlowRead})
	if limit > 0 {
		b = http.MaxBytesReader(q.w, b, limit)
	}
	return b
}

// patient is a body of which each piece has to come in time. The deadline is
// taken off at the end, or it would end the watch over the connection.
type patient struct {
	io.ReadCloser
	rc   *http.ResponseController
	slow time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.rc.SetReadDeadline(time.Now().Add(p.slow))
	n, err := p.ReadCloser.Read(b)
	_ = p.rc.SetReadDeadline(time.Time{})
	return n, err
}

// contentOf refuses a body of another kind than the route takes.
func contentOf(r *http.Request, of *route.Route) error {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	wants := of.RequestContent
	if of.Request != nil {
		wants = api.ContentJSON
	}
	if wants == "" {
		return &route.Fault{Status: http.StatusUnprocessableEntity, Close: true, Err: &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Message: "this takes no body"}}
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
	return &route.Fault{Status: http.StatusUnsupportedMediaType, Close: true, Err: &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "read request", Field: "Content-Type", Message: "the body is of another kind than this takes", Hint: "send " + wants,
	}}
}
