package manager_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A front answers as a test says.
type front func(ctx context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error)

func (f front) Approve(ctx context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error) {
	return f(ctx, r)
}

func request(tenant, resource string) sandbox.PermissionRequest {
	return sandbox.PermissionRequest{
		Tenant: tenant, Agent: "main", Session: "s", Sandbox: "sbx-s", Kind: sandbox.ResourcePath,
		Operation: sandbox.OpWrite, Resource: resource, Command: []string{"touch", resource},
	}
}

func TestAnswers(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name string
		say  sandbox.Permission
		err  error
		want sandbox.Permission
		fail bool
	}{
		{"once", sandbox.AllowOnce, nil, sandbox.AllowOnce, false},
		{"session", sandbox.AllowSession, nil, sandbox.AllowSession, false},
		{"permanent", sandbox.AllowPermanent, nil, sandbox.AllowPermanent, false},
		{"deny", sandbox.Deny, nil, sandbox.Deny, false},
		{"an error beside an answer", sandbox.AllowSession, broken, sandbox.Deny, true},
		{"none of the four", "yes", nil, sandbox.Deny, true},
		{"nothing", "", nil, sandbox.Deny, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var seen sandbox.PermissionRequest
			d := manager.NewApprovalQueue(manager.ApprovalQueueOptions{Front: front(func(_ context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error) {
				seen = r
				return tt.say, tt.err
			})})
			got, err := d.Approve(context.Background(), request("a", "/x"))
			if got != tt.want || (err != nil) != tt.fail {
				t.Errorf("got %q, %v", got, err)
			}
			if seen.ID == "" || seen.Expires.IsZero() || seen.Resource != "/x" {
				t.Errorf("the front saw %+v", seen)
			}
			if p := d.Pending("a"); len(p) != 0 {
				t.Errorf("still waiting: %+v", p)
			}
		})
	}
}

// TestEqualQuestionsAreOne holds that equal requests ask once, that others do
// not share the answer, and that the first caller's going ends nothing.
func TestEqualQuestionsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := manager.NewApprovalQueue(manager.ApprovalQueueOptions{})
		first, leave := context.WithCancel(context.Background())
		var mu sync.Mutex
		got := map[string]int{}
		ask := func(ctx context.Context, r sandbox.PermissionRequest, key string) {
			p, _ := d.Approve(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			got[key+" "+string(p)]++
		}
		other := request("a", "/x")
		other.Command = []string{"rm", "/x"}
		go ask(first, request("a", "/x"), "first")
		synctest.Wait()
		for range 5 {
			go ask(context.Background(), request("a", "/x"), "same")
		}
		go ask(context.Background(), other, "other command")
		go ask(context.Background(), request("b", "/x"), "other tenant")
		synctest.Wait()
		leave()
		synctest.Wait()
		waiting := d.Pending("a")
		if len(waiting) != 2 || len(d.Pending("b")) != 1 {
			t.Fatalf("waiting: %+v", waiting)
		}
		for _, r := range waiting {
			p := sandbox.AllowOnce
			if r.Command[0] == "rm" {
				p = sandbox.Deny
			}
			if err := d.Answer("b", r.ID, p); !sandbox.IsNotFound(err) {
				t.Errorf("another tenant may answer: %v", err)
			}
			if err := d.Answer("a", r.ID, "perhaps"); sandbox.CodeOf(err) != sandbox.CodeValidation {
				t.Errorf("perhaps: %v", err)
			}
			if err := d.Answer("a", r.ID, p); err != nil {
				t.Error(err)
			}
			if err := d.Answer("a", r.ID, p); !sandbox.IsNotFound(err) {
				t.Errorf("answered twice: %v", err)
			}
		}
		synctest.Wait()
		want := map[string]int{"first deny": 1, "same allow_once": 5, "other command deny": 1}
		mu.Lock()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		mu.Unlock()
		time.Sleep(6 * time.Minute) // the other tenant's expires
		synctest.Wait()
		if mu.Lock(); got["other tenant deny"] != 1 {
			t.Errorf("got %v", got)
		}
		mu.Unlock()
	})
}

// TestExpiry checks that a question ends at its expiry, never later than the
// queue's own bound, and when its last caller leaves.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := front(func(ctx context.Context, _ sandbox.PermissionRequest) (sandbox.Permission, error) {
			<-ctx.Done()
			return sandbox.AllowSession, nil // too late
		})
		d := manager.NewApprovalQueue(manager.ApprovalQueueOptions{Front: silent, Within: time.Minute})
		for _, tt := range []struct {
			expires time.Duration
			want    time.Duration
		}{{0, time.Minute}, {10 * time.Second, 10 * time.Second}, {time.Hour, time.Minute}, {-time.Second, 0}} {
			r := request("a", "/x")
			if tt.expires != 0 {
				r.Expires = time.Now().Add(tt.expires)
			}
			start := time.Now()
			p, err := d.Approve(context.Background(), r)
			if took := time.Since(start); p != sandbox.Deny || sandbox.CodeOf(err) != sandbox.CodeTimeout || took != tt.want {
				t.Errorf("%s: %q, %v after %s", tt.expires, p, err, took)
			}
		}
		ctx, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		if p, err := d.Approve(ctx, request("a", "/x")); p != sandbox.Deny || sandbox.CodeOf(err) != sandbox.CodeTimeout {
			t.Errorf("%q, %v", p, err)
		}
		if w := d.Pending("a"); len(w) != 0 {
			t.Errorf("still waiting: %+v", w)
		}
		synctest.Wait()
	})
}

// TestBudget holds that one tenant's agents cannot flood a person, and that
// others still get through.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		d := manager.NewApprovalQueue(manager.ApprovalQueueOptions{Burst: 3, PerMinute: 2, Front: front(func(context.Context, sandbox.PermissionRequest) (sandbox.Permission, error) {
			asked++
			return sandbox.Deny, nil
		})})
		try := func(tenant string) error {
			_, err := d.Approve(context.Background(), request(tenant, fmt.Sprint("/", asked)))
			return err
		}
		for range 3 {
			if err := try("a"); err != nil {
				t.Fatal(err)
			}
		}
		if err := try("a"); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded || asked != 3 {
			t.Errorf("%v, %d asked", err, asked)
		}
		if err := try("b"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		time.Sleep(time.Minute)
		for i := range 3 {
			if err := try("a"); (err == nil) != (i < 2) {
				t.Errorf("a minute later, question %d: %v", i, err)
			}
		}
	})
}

// TestTooManyWaiting holds the bound on questions that wait.
func TestTooManyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := manager.NewApprovalQueue(manager.ApprovalQueueOptions{Waiting: 2})
		ctx, done := context.WithCancel(context.Background())
		for i := range 2 {
			go d.Approve(ctx, request("a", fmt.Sprint("/", i)))
		}
		synctest.Wait()
		if _, err := d.Approve(ctx, request("a", "/2")); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
			t.Errorf("got %v", err)
		}
		done()
		synctest.Wait()
	})
}
