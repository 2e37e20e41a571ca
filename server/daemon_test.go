package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// table is a resource made of the routes of a test.
type table []resource.Route

func (t table) Routes() []resource.Route { return t }

func quiet() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// anAdmin identifies every caller as an admin, for tests in which the caller
// does not matter.
func anAdmin(*http.Request) (auth.Caller, error) {
	return auth.Caller{Role: token.Admin, Local: true}, nil
}

// serve returns a server with the routes, on a socket of its own.
func serve(t *testing.T, o server.Options) *httptest.Server {
	t.Helper()
	if o.Log == nil {
		o.Log = quiet()
	}
	if o.Identify == nil {
		o.Identify = anAdmin
	}
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv
}

// ask makes one request and returns the answer with its whole body.
func ask(t *testing.T, srv *httptest.Server, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(data)
}

// problem reads an answer as one.
func problem(t *testing.T, res *http.Response, body string) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil || res.Header.Get("Content-Type") != api.ContentProblem {
		t.Fatalf("%d %s is no problem: %s", res.StatusCode, res.Header.Get("Content-Type"), body)
	}
	if p.Status != res.StatusCode || p.Type != api.ProblemType(p.Code) || p.RequestID != res.Header.Get(api.HeaderRequestID) {
		t.Errorf("the problem %+v does not agree with its answer (%d, %v)", p, res.StatusCode, res.Header)
	}
	return p
}

type line struct {
	Text  string `json:"text" required:"true" maxlen:"8"`
	Times int    `json:"times,omitempty" min:"1" max:"3"`
}

func echo() table {
	return table{{
		ID: "echo", Method: "POST", Path: "/v1/echo/{name}", Tag: "test", Summary: "Say it again", Role: token.Session,
		Request: line{}, Response: line{}, Status: 201, Query: []resource.Param{{Name: "limit", Type: resource.Integer, Min: 1, Max: 9}, {Name: "loud", Type: resource.Boolean}},
		Do: func(c *resource.Call) (any, error) {
			in, err := resource.Body[line](c)
			in.Text += c.Path("name") + c.Text("limit")
			return in, err
		},
	}}
}

func TestRoute(t *testing.T) {
	srv := serve(t, server.Options{Resources: []resource.Resource{echo()}})
	res, body := ask(t, srv, "POST", "/v1/echo/x?limit=7", `{"text":"a<b"}`, "Content-Type", "application/json")
	if res.StatusCode != 201 || body != `{"text":"a<bx7"}`+"\n" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, body := ask(t, srv, "GET", "/healthz", ""); res.StatusCode != 200 || !strings.Contains(body, `"ok"`) {
		t.Errorf("healthz: %d %s", res.StatusCode, body)
	}
}

// TestRefusalNamesTheRole holds that the refusal of a route
// for admins has a hint that names the role.
func TestRefusalNamesTheRole(t *testing.T) {
	only := echo()
	only[0].Role = token.Admin
	srv := serve(t, server.Options{Resources: []resource.Resource{only}, Identify: func(*http.Request) (auth.Caller, error) {
		return auth.Caller{Role: token.Tenant, Tenant: "acme"}, nil
	}})
	res, body := ask(t, srv, "POST", "/v1/echo/x", `{"text":"a"}`, "Content-Type", "application/json")
	if p := problem(t, res, body); res.StatusCode != 403 || !strings.Contains(p.Hint, "sandbox token create --role admin") {
		t.Errorf("%d %+v", res.StatusCode, p)
	}
}
