package resource_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// A createdRig is a daemon that serves sandboxes with fields of their own, and whose
// time can be moved on.
type createdRig struct {
	*served.Rig
	ahead atomic.Int64
}

func createdOn(t *testing.T, provider string) *createdRig {
	r := &createdRig{}
	r.Rig = served.New(t, served.Options{
		Wall:     provider,
		Settings: `{"daemon": {"create": {"allowedDomains": ["*.example.com"]}}, "agents": {"defaults": {"sandbox": {"provider": "` + provider + `", "prune": {"every": "0s"}}}}}`,
		Change: func(o *manager.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
		},
		Resources: func(s *served.Rig) []resource.Resource {
			answers, err := resource.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			boxes := resource.NewSandboxes(resource.Options{Manager: s.Manager, Answers: answers, Log: s.Log})
			supervisor := running.New(running.Options{Manager: running.Managed(s.Manager), Log: s.Log})
			t.Cleanup(func() {
				boxes.Close()
				if err := supervisor.Close(t.Context()); err != nil && t.Context().Err() == nil {
					t.Error(err)
				}
			})
			return []resource.Resource{boxes, resource.NewCommands(s.Manager), resource.NewFilesResource(s.Manager, resource.Limits{})}
		},
	})
	return r
}

// made creates a sandbox of acme and returns its path.
func (r *createdRig) made(session, fields string) string {
	r.T.Helper()
	a := r.Want(201, "acme", "POST", "/v1/sandboxes", `{"session":"`+session+`"`+fields+`}`)
	return "/v1/sandboxes/" + served.JSON[api.Sandbox](r.T, a).Name
}

func (r *createdRig) get(path string) api.Sandbox {
	r.T.Helper()
	return served.JSON[api.Sandbox](r.T, r.Want(200, "acme", "GET", path, ""))
}

// over moves the time on and has those ended whose timeout is over.
func (r *createdRig) over(d time.Duration) {
	r.T.Helper()
	r.ahead.Add(int64(d))
	if _, _, err := r.Manager.Expire(r.T.Context()); err != nil {
		r.T.Fatal(err)
	}
}

// TestCreatedSandboxes holds over HTTP, with both providers, what requests to create
// may ask for: timeouts that are set anew, what happens at their end, pausing with
// and without force, network rules of a running sandbox, and lists by label and
// page. Another tenant finds none of it. Timeouts and lists are held with one of
// the providers, and with both with "make test-all".
func TestCreatedSandboxes(t *testing.T) {
	for _, provider := range []string{"docker", "local"} {
		for name, test := range map[string]func(*testing.T, *createdRig){
			"timeout": createdTimeout, "end with pause": createdEndsPaused, "pause": createdPause, "network": createdNetwork, "labels": createdLabels,
		} {
			t.Run(provider+"/"+name, func(t *testing.T) {
				if provider == "docker" && (name == "timeout" || name == "labels") {
					testenv.Exhaustive(t, "what the provider has no part in")
				}
				test(t, createdOn(t, provider))
			})
		}
	}
}

// refused holds requests that are refused, and that another tenant finds nothing.
func (r *createdRig) refused(method, path, good string, bad map[string]string) {
	r.T.Helper()
	if p := r.Want(404, "evil", method, path, good, "Content-Type", api.ContentJSON).Problem(r.T); p.Code != sandbox.CodeNotFound || strings.Contains(p.Detail+p.Hint, "acme") {
		r.T.Errorf("another tenant: %+v", p)
	}
	r.Want(404, "acme-s2", method, path, good, "Content-Type", api.ContentJSON) // another session of the tenant
	for body, field := range bad {
		if p := r.Want(422, "acme", method, path, body, "Content-Type", api.ContentJSON).Problem(r.T); p.Code != sandbox.CodeValidation || p.Field != field {
			r.T.Errorf("%s: %+v, want the field %q", body, p, field)
		}
	}
}

