package compat

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// answers returns a call whose server of /v1 is do.
func answers(do http.HandlerFunc, authorization ...string) (*Call, *httptest.ResponseRecorder) {
	r, w := httptest.NewRequest("POST", "http://box.example/x", nil), httptest.NewRecorder()
	r.RemoteAddr = "192.0.2.1:5"
	r.Header.Set("Origin", "http://box.example")
	r.Header.Set("Sandbox-Tenant", "other")
	r.Header.Set("Authorization", "Bearer of-another-protocol")
	w.Header().Set(api.HeaderRequestID, "id-1")
	c := New(w, r, do, authorization...)
	return &c, w
}

// TestRequest holds what a request of /v1 has from the one that caused it.
func TestRequest(t *testing.T) {
	for _, authorization := range [][]string{nil, {"Bearer a"}, {"Bearer a", "Bearer b"}} {
		c, _ := answers(nil, authorization...)
		r := c.Request(t.Context(), "GET", Sandbox("a", "/files/x y?z"), nil, nil)
		if r.Host != "box.example" || r.RemoteAddr != "192.0.2.1:5" || r.Header.Get("Origin") == "" || r.Header.Get(api.HeaderRequestID) != "id-1" {
			t.Errorf("the server cannot judge where it comes from: %+v", r)
		}
		if !slices.Equal(r.Header["Authorization"], authorization) || r.Header.Get("Sandbox-Tenant") != "" {
			t.Errorf("%v", r.Header)
		}
		if c.Host = "other.example"; c.Request(t.Context(), "GET", "/v1/x", nil, nil).Host != "other.example" {
			t.Error("it is for another host")
		}
		if r.RequestURI != "/v1/sandboxes/a/files/x%20y%3Fz" {
			t.Error(r.RequestURI)
		}
	}
}

// TestDo holds how answers are read.
func TestDo(t *testing.T) {
	c, _ := answers(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/none":
			w.WriteHeader(http.StatusNoContent)
		case "/v1/problem":
			w.Header().Set("Retry-After", "3")
			api.Write(w, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "x", Field: "f", Resource: "r", Message: "too much", Hint: "wait"})
		case "/v1/text":
			http.Error(w, "no JSON", http.StatusBadGateway)
		default:
			fmt.Fprint(w, `{"name":"a"}`)
		}
	})
	var s api.Sandbox
	if err := c.Do(t.Context(), "GET", "/v1/sandbox", nil, nil, &s); err != nil || s.Name != "a" {
		t.Errorf("%v %v", s, err)
	}
	if err := c.Do(t.Context(), "POST", "/v1/none", nil, map[string]int{"a": 1}, nil); err != nil {
		t.Error(err)
	}
	f, ok := errors.AsType[*Fault](c.Do(t.Context(), "GET", "/v1/problem", nil, nil, &s))
	if !ok || f.Status != 429 || f.Code != sandbox.CodeBudgetExceeded || f.Field != "f" || f.About != "r" || f.Header.Get("Retry-After") != "3" ||
		!strings.Contains(f.Message, "too much") || !strings.Contains(f.Message, "wait") {
		t.Errorf("%+v", f)
	}
	f, ok = errors.AsType[*Fault](c.Do(t.Context(), "GET", "/v1/text", nil, nil, &s))
	if !ok || f.Status != 502 || f.Code != "" || f.Message == "" {
		t.Errorf("%+v", f)
	}
}

// TestRelay holds that an answer is passed on, and an error is held.
func TestRelay(t *testing.T) {
	for _, status := range []int{200, 206, 404} {
		c, w := answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", "e")
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = w.Write([]byte("content"))
		})
		p := &Relay{To: w, Set: func(h http.Header) { h.Set("Content-Type", "a/b") }}
		c.API.ServeHTTP(p, c.Request(t.Context(), "GET", "/v1/x", nil, nil))
		if err := p.Err(); (err != nil) != (status >= 400) {
			t.Errorf("%d: %v", status, err)
		}
		if status >= 400 && (w.Body.Len() > 0 || w.Header().Get("Etag") != "") {
			t.Errorf("%d: an error was passed on: %s", status, w.Body)
		}
		if status < 400 && (w.Code != status || w.Body.String() != "content" || w.Header().Get("Etag") != "e" || w.Header().Get("Content-Type") != "a/b") {
			t.Errorf("%d: %d %v %s", status, w.Code, w.Header(), w.Body)
		}
	}
}

// TestFollow holds how events are read, however they are cut into writes.
func TestFollow(t *testing.T) {
	const text = ": hi\n\nevent: a\r\ndata: 1\r\n\r\nid: 5\nevent: b\ndata: 2\ndata:3\n\n\nevent: c\ndata: 4\n\n"
	for size := 1; size <= len(text); size++ {
		c, _ := answers(func(w http.ResponseWriter, r *http.Request) {
			for rest := text; rest != "" && r.Context().Err() == nil; {
				n := min(size, len(rest))
				if _, err := w.Write([]byte(rest[:n])); err != nil {
					return
				}
				rest = rest[n:]
			}
		})
		var got []string
		err := c.Follow(t.Context(), c.Request(t.Context(), "GET", "/v1/x", nil, nil), func(event string, data []byte) error {
			got = append(got, event+"="+string(data))
			return map[string]error{"b": ErrDone}[event]
		})
		if want := []string{"=", "a=1", "b=23"}; err != nil || !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: %q, %v, want %q", size, got, err, want)
		}
	}
	c, _ := answers(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	if err := c.Follow(t.Context(), c.Request(t.Context(), "GET", "/v1/x", nil, nil), nil); err == nil {
		t.Error("an error is a stream")
	}
}

// TestDecode holds what is one JSON object.
func TestDecode(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":1}`: true, ` {"a":null} `: true, `{}`: true, ``: false, `[]`: false, `null`: false, `{"a":1}{}`: false, `{"a":1} x`: false,
		`{"b":1}`: false, `{"a":"x"}`: false, `{"a":1`: false,
	} {
		var v struct{ A *int }
		if err := Decode([]byte(text), &v); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestGoodName holds what can stand in a path.
func TestGoodName(t *testing.T) {
	for name, want := range map[string]bool{"sbx-a_b.c-1": true, "": false, ".": false, "..": false, "-a": false, "a/b": false, "a b": false, "ä": false, "a?": false, strings.Repeat("a", 129): false} {
		if GoodName(name) != want {
			t.Errorf("%q is not %v", name, want)
		}
	}
}
