package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// A person answers with the same word, and notes the questions.
type person struct {
	says  sandbox.Permission
	err   error
	asked chan sandbox.PermissionRequest
}

func (p person) Approve(_ context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error) {
	p.asked <- r
	return p.says, p.err
}

// A reported is a log that says when there is something in it.
type reported struct {
	bytes.Buffer
	once sync.Once
	some chan struct{}
}

func (w *reported) Write(b []byte) (int, error) {
	defer w.once.Do(func() { close(w.some) })
	return w.Buffer.Write(b)
}

// newAsked is a daemon whose commands ask before they run.
func newAsked(t *testing.T) *managerRig {
	ctx, cancel := context.WithTimeout(context.Background(), 3*managerPatience)
	t.Cleanup(cancel)
	fakeManager := manager.NewApprovalQueue(manager.ApprovalQueueOptions{})
	var c *resource.Sessions
	return &managerRig{T: t, ctx: ctx, Rig: served.New(t, served.Options{
		Settings: `{"agents": {"defaults": {"sandbox": {"provider": "local", "commands": {"autoAllowIfSandboxed": false, "strictness": "strict"}}}}}`,
		Change:   func(o *manager.Options) { o.Approver = fakeManager },
		Resources: func(r *served.Rig) []resource.Resource {
			c = resource.NewSessions(r.Manager, stream.Options{})
			return []resource.Resource{c, resource.NewApprovals(fakeManager)}
		},
		Daemon: func(o *server.Options) {
			o.Mounts = append(o.Mounts, server.Mount{Pattern: api.HandlesPath + "/", Handler: c.Handles()})
		},
	})}
}

// TestAsking holds that who runs a command answers what it asks, as far as his
// token lets him, and that others may else.
func TestAsking(t *testing.T) {
	log, said := logrus.New(), &reported{some: make(chan struct{})}
	log.SetOutput(said)
	for _, tt := range []struct {
		name, as string
		says     sandbox.Permission
		ran      bool
	}{
		{"an admin allows", "", sandbox.AllowOnce, true}, {"a tenant allows", "acme", sandbox.AllowSession, true}, {"a tenant denies", "acme", sandbox.Deny, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newAsked(t)
			p := person{says: tt.says, asked: make(chan sandbox.PermissionRequest, 10)}
			var out bytes.Buffer
			cmd := sandbox.Command{Args: []string{"sh", "-c", "echo ran"}, Stdout: &out}
			o, err := r.as(tt.as).Asking(p, log).Run(r.ctx, manager.Request{Who: managerSession("s1"), Command: cmd, Ask: true})
			if (err == nil) != tt.ran || strings.Contains(out.String(), "ran") != tt.ran {
				t.Errorf("%+v, %v, %q", o, err, out.String())
			}
			if q := <-p.asked; q.Session != "s1" || q.Kind != sandbox.ResourceCommand || !strings.Contains(q.Resource, "echo ran") || q.Expires.Before(time.Now()) {
				t.Errorf("asked %+v", q)
			}
		})
	}
	t.Run("somebody else", func(t *testing.T) {
		r := newAsked(t)
		p := person{err: errors.New("there is no terminal"), asked: make(chan sandbox.PermissionRequest, 10)}
		other, err := sdk.NewAPI("unix:"+r.Socket, sdk.APIOptions{Token: r.Secret("acme")})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		go func() {
			q := <-p.asked
			_ = other.AnswerApproval(r.ctx, q.ID, api.AnswerApproval{Permission: "allow_once"}) // or the command does not run
		}()
		if _, err := r.as("acme-s1").Asking(p, log).Run(r.ctx, manager.Request{Who: managerSession("s1"), Command: line("echo ran"), Ask: true}); err != nil {
			t.Error(err)
		}
	})
	t.Run("an agent", func(t *testing.T) {
		r := newAsked(t)
		p := person{says: sandbox.AllowOnce, asked: make(chan sandbox.PermissionRequest, 10)}
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		go func() {
			<-said.some
			time.AfterFunc(time.Second, cancel) // in which it would be asked again
		}()
		if _, err := r.as("acme-s1").Asking(p, log).Run(ctx, manager.Request{Who: managerSession("s1"), Command: line("echo ran"), Ask: true}); err == nil {
			t.Error("it allowed itself what it asked for")
		}
		if len(p.asked) != 1 {
			t.Errorf("asked %d times", len(p.asked))
		}
	})
	if !strings.Contains(said.String(), "the answer does not count") {
		t.Errorf("said %q", said.String())
	}
	r := newAsked(t)
	_, err := r.as("acme").Run(r.ctx, manager.Request{Who: managerSession("s1"), Command: line("echo ran")})
	r.code("nobody is to be asked", err, sandbox.CodeDenyTool)
}

// TestQuestionsOfLiars holds that questions of others, and those without end, are
// not asked, and that what is asked with them has no end but the command's.
func TestQuestionsOfLiars(t *testing.T) {
	var said bytes.Buffer
	log := logrus.New()
	log.SetOutput(&said)
	items := strings.Repeat(`{"id":"x","agent":"main","session":"other"},`, 5000)
	d := liar(t, "application/json", `{"items":[`+items+`{"id":"y","agent":"main","session":"s1","expires":"2999-01-01T00:00:00Z"}]}`)
	p := person{says: sandbox.Deny, asked: make(chan sandbox.PermissionRequest, 1)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := d.Asking(p, log).Run(ctx, manager.Request{Who: managerSession("s1"), Command: line(":"), Ask: true}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("%v", err)
	}
	if len(p.asked) != 0 {
		t.Errorf("asked %+v", <-p.asked)
	}
}
