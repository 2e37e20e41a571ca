package server_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A pipe is an in-memory listener, whose deadlines use the clock of a synctest
// bubble.
type pipe struct {
	conns chan net.Conn
	over  chan struct{}
	close sync.Once
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}
func (p *pipe) Close() error   { p.close.Do(func() { close(p.over) }); return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A heard is what a client has read from a pipe, and when.
type heard struct {
	text         string
	err          error
	began, ended time.Duration
}

// overPipe sends the parts, 20 seconds apart, to a server with default bounds,
// and reads the answer until the connection ends, or for an hour.
func overPipe(t *testing.T, o server.Options, parts ...string) heard {
	t.Helper()
	o.Log, o.Identify = quiet(), anAdmin
	s, err := server.New(o)
	must(t, err)
	p := &pipe{conns: make(chan net.Conn), over: make(chan struct{})}
	srv := s.HTTP()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(p)
	}()
	defer func() {
		_ = srv.Close()
		<-done
	}()
	c, theirs := net.Pipe()
	defer c.Close()
	p.conns <- theirs
	began := time.Now()
	must(t, c.SetDeadline(began.Add(time.Hour)))
	for i, part := range parts {
		if i > 0 {
			<-time.After(20 * time.Second) // of the bubble
		}
		_, err = io.WriteString(c, part)
		must(t, err)
	}
	var h heard
	first := make([]byte, 1)
	if _, h.err = c.Read(first); h.err != nil {
		return h
	}
	h.began = time.Since(began)
	rest, err := io.ReadAll(c)
	h.text, h.err, h.ended = string(first)+string(rest), err, time.Since(began)
	return h
}

// TestNobodyWaitsForABodyThatNobodySends holds with the default bounds that a
// client that announces a body and never sends it gets an answer, and that
// neither handlers nor connections wait for the body longer than a piece may
// take, whatever has been read of it and however long the answer is.
func TestNobodyWaitsForABodyThatNobodySends(t *testing.T) {
	const headers = " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
	mount := func(pattern string, do http.HandlerFunc) server.Mount {
		return server.Mount{Pattern: pattern, Handler: do}
	}
	reads := func(r *http.Request) {
		if _, err := io.ReadAll(r.Body); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the body ended with %v", err)
		}
	}
	long := strings.Repeat("a", 100<<10)
	o := server.Options{
		Resources: []resource.Resource{echo(), table{{
			ID: "none", Method: "POST", Path: "/v1/none", Tag: "test", Summary: "Read nothing", Request: map[string]any{}, Response: api.Health{}, Role: token.Session, Timeout: resource.Endless,
			Do: func(*resource.Call) (any, error) { return api.Health{Status: long}, nil },
		}}},
		Mounts: []server.Mount{
			mount("/short", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "short") }),
			mount("/long", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) }),
			mount("/pieces", func(w http.ResponseWriter, _ *http.Request) {
				for range 100 {
					_, _ = io.WriteString(w, long[:1<<10])
				}
			}),
			mount("/flushes", func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }),
			mount("/thinks", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(200)
				<-time.After(5 * time.Minute) // of the bubble
				_, _ = io.WriteString(w, long)
			}),
			mount("/closes", func(_ http.ResponseWriter, r *http.Request) { _ = r.Body.Close() }),
			mount("/hijacks", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusSwitchingProtocols)
				if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
					_ = c.Close()
				}
			}),
			mount("/reads", func(_ http.ResponseWriter, r *http.Request) { reads(r) }),
			mount("/last", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "close")
				_ = http.NewResponseController(w).Flush()
				reads(r)
			}),
			mount("/givesup", func(w http.ResponseWriter, r *http.Request) {
				read := make(chan struct{})
				go func() {
					defer close(read)
					reads(r)
				}()
				synctest.Wait()
				must(t, http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)))
				_, _ = io.WriteString(w, long)
				<-read
			}),
		},
	}
	for _, tt := range []struct {
		what, status string
		began, ended time.Duration
	}{
		{"POST /v1/nothing", "404", 30 * time.Second, 30 * time.Second},
		{"POST /v1/none", "200", 30 * time.Second, time.Minute},
		{"POST /v1/echo/x", "408", 30 * time.Second, 30 * time.Second},
		{"GET /v1/echo/x", "405", 30 * time.Second, 30 * time.Second},
		{"POST /short", "200", 30 * time.Second, 30 * time.Second},
		{"GET /long", "200", 30 * time.Second, time.Minute},
		{"GET /pieces", "200", 30 * time.Second, time.Minute},
		{"GET /flushes", "200", 30 * time.Second, time.Minute},
		{"GET /thinks", "200", 330 * time.Second, 6 * time.Minute},
		{"POST /closes", "200", 30 * time.Second, time.Minute},
		{"GET /hijacks", "101", 30 * time.Second, 30 * time.Second},
		{"POST /reads", "200", 30 * time.Second, 30 * time.Second},
		{"POST /last", "200", 0, 30 * time.Second},
		{"POST /givesup", "200", 0, 0},
	} {
		t.Run(strings.ReplaceAll(tt.what, "/", ""), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := overPipe(t, o, tt.what+headers+"{")
				if h.err != nil || !strings.HasPrefix(h.text, "HTTP/1.1 "+tt.status) {
					t.Errorf("%.80q %v", h.text, h.err)
				}
				if h.began > tt.began || h.ended > tt.ended {
					t.Errorf("the answer came after %v and ended after %v, want %v and %v", h.began, h.ended, tt.began, tt.ended)
				}
			})
		})
	}
}

// TestABodyThatComesLateEndsNothing holds that the deadline of the rest of a
// body is not that of the request: its handler goes on when the body has
// arrived.
func TestABodyThatComesLateEndsNothing(t *testing.T) {
	works := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(5 * time.Minute):
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done():
			t.Errorf("%s: the request was over after the body had come: %v", r.URL, r.Context().Err())
		}
	}
	o := server.Options{Mounts: []server.Mount{
		{Pattern: "/reads", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			must(t, err)
			w.WriteHeader(200)
			works(w, r)
		})},
		{Pattern: "/closes", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = r.Body.Close()
			w.WriteHeader(200)
			works(w, r)
		})},
		{Pattern: "/flushes", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			must(t, http.NewResponseController(w).Flush())
			_, _ = io.WriteString(w, "begun")
			works(w, r)
		})},
	}}
	for _, path := range []string{"/reads", "/closes", "/flushes"} {
		synctest.Test(t, func(t *testing.T) {
			h := overPipe(t, o, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{", "}")
			if h.err != nil || !strings.HasPrefix(h.text, "HTTP/1.1 200") || !strings.Contains(h.text, "done") {
				t.Errorf("%s: %q %v", path, h.text, h.err)
			}
		})
	}
}
