package resource_test

import (
	"context"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// TestMain lets more tests run at a time than there are processors: most of them
// wait for commands in sandboxes.
func TestMain(m *testing.M) {
	testenv.AtOnce(4)
	testenv.Main(m)
}

type approvalsRig struct {
	*served.Rig
	queue *manager.ApprovalQueue
}

func approvalsNewRig(t *testing.T) approvalsRig {
	r := approvalsRig{queue: manager.NewApprovalQueue(manager.ApprovalQueueOptions{})}
	r.Rig = served.New(t, served.Options{Resources: func(*served.Rig) []resource.Resource { return []resource.Resource{resource.NewApprovals(r.queue)} }})
	return r
}

// ask puts a question and returns a channel for its answer.
func (r approvalsRig) ask(tenant, session, host string) <-chan sandbox.Permission {
	answer := make(chan sandbox.Permission, 1)
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	r.T.Cleanup(done)
	go func() {
		p, _ := r.queue.Approve(ctx, sandbox.PermissionRequest{Tenant: tenant, Agent: "main", Session: session, Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: host, Command: []string{"curl", host}})
		answer <- p
	}()
	return answer
}

func (r approvalsRig) list(as, query string) []api.Approval {
	r.T.Helper()
	return served.JSON[api.ApprovalList](r.T, r.Want(200, as, "GET", "/v1/approvals"+query, "")).Items
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	r := approvalsNewRig(t)
	answer := r.ask("acme", "s1", "one.test:443")
	questions := r.list("acme", "?waitSeconds=30")
	if len(questions) != 1 || questions[0].Resource != "one.test:443" || questions[0].Expires.Before(time.Now()) {
		t.Fatalf("%+v", questions)
	}
	id := questions[0].ID
	for _, tt := range []struct {
		as, body string
		status   int
	}{
		{"evil", `{"permission":"allow_once"}`, 404}, {"acme-s1", `{"permission":"allow_once"}`, 403}, {"acme-s2", `{"permission":"allow_once"}`, 403},
		{"acme", `{"permission":"allow_permanent"}`, 403}, {"acme", `{"permission":"yes"}`, 422}, {"acme", `{}`, 422}, {"nobody", `{"permission":"deny"}`, 401},
	} {
		r.Want(tt.status, tt.as, "POST", "/v1/approvals/"+id, tt.body)
	}
	if n := len(r.list("evil", "")) + len(r.list("acme-s2", "")); n != 0 {
		t.Errorf("others see %d", n)
	}
	if n := len(r.list("acme-s1", "")); n != 1 {
		t.Errorf("the session sees %d", n)
	}
	r.Want(204, "acme", "POST", "/v1/approvals/"+id, `{"permission":"allow_session"}`)
	if p := <-answer; p != sandbox.AllowSession {
		t.Error(p)
	}
	r.Want(404, "acme", "POST", "/v1/approvals/"+id, `{"permission":"deny"}`)
	answer = r.ask("acme", "s1", "two.test:443")
	waiting := served.JSON[api.ApprovalList](t, r.Want(200, "root", "GET", "/v1/approvals?waitSeconds=30", "", "Sandbox-Tenant", "acme")).Items
	r.Want(204, "root", "POST", "/v1/approvals/"+waiting[0].ID, `{"permission":"allow_permanent"}`, "Sandbox-Tenant", "acme")
	if p := <-answer; p != sandbox.AllowPermanent {
		t.Error(p)
	}
}

// TestWait holds that a waiting request is answered with the next question, and
// not with one that the caller knows.
func TestWait(t *testing.T) {
	r := approvalsNewRig(t)
	first := r.ask("acme", "s1", "one.test:443")
	known := r.list("acme", "?waitSeconds=30")[0].ID
	begun := time.Now()
	if got := r.list("acme", "?waitSeconds=1&known="+known); len(got) != 1 || time.Since(begun) < time.Second {
		t.Errorf("%d after %s", len(got), time.Since(begun))
	}
	heard := make(chan int, 1)
	go func() { heard <- len(r.list("acme", "?waitSeconds=30&known="+known)) }()
	second := r.ask("acme", "s2", "two.test:443")
	if n := <-heard; n != 2 {
		t.Errorf("%d questions", n)
	}
	for _, q := range r.list("acme", "") {
		r.Want(204, "acme", "POST", "/v1/approvals/"+q.ID, `{"permission":"deny"}`)
	}
	if a, b := <-first, <-second; a != sandbox.Deny || b != sandbox.Deny {
		t.Error(a, b)
	}
	r.Want(422, "acme", "GET", "/v1/approvals?waitSeconds=1000", "")
}

// TestFilesOfTheHost holds that a tenant can neither allow itself files of the
// daemon's machine, nor learn their paths there, and can still deny them.
func TestFilesOfTheHost(t *testing.T) {
	t.Parallel()
	r := approvalsNewRig(t)
	answer := make(chan sandbox.Permission, 1)
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	go func() {
		p, _ := r.queue.Approve(ctx, sandbox.PermissionRequest{Tenant: "acme", Agent: "main", Session: "s1", Kind: sandbox.ResourcePath, Operation: sandbox.OpRead, Resource: "/srv/x", Inside: "/mnt/x", Command: []string{"cat", "/mnt/x"}})
		answer <- p
	}()
	q := r.list("acme", "?waitSeconds=30")[0]
	if seen := r.list("acme-s1", "")[0]; q.Resource != "/mnt/x" || seen.Resource != "/mnt/x" {
		t.Errorf("a tenant is told of %s, a session of it of %s", q.Resource, seen.Resource)
	}
	all := served.JSON[api.ApprovalList](t, r.Want(200, "root", "GET", "/v1/approvals", "", "Sandbox-Tenant", "acme")).Items
	if len(all) != 1 || all[0].Resource != "/srv/x" {
		t.Errorf("an admin is told of %+v", all)
	}
	at := "/v1/approvals/" + q.ID
	for _, p := range []string{"allow_once", "allow_session"} {
		r.Want(403, "acme", "POST", at, `{"permission":"`+p+`"}`)
	}
	r.Want(204, "acme", "POST", at, `{"permission":"deny"}`)
	if p := <-answer; p != sandbox.Deny {
		t.Error(p)
	}
}
