package server_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A trickle is a connection over which a few bytes of a body arrive now and
// then.
type trickle struct {
	*httptest.ResponseRecorder
	each  int
	every time.Duration
	until time.Time
	pass  func(time.Duration)
	left  int
}

func (r *trickle) SetReadDeadline(at time.Time) error { r.until = at; return nil }
func (r *trickle) Close() error                       { return nil }

func (r *trickle) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	if left := time.Until(r.until); !r.until.IsZero() && left < r.every {
		r.pass(left)
		return 0, os.ErrDeadlineExceeded
	}
	r.pass(r.every)
	n := min(r.each, len(p), r.left)
	for i := range n {
		p[i] = ' '
	}
	r.left -= n
	return n, nil
}

// TestBodiesComeAtAPace holds that a client cannot take hours to send a body
// that is held in memory until it is whole, while a streamed body may pause.
func TestBodiesComeAtAPace(t *testing.T) {
	reads := func(r *http.Request) (n int64, err error) { return io.Copy(io.Discard, r.Body) }
	content := table{{
		ID: "content", Method: "PUT", Path: "/v1/content", Tag: "test", Summary: "Take content", RequestContent: "application/octet-stream", Role: token.Session, Timeout: resource.Endless,
		Do: func(c *resource.Call) (any, error) { _, err := reads(c.Request); return nil, resource.BodyErr(err) },
	}}
	json := echo()
	json[0].Timeout, json[0].Body = resource.Endless, 1<<20
	mount := func(pattern string, whole bool) server.Mount {
		return server.Mount{Pattern: pattern, Whole: whole, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := reads(r)
			switch {
			case err != nil && whole:
				http.Error(w, "failed to read body", 400) // as libraries do
			case errors.Is(err, os.ErrDeadlineExceeded):
				w.WriteHeader(408)
			}
		})}
	}
	for _, tt := range []struct {
		name, method, path string
		each               int
		every              time.Duration
		late               bool
		most               time.Duration
	}{
		{"JSON that trickles", "POST", "/v1/echo/x", 1, 29 * time.Second, true, 31 * time.Second},
		{"JSON that comes too slowly", "POST", "/v1/echo/x", 1 << 10, time.Second, true, 33 * time.Second},
		{"JSON at the pace", "POST", "/v1/echo/x", 16 << 10, time.Second, false, time.Minute},
		{"content that trickles", "PUT", "/v1/content", 1 << 10, 29 * time.Second, false, time.Hour},
		{"content that stands still", "PUT", "/v1/content", 1 << 10, 31 * time.Second, true, 31 * time.Second},
		{"a mount that passes it on", "PUT", "/m/", 1 << 10, 29 * time.Second, false, time.Hour},
		{"a mount where it stands still", "PUT", "/m/", 1 << 10, 31 * time.Second, true, 31 * time.Second},
		{"a mount that holds it", "PUT", "/w/", 1, 29 * time.Second, true, 31 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := server.New(server.Options{Log: quiet(), Identify: anAdmin, Resources: []resource.Resource{json, content}, Mounts: []server.Mount{mount("/m/", false), mount("/w/", true)}})
				must(t, err)
				c := &trickle{ResponseRecorder: httptest.NewRecorder(), each: tt.each, every: tt.every, pass: func(d time.Duration) { time.Sleep(d) }, left: 100 << 10}
				r := httptest.NewRequest(tt.method, "http://localhost"+tt.path, c)
				r.Header.Set("Content-Type", map[bool]string{true: "application/json", false: "application/octet-stream"}[tt.method == "POST"])
				began := time.Now()
				s.ServeHTTP(c, r)
				if took := time.Since(began); took > tt.most {
					t.Errorf("it has taken %v, want %v", took, tt.most)
				}
				if (c.Code == 408) != tt.late {
					t.Errorf("%d %s", c.Code, c.Body)
				}
			})
		})
	}
}
