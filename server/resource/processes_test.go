package resource_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// A processesRig has the sandbox of the session s1 of acme at base.
type processesRig struct {
	*served.Rig
	base string
}

func processesOnProviders(t *testing.T, test func(*testing.T, processesRig)) {
	served.OnBoth(t, newProcessesRig, func(r processesRig) { test(r.T.(*testing.T), r) })
}

// processesInMemory is for what code inside and the provider have no part in.
func processesInMemory(t *testing.T, test func(*testing.T, processesRig)) {
	served.OnMemory(t, newProcessesRig, func(r processesRig) { test(r.T.(*testing.T), r) })
}

func newProcessesRig(t *testing.T, provider string) processesRig {
	r := processesRig{Rig: served.New(t, served.Options{Wall: provider, Resources: func(r *served.Rig) []resource.Resource {
		kept := running.New(running.Options{Manager: running.Managed(r.Manager), Log: r.Log})
		t.Cleanup(func() {
			ctx, done := context.WithTimeout(context.Background(), time.Minute)
			defer done()
			if err := kept.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return []resource.Resource{resource.NewShells(r.Manager, kept, stream.Options{})}
	}})}
	r.base = "/v1/sandboxes/" + r.Ready("acme", "s1")
	return r
}

// An sse is one event of a stream.
type sse struct{ id, name, data string }

// A followed stream is read event by event.
type followed struct {
	t      *testing.T
	in     *bufio.Scanner
	cancel func() // cuts the connection
	output string
	last   string
}

// follow opens a stream, which has to be answered with status.
func (r processesRig) follow(as, method, path, body string, header ...string) *followed {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r.T.Cleanup(cancel)
	if body != "" {
		header = append(header, "Content-Type", "application/json")
	}
	res, err := r.Send(ctx, as, method, r.base+path, strings.NewReader(body), header...)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		r.T.Fatalf("%s %s: %d %v", method, path, res.StatusCode, res.Header)
	}
	return &followed{t: r.T.(*testing.T), in: bufio.NewScanner(res.Body), cancel: cancel}
}

// next reads an event; ok is false at the end.
func (f *followed) next() (e sse, ok bool) {
	for f.in.Scan() {
		field, value, _ := strings.Cut(f.in.Text(), ": ")
		switch {
		case f.in.Text() == "" && e.name != "":
			f.last = e.id
			return e, true
		case field == "id":
			e.id = value
		case field == "event":
			e.name = value
		case field == "data":
			e.data = value
		}
	}
	return e, false
}

// until reads until the output has text, or until an event of that name.
func (f *followed) until(text, name string) sse {
	f.t.Helper()
	for {
		e, ok := f.next()
		if !ok {
			f.t.Fatalf("the stream has ended before %q%s: %q, %v", text, name, f.output, f.in.Err())
		}
		if e.name == api.EventStdout || e.name == api.EventStderr {
			var o api.Output
			if err := json.Unmarshal([]byte(e.data), &o); err != nil {
				f.t.Fatal(err)
			}
			f.output += o.Text + string(o.Base64)
		}
		if text != "" && strings.Contains(f.output, text) || e.name == name {
			return e
		}
	}
}

func (f *followed) exit() api.Exit {
	f.t.Helper()
	var out api.Exit
	if err := json.Unmarshal([]byte(f.until("", api.EventExit).data), &out); err != nil {
		f.t.Fatal(err)
	}
	return out
}

func TestProcessOutlivesItsClient(t *testing.T) {
	t.Parallel()
	processesOnProviders(t, func(t *testing.T, r processesRig) {
		f := r.follow("acme-s1", "POST", "/exec/stream", `{"args":["sh","-c","echo one; read x; echo two $x; read x; echo three $x >&2; exit 7"],"tag":"build","background":true,"stdinOpen":true}`)
		var p api.Process
		if err := json.Unmarshal([]byte(f.until("", api.EventProcess).data), &p); err != nil || p.ID == "" || p.PID <= 0 || p.Tag != "build" || p.State != "running" || len(p.Args) != 3 {
			t.Fatalf("%+v: %v", p, err)
		}
		f.until("one\n", "")
		f.cancel() // the client is cut off
		r.Want(204, "acme-s1", "POST", r.base+"/processes/build/stdin", `{"data":"a\n"}`)
		number := strconv.Itoa(p.PID)
		again := r.follow("acme-s1", "GET", "/processes/"+number+"/stream", "", api.HeaderLastEvent, f.last)
		again.until("two a\n", "")
		if again.output != "two a\n" {
			t.Errorf("after a gap: %q", again.output)
		}
		other := r.follow("acme", "GET", "/processes/build/stream?from=0", "") // two at once
		other.until("two a\n", "")
		r.Want(204, "acme", "POST", r.base+"/processes/"+number+"/stdin", `{"dataBase64":"`+base64.StdEncoding.EncodeToString([]byte("b\n"))+`","eof":true}`)
		for _, f := range []*followed{again, other} {
			if e := f.exit(); e.ExitCode != 7 || e.Sandbox == "" || e.StderrBytes != int64(len("three b\n")) || !strings.HasSuffix(f.output, "two a\nthree b\n") {
				t.Errorf("%+v %q", e, f.output)
			}
		}
		// It has ended, which who comes late learns as well.
		late := r.follow("acme", "POST", "/exec/stream", "", api.HeaderLastEvent, again.last)
		if e := late.exit(); e.ExitCode != 7 || late.output != "" {
			t.Errorf("%+v %q", e, late.output)
		}
		list := served.JSON[api.ProcessList](t, r.Want(200, "acme-s1", "GET", r.base+"/processes", ""))
		if len(list.Items) != 1 || list.Items[0].ID != p.ID || list.Items[0].State != "ended" || list.Items[0].Exit == nil || list.Items[0].Exit.ExitCode != 7 || list.Items[0].EndedAt.IsZero() {
			t.Errorf("%+v", list)
		}
		for _, path := range []string{"/stdin", "/signal", "/resize"} {
			body := map[string]string{"/stdin": `{"eof":true}`, "/signal": `{"signal":"TERM"}`, "/resize": `{"rows":3,"cols":4}`}[path]
			r.Want(404, "acme", "POST", r.base+"/processes/build"+path, body)
		}
	})
}

func TestProcessOnATerminal(t *testing.T) {
	t.Parallel()
	processesOnProviders(t, func(t *testing.T, r processesRig) {
		p := served.JSON[api.Process](t, r.Want(201, "acme", "POST", r.base+"/processes", `{"args":["sh","-c","read x; stty size; read y"],"tty":{"rows":10,"cols":40}}`))
		if !p.TTY || p.State != "running" {
			t.Errorf("%+v", p)
		}
		r.Want(204, "acme", "POST", r.base+"/processes/"+p.ID+"/resize", `{"rows":33,"cols":77}`)
		r.Want(204, "acme", "POST", r.base+"/processes/"+p.ID+"/stdin", `{"data":"\n"}`)
		f := r.follow("acme", "GET", "/processes/"+p.ID+"/stream", "")
		size := "33 77"
		if strings.HasSuffix(t.Name(), "/memory") {
			size = "stty: not found" // it has no such program
		}
		f.until(size, "")
		if done := served.JSON[api.Process](t, r.Want(200, "acme", "DELETE", r.base+"/processes/"+p.ID, "")); done.State == "running" || done.Exit == nil || done.Exit.Signal != "KILL" {
			t.Errorf("%+v", done)
		}
		plain := served.JSON[api.Process](t, r.Want(201, "acme", "POST", r.base+"/processes", `{"args":["sleep","600"]}`))
		if res := r.Want(501, "acme", "POST", r.base+"/processes/"+plain.ID+"/resize", `{"rows":33,"cols":77}`); !strings.Contains(res.Body, "SANDBOX.UNSUPPORTED") {
			t.Error(res.Body)
		}
		f = r.follow("acme", "GET", "/processes/"+plain.ID+"/stream", "")
		r.Want(204, "acme", "POST", r.base+"/processes/"+plain.ID+"/signal", `{"signal":"TERM"}`)
		if e := f.exit(); e.Signal != "TERM" {
			t.Errorf("%+v", e)
		}
	})
}

func TestProcessRequestsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	processesInMemory(t, func(t *testing.T, r processesRig) {
		p := served.JSON[api.Process](t, r.Want(201, "acme", "POST", r.base+"/processes", `{"line":"echo hi; cat","tag":"t","stdinOpen":true}`))
		one := served.JSON[api.Process](t, r.Want(201, "acme", "POST", r.base+"/processes", `{"line":"cat","stdinOpen":true}`))
		at := r.base + "/processes/"
		for _, q := range []struct {
			status               int
			method, path, body   string
			lastEvent, mustNamed string
		}{
			{409, "POST", r.base + "/processes", `{"line":"x","tag":"t"}`, "", `"tag"`},
			{422, "POST", r.base + "/processes", `{"line":"x","tag":"77"}`, "", `"tag"`},
			{422, "POST", r.base + "/processes", `{"line":"x","tag":"a\nb"}`, "", `"tag"`},
			{422, "POST", r.base + "/processes", `{}`, "", `"args"`},
			{422, "POST", r.base + "/processes", `{"line":"x","tty":{"rows":0,"cols":1}}`, "", "rows"},
			{422, "POST", r.base + "/processes", `{"line":"x","stdout":"y"}`, "", "stdout"},
			{422, "POST", r.base + "/processes", `{"line":"x","user":"nobody"}`, "", `"user"`},
			{403, "POST", r.base + "/processes", `{"line":"x","user":"root"}`, "", `"user"`},
			{403, "POST", r.base + "/processes", `{"line":"x","user":"0"}`, "", `"user"`},
			{403, "POST", r.base + "/exec/stream", `{"line":"x","user":"root"}`, "", `SANDBOX.CAPABILITY_BLOCKED`},
			{422, "GET", at + p.ID + "/stream?from=999999", "", "", `"from"`},
			{422, "GET", at + p.ID + "/stream?from=-2", "", "", `"from"`},
			{422, "GET", at + p.ID + "/stream?from=x", "", "", `"from"`},
			{422, "GET", at + p.ID + "/stream", "", "garbage", "Last-Event-ID"},
			{422, "GET", at + p.ID + "/stream", "", p.ID + ".-1", "Last-Event-ID"},
			{422, "GET", at + p.ID + "/stream", "", p.ID + ".99999999999999999999", "Last-Event-ID"},
			{422, "GET", at + p.ID + "/stream", "", p.ID + ".12345678", `"from"`},
			{422, "GET", at + p.ID + "/stream", "", one.ID + ".0", "another process"},
			{422, "GET", at + p.ID + "/stream?from=0", "", p.ID + ".0", `"from"`},
			{404, "POST", r.base + "/exec/stream", "", "none.0", ""},
			{404, "POST", r.base + "/exec/stream", "", "t.0", ""}, // an event names the id
			{404, "GET", at + "none/stream", "", "", ""},
			{404, "GET", at + "0", "", "", ""},
			{404, "DELETE", at + "99999999999999999999", "", "", ""},
			{422, "POST", at + "t/stdin", `{}`, "", `"data"`},
			{422, "POST", at + "t/stdin", `{"data":"a","dataBase64":"YQ=="}`, "", `"data"`},
			{422, "POST", at + "t/signal", `{"signal":"NONE"}`, "", "signal"},
			{422, "POST", at + "t/signal", `{}`, "", "signal"},
			{422, "POST", at + "t/resize", `{"rows":70000,"cols":1}`, "", "rows"},
		} {
			var header []string
			if q.lastEvent != "" {
				header = []string{api.HeaderLastEvent, q.lastEvent}
			}
			if res := r.Want(q.status, "acme", q.method, q.path, q.body, header...); !strings.Contains(res.Body, q.mustNamed) {
				t.Errorf("%s %s %s: %s", q.method, q.path, q.body, res.Body)
			}
		}
		for _, user := range []string{"user", "sandbox"} {
			got := served.JSON[api.Process](t, r.Want(201, "acme", "POST", r.base+"/processes", `{"line":"true","user":"`+user+`"}`))
			if e := r.follow("acme", "GET", "/processes/"+got.ID+"/stream", "").exit(); e.ExitCode != 0 {
				t.Errorf("%s: %+v", user, e)
			}
		}
	})
}

