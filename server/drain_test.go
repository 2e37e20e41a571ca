package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A drain ends streams that only follow others at once, waits for running
// requests, refuses new ones, and closes in the end.
func TestDrain(t *testing.T) {
	begun, release := make(chan string, 2), make(chan struct{})
	wait := func(follows bool) resource.Route {
		id := map[bool]string{true: "follow", false: "work"}[follows]
		return resource.Route{ID: id, Method: "GET", Path: "/v1/" + id, Tag: "test", Summary: "Wait", Role: token.Session, Follows: follows, Response: line{}, Timeout: resource.Endless,
			Do: func(c *resource.Call) (any, error) {
				begun <- id
				select {
				case <-c.Context().Done():
					return nil, context.Cause(c.Context())
				case <-release:
					return line{Text: "done"}, nil
				}
			}}
	}
	s, err := server.New(server.Options{Log: quiet(), Identify: anAdmin, Resources: []resource.Resource{table{wait(true), wait(false)}},
		Checks: []server.Check{{Name: "advice", Advice: true, Look: func(context.Context) error { return context.Canceled }}}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = s.HTTP()
	srv.Start()
	defer srv.Close()
	if res, body := ask(t, srv, "GET", "/readyz", ""); res.StatusCode != 200 || !strings.Contains(body, `"name":"advice","ok":false`) {
		t.Errorf("readyz says %d %s", res.StatusCode, body)
	}
	type heard struct {
		res  *http.Response
		body string
	}
	answers := map[string]chan heard{"follow": make(chan heard, 1), "work": make(chan heard, 1)}
	for id, to := range answers {
		go func() {
			h := heard{res: &http.Response{}} // without an answer the test has failed, and goes on
			defer func() { to <- h }()
			h.res, h.body = ask(t, srv, "GET", "/v1/"+id, "")
		}()
		<-begun
	}
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context(), time.Hour) }()
	if h := <-answers["follow"]; h.res.StatusCode != 503 || !strings.Contains(h.body, "going down") {
		t.Errorf("who follows hears %d %s", h.res.StatusCode, h.body)
	}
	for _, path := range []string{"/v1/work", "/readyz"} {
		res, body := ask(t, srv, "GET", path, "")
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "going down") {
			t.Errorf("%s says %d %v %s", path, res.StatusCode, res.Header, body)
		}
	}
	select {
	case err := <-drained:
		t.Errorf("nobody has waited for what works: %v", err)
	case h := <-answers["work"]:
		t.Errorf("what works was cut off: %d %s", h.res.StatusCode, h.body)
	default:
	}
	close(release)
	if h := <-answers["work"]; h.res.StatusCode != 200 || !strings.Contains(h.body, "done") {
		t.Errorf("what works says %d %s", h.res.StatusCode, h.body)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if res, err := http.Get(srv.URL + "/healthz"); err == nil {
		res.Body.Close()
		t.Errorf("somebody still listens: %d", res.StatusCode)
	}
}
