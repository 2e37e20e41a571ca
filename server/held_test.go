package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// aTenant identifies the caller as the tenant that a header names.
func aTenant(r *http.Request) (auth.Caller, error) {
	return auth.Caller{Role: token.Tenant, Tenant: r.Header.Get("Test-Tenant")}, nil
}

// TestUnreadAnswersAreBounded holds that a tenant that does not read its
// answers, whole or as events, cannot use up the memory and leaves room for
// others.
func TestUnreadAnswersAreBounded(t *testing.T) {
	much := api.Health{Status: strings.Repeat("a", 12<<20)}
	reported := make(chan error, 4)
	elsewhere := func(write func()) { // writes from another goroutine, as handlers do that answer many requests
		done := make(chan struct{})
		go func() {
			defer close(done)
			write()
		}()
		<-done
	}
	srv := serve(t, server.Options{Held: 20 << 20, Identify: aTenant, Mounts: []server.Mount{{
		Pattern: "/mounted", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, much.Status)
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, "and more")
		}),
	}, {
		Pattern: "/streamed", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			elsewhere(func() { _, _ = io.WriteString(w, much.Status) })
			<-r.Context().Done() // the end of a stream is that of its request
		}),
	}}, Resources: []resource.Resource{table{{
		ID: "whole", Method: "GET", Path: "/v1/whole", Tag: "test", Summary: "Tell much", Response: api.Health{}, Role: token.Session,
		Do: func(*resource.Call) (any, error) { return much, nil },
	}, {
		ID: "events", Method: "GET", Path: "/v1/events", Tag: "test", Summary: "Tell much", Events: []resource.Event{{Name: "x"}}, Stream: true, Role: token.Session,
		Do: func(c *resource.Call) (any, error) {
			e := c.Events()
			defer e.Close()
			reported <- e.Send("x", much)
			return resource.Sent{}, nil
		},
	}, {
		ID: "reply", Method: "GET", Path: "/v1/reply", Tag: "test", Summary: "Tell much", Response: api.Health{}, Role: token.Session,
		Do: func(*resource.Call) (any, error) {
			return resource.Reply{Header: http.Header{"Location": {"/v1/whole"}}, Body: much}, nil
		},
	}}}})
	cut := func(path string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		must(t, err)
		r.Header.Set("Test-Tenant", "acme")
		res, err := srv.Client().Do(r)
		if err != nil {
			return // before anything was written
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err == nil || len(body) > 1024 {
			t.Errorf("%s: %d bytes, and the end is %v", path, len(body), err)
		}
	}
	for _, path := range []string{"/v1/whole", "/v1/events"} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		must(t, err)
		defer c.Close()
		must(t, c.(*net.TCPConn).SetReadBuffer(4096)) // or the answer has room on its way
		_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nTest-Tenant: acme\r\n\r\n", path)
		must(t, err)
		for got := ""; !strings.Contains(got, "aaa"); { // the answer is on its way, so it has its room
			part := make([]byte, 128)
			n, err := c.Read(part)
			must(t, err)
			got += string(part[:n])
		}
		res, body := ask(t, srv, "GET", "/v1/whole", "", "Test-Tenant", "acme")
		if res.StatusCode != 429 {
			t.Fatalf("%s is not read, and one more is answered with %d", path, res.StatusCode)
		}
		if p := problem(t, res, body); p.Code != sandbox.CodeBudgetExceeded || p.Retryable || p.Hint == "" {
			t.Errorf("%+v", p)
		}
		for _, other := range []string{"/mounted", "/v1/reply"} {
			res, body := ask(t, srv, "GET", other, "", "Test-Tenant", "acme")
			if p := problem(t, res, body); res.StatusCode != 429 || p.Code != sandbox.CodeBudgetExceeded || p.Field != "quota.answerBytesAtOnce" {
				t.Errorf("%s is not read, and %s answers %d %+v", path, other, res.StatusCode, p)
			}
			if h := res.Header; h.Get("Location")+h.Get("Content-Encoding") != "" || h.Get(api.HeaderRequestID) == "" {
				t.Errorf("%s has headers of another answer: %v", other, h)
			}
		}
		cut("/v1/events")
		if <-reported == nil {
			t.Errorf("%s is not read, and events are told", path)
		}
		cut("/streamed")
		if res, _ := ask(t, srv, "GET", "/v1/whole", "", "Test-Tenant", "bob"); res.StatusCode != 200 {
			t.Errorf("another tenant: %d", res.StatusCode)
		}
		c.Close()
		testenv.Until(t, "what was read counts no more", func() bool {
			res, _ := ask(t, srv, "GET", "/v1/whole", "", "Test-Tenant", "acme")
			return res.StatusCode == 200
		})
		if path == "/v1/events" {
			<-reported // of the client that has gone
		}
	}
}

// TestBodiesAreBounded holds that the bodies of a tenant do not take all memory,
// however many requests they come with, and leave it to others.
func TestBodiesAreBounded(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(end) })
	defer letGo()
	mount := server.Mount{Pattern: "/mounted", Whole: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, "failed to read body", http.StatusBadRequest)
		}
	})}
	srv := serve(t, server.Options{Held: 5 << 20, Identify: aTenant, Mounts: []server.Mount{mount}, Resources: []resource.Resource{table{{
		ID: "keep", Method: "POST", Path: "/v1/keep", Tag: "test", Summary: "Keep a body", Request: map[string]any{}, Role: token.Session, Body: 4 << 20,
		Do: func(c *resource.Call) (any, error) {
			if _, err := c.Raw(); err != nil {
				return nil, err
			}
			if c.Request.Header.Get("Test-Keep") != "" {
				begun <- struct{}{}
				<-end
			}
			return nil, nil
		},
	}}}})
	body := strings.Repeat(" ", 3<<20)
	send := func(tenant, body string, header ...string) (*http.Response, string) {
		return ask(t, srv, "POST", "/v1/keep", body, append(header, "Test-Tenant", tenant, "Content-Type", api.ContentJSON)...)
	}
	var kept sync.WaitGroup
	kept.Go(func() {
		if res, got := send("acme", body, "Test-Keep", "yes"); res.StatusCode != 204 {
			t.Errorf("control: %d %s", res.StatusCode, got)
		}
	})
	<-begun
	for _, path := range []string{"/v1/keep", "/mounted"} {
		res, got := ask(t, srv, "POST", path, body, "Test-Tenant", "acme", "Content-Type", api.ContentJSON)
		if p := problem(t, res, got); res.StatusCode != 429 || p.Code != sandbox.CodeBudgetExceeded || !p.Retryable || p.Hint == "" || res.Header.Get("Retry-After") == "" {
			t.Errorf("one more at %s: %d %+v", path, res.StatusCode, p)
		}
	}
	if res, got := send("acme", "{}"); res.StatusCode != 204 {
		t.Errorf("a small one: %d %s", res.StatusCode, got)
	}
	if res, got := send("bob", body); res.StatusCode != 204 {
		t.Errorf("another tenant: %d %s", res.StatusCode, got)
	}
	letGo()
	kept.Wait()
	if res, got := send("acme", body); res.StatusCode != 204 {
		t.Errorf("when the first has ended: %d %s", res.StatusCode, got)
	}
}