func TestOthersHaveNoProcesses(t *testing.T) {
	t.Parallel()
	processesInMemory(t, func(t *testing.T, r processesRig) {
		p := served.JSON[api.Process](t, r.Want(201, "acme", "POST", r.base+"/processes", `{"line":"cat","tag":"t","stdinOpen":true}`))
		r.Ready("evil", "s1")
		own := "/v1/sandboxes/" + r.Ready("acme", "s2")
		missing := r.Want(404, "evil", "GET", "/v1/sandboxes/sbx-none/processes", "").Problem(t)
		for _, q := range []struct{ method, path, body string }{
			{"GET", "/processes", ""}, {"POST", "/processes", `{"line":"id"}`}, {"POST", "/exec/stream", `{"line":"id"}`},
			{"GET", "/processes/%s", ""}, {"DELETE", "/processes/%s", ""}, {"GET", "/processes/%s/stream", ""}, {"POST", "/processes/%s/stdin", `{"eof":true}`},
			{"POST", "/processes/%s/signal", `{"signal":"KILL"}`}, {"POST", "/processes/%s/resize", `{"rows":1,"cols":1}`},
		} {
			for _, ref := range []string{p.ID, strconv.Itoa(p.PID), "t"} {
				path := q.path
				if strings.Contains(path, "%s") {
					path = fmt.Sprintf(path, ref)
					r.Want(404, "acme-s2", q.method, own+path, q.body) // by the path of another sandbox
				}
				for _, as := range []string{"evil", "acme-s2"} {
					r.Want(404, as, q.method, r.base+path, q.body)
				}
			}
		}
		got := r.Want(404, "evil", "GET", r.base+"/processes", "").Problem(t)
		if got.Code != missing.Code || strings.ReplaceAll(got.Detail, strings.TrimPrefix(r.base, "/v1/sandboxes/"), "sbx-none") != missing.Detail || got.Hint != missing.Hint {
			t.Errorf("%+v is not %+v", got, missing)
		}
		r.Want(404, "acme-s2", "POST", own+"/exec/stream", "", api.HeaderLastEvent, p.ID+".0")
		if now := served.JSON[api.Process](t, r.Want(200, "acme", "GET", r.base+"/processes/t", "")); now.State != "running" {
			t.Errorf("%+v", now)
		}
	})
}
