package server_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// TestUntilTheAnswerIsRead holds that the bounds on answers are released when
// the answer has been read and not when it is returned, and always once.
func TestUntilTheAnswerIsRead(t *testing.T) {
	reported := make(chan string, 4)
	table := table{}
	add := func(id string, do func(*resource.Call) (any, error)) {
		table = append(table, resource.Route{ID: id, Method: "GET", Path: "/v1/" + id, Tag: "test", Summary: "Hold", Response: api.Health{}, Role: token.Session, Do: func(c *resource.Call) (any, error) {
			c.Until(func() { reported <- "first" })
			c.Until(func() { reported <- "second" })
			return do(c)
		}})
	}
	add("large", func(*resource.Call) (any, error) { return strings.Repeat("a", 32<<20), nil })
	add("small", func(*resource.Call) (any, error) { return "a", nil })
	add("fails", func(*resource.Call) (any, error) { return nil, errors.New("no") })
	add("panics", func(*resource.Call) (any, error) { panic("no") })
	add("sent", func(c *resource.Call) (any, error) {
		_, err := c.Writer.Write([]byte("a"))
		return resource.Sent{}, err
	})
	srv := serve(t, server.Options{Resources: []resource.Resource{table}})
	ended := func(id string) {
		t.Helper()
		for _, want := range []string{"second", "first"} {
			if got := <-reported; got != want {
				t.Errorf("%s: %s, want %s", id, got, want)
			}
		}
		if len(reported) > 0 {
			t.Errorf("%s: told once more", id)
		}
	}
	for _, r := range table[1:] {
		ask(t, srv, "GET", r.Path, "")
		ended(r.ID)
	}
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	must(t, err)
	defer c.Close()
	must(t, c.(*net.TCPConn).SetReadBuffer(4096)) // or the answer has room on its way
	_, err = fmt.Fprint(c, "GET /v1/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
	must(t, err)
	if _, err := c.Read(make([]byte, 1)); err != nil { // more than a socket takes is still to be written
		t.Fatal(err)
	}
	select {
	case got := <-reported:
		t.Errorf("%s was told before the answer was read", got)
	default:
	}
	c.Close()
	ended("large")
}

// A dripping client reads an answer piece by piece, each of them just in time.
type dripping struct {
	header http.Header
	within time.Duration
	until  time.Time
	pass   func(time.Duration)
}

func (d *dripping) Header() http.Header                 { return d.header }
func (d *dripping) WriteHeader(int)                     {}
func (d *dripping) SetWriteDeadline(at time.Time) error { d.until = at; return nil }

func (d *dripping) Write(p []byte) (int, error) {
	if left := time.Until(d.until); left < d.within {
		d.pass(left)
		return 0, os.ErrDeadlineExceeded
	}
	d.pass(d.within)
	return len(p), nil
}

// TestAWholeAnswerHasADeadline holds that a client that reads a little now and
// then cannot keep an answer in memory for as long as it likes.
func TestAWholeAnswerHasADeadline(t *testing.T) {
	const size = 8 << 20
	for _, tt := range []struct {
		name                string
		within, least, most time.Duration
	}{
		{"as fast as is asked for", time.Second, 128 * time.Second, 130 * time.Second},
		{"in pieces that are just in time", 29 * time.Second, 157 * time.Second, 159 * time.Second},
		{"not at all", time.Hour, 30 * time.Second, 31 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := server.New(server.Options{Log: quiet(), Identify: anAdmin, Resources: []resource.Resource{table{{
					ID: "large", Method: "GET", Path: "/v1/large", Tag: "test", Summary: "Tell much", Response: api.Health{}, Role: token.Session,
					Do: func(*resource.Call) (any, error) { return strings.Repeat("a", size), nil },
				}}}})
				must(t, err)
				began := time.Now()
				s.ServeHTTP(&dripping{header: http.Header{}, within: tt.within, pass: func(d time.Duration) { time.Sleep(d) }}, httptest.NewRequest("GET", "http://localhost/v1/large", nil))
				if took := time.Since(began); took < tt.least || took > tt.most {
					t.Errorf("the answer was held for %v, want %v to %v", took, tt.least, tt.most)
				}
			})
		})
	}
}