func createdTimeout(t *testing.T, r *createdRig) {
	at := r.made("s1", `,"timeout":60`)
	r.refused("POST", at+"/timeout", `{"timeout":90}`, map[string]string{
		`{"timeout":0}`: "timeout", `{"timeout":-1}`: "timeout", `{"timeout":31536001}`: "timeout", `{}`: "timeout", `{"timeout":"1"}`: "timeout", `{"timeout":1,"more":1}`: "more",
	})
	for _, seconds := range []int{90, 30, 120} { // longer and shorter, from now on
		a := served.JSON[api.Sandbox](t, r.Want(200, "acme", "POST", at+"/timeout", fmt.Sprintf(`{"timeout":%d}`, seconds)))
		left := time.Until(a.ExpiresAt) - time.Duration(r.ahead.Load())
		if want := time.Duration(seconds) * time.Second; a.OnTimeout != "kill" || left > want || left < want-20*time.Second {
			t.Errorf("%d: %v are left, %+v", seconds, left, a)
		}
	}
	r.over(100 * time.Second)
	r.Want(200, "acme", "POST", at+"/exec", `{"line":"true"}`)
	r.over(21 * time.Second)
	for _, x := range [][3]string{{"GET", "", ""}, {"POST", "/timeout", `{"timeout":9}`}, {"POST", "/pause", ""}, {"POST", "/resume", ""}} {
		r.Want(404, "acme", x[0], at+x[1], x[2])
	}
}

func createdEndsPaused(t *testing.T, r *createdRig) {
	at := r.made("s1", `,"timeout":60,"onTimeout":"pause"`)
	auto := r.made("s2", `,"timeout":60,"onTimeout":"pause","autoResume":true`)
	for _, at := range []string{at, auto} {
		r.Want(201, "acme", "PUT", at+"/files/workspace/kept", "data", "Content-Type", "application/octet-stream")
	}
	r.over(61 * time.Second)
	for _, at := range []string{at, auto} {
		if got := r.get(at); got.Status != sandbox.StatusPaused {
			t.Errorf("at the end it is %s", got.Status)
		}
	}
	for _, x := range [][3]string{{"POST", "/exec", `{"line":"true"}`}, {"GET", "/files/workspace/kept", ""}} {
		if p := r.Want(409, "acme", x[0], at+x[1], x[2]).Problem(t); p.Code != sandbox.CodeBusy || !strings.Contains(p.Hint, "resume") {
			t.Errorf("%s: %+v", x[1], p)
		}
	}
	if got := r.Want(200, "acme", "GET", auto+"/files/workspace/kept", ""); got.Body != "data" {
		t.Error(got.Body)
	}
	if got := served.JSON[api.Sandbox](t, r.Want(200, "acme", "POST", at+"/resume", "")); got.Status != sandbox.StatusRunning || !got.ExpiresAt.After(time.Now().Add(time.Duration(r.ahead.Load()))) {
		t.Errorf("resumed: %+v", got)
	}
	if got := r.Want(200, "acme", "POST", at+"/exec", `{"line":"cat kept"}`); !strings.Contains(got.Body, `"stdout":"data"`) {
		t.Error(got.Body)
	}
}

func createdPause(t *testing.T, r *createdRig) {
	at := r.made("s1", "")
	r.refused("POST", at+"/pause", "", nil)
	r.refused("POST", at+"/resume", "", nil)
	if got := served.JSON[api.Sandbox](t, r.Want(200, "acme", "POST", at+"/pause", "")); got.Status != sandbox.StatusPaused {
		t.Errorf("paused: %+v", got)
	}
	page := served.JSON[api.SandboxPage](t, r.Want(200, "acme", "GET", "/v1/sandboxes?status=paused", ""))
	if len(page.Items) != 1 || page.Items[0].Status != sandbox.StatusPaused {
		t.Errorf("the list has %+v", page)
	}
	r.Want(200, "acme", "POST", at+"/exec", `{"line":"echo 1 >f"}`) // its next use resumes it
	if got := r.get(at); got.Status != sandbox.StatusRunning {
		t.Errorf("after a use it is %s", got.Status)
	}
	// What runs is not interrupted, but by force, and goes on then.
	res, err := r.Send(t.Context(), "acme", http.MethodPost, at+"/exec", strings.NewReader(`{"line":"while [ ! -e go ]; do : >beat; sleep 0.05; done; echo over"}`), "Content-Type", api.ContentJSON, "Accept", api.ContentEvents)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	testenv.Until(t, "it runs", func() bool { return r.Ask("acme", "GET", at+"/files/workspace/beat", "").Status == 200 })
	if p := r.Want(409, "acme", "POST", at+"/pause", "").Problem(t); p.Code != sandbox.CodeBusy {
		t.Errorf("%+v", p)
	}
	if got := served.JSON[api.Sandbox](t, r.Want(200, "acme", "POST", at+"/pause?force=true", "")); got.Status != sandbox.StatusPaused {
		t.Errorf("paused by force: %+v", got)
	}
	if got := served.JSON[api.Sandbox](t, r.Want(200, "acme", "POST", at+"/resume", "")); got.Status != sandbox.StatusRunning {
		t.Errorf("resumed: %+v", got)
	}
	r.Want(200, "acme", "POST", at+"/exec", `{"line":": >go"}`)
	var text strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := res.Body.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if !strings.Contains(text.String(), "over") || !strings.Contains(text.String(), `"exitCode":0`) {
		t.Errorf("what was paused ends with %s", text.String())
	}
}

func createdNetwork(t *testing.T, r *createdRig) {
	at := r.made("s1", `,"network":{"allowedDomains":["a.example.com"]}`)
	r.refused("PUT", at+"/network", `{"allowedDomains":[]}`, map[string]string{
		`{"domains":[]}`: "domains", `{"allowedDomains":"x"}`: "allowedDomains",
	})
	is := r.get(at).ID
	for _, body := range []string{`{"allowedDomains":["b.example.com"],"deniedDomains":["c.example.com"]}`, `{"allowedDomains":[]}`, `{}`} {
		if got := served.JSON[api.Sandbox](t, r.Want(200, "acme", "PUT", at+"/network", body, "Content-Type", api.ContentJSON)); got.ID != is {
			t.Errorf("%s has made it anew", body)
		}
	}
	if p := r.Want(403, "acme", "PUT", at+"/network", `{"allowedDomains":["evil.com"]}`, "Content-Type", api.ContentJSON).Problem(t); p.Code != sandbox.CodeCapabilityBlocked || p.Field != "network.allowedDomains[0]" {
		t.Errorf("above the ceiling: %+v", p)
	}
}

func createdLabels(t *testing.T, r *createdRig) {
	for i, color := range []string{"red", "blue", "red", "red", "blue", "red"} {
		tier := []string{"a", "b"}[i%2]
		r.made(fmt.Sprint("s", i), fmt.Sprintf(`,"labels":{"team":%q,"tier":%q}`, color, tier))
	}
	list := func(as, query string) (sessions []string) {
		t.Helper()
		next := ""
		for range 9 {
			page := served.JSON[api.SandboxPage](t, r.Want(200, as, "GET", "/v1/sandboxes?limit=2"+query+next, ""))
			if len(page.Items) > 2 {
				t.Errorf("%s: a page has %d", query, len(page.Items))
			}
			for _, b := range page.Items {
				sessions = append(sessions, b.Session)
			}
			if page.Next == "" {
				slices.Sort(sessions)
				return sessions
			}
			next = "&cursor=" + page.Next
		}
		t.Fatalf("%s has no last page", query)
		return nil
	}
	for query, want := range map[string][]string{
		"&label=team=red": {"s0", "s2", "s3", "s5"}, "&label=team=red&label=tier=a": {"s0", "s2"}, "&label=team%3Dblue": {"s1", "s4"},
		"&label=team=green": nil, "&label=team=": nil, "&label=Team=red": nil, "": {"s0", "s1", "s2", "s3", "s4", "s5"}, "&label=tier=b&session=s3": {"s3"},
	} {
		if got := list("acme", query); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
		if got := list("evil", strings.ReplaceAll(query, "&session=s3", "")); len(got) != 0 {
			t.Errorf("another tenant sees %v", got)
		}
	}
	for _, bad := range []string{"label=team", "label=", "label==red"} {
		if p := r.Want(422, "acme", "GET", "/v1/sandboxes?"+bad, "").Problem(t); p.Code != sandbox.CodeValidation || p.Field != "label" {
			t.Errorf("%s: %+v", bad, p)
		}
	}
}
