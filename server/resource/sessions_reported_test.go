package resource

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// Only admins receive the engine's error text, and every caller can test for a
// file that does not exist.
func TestCausesAreForAdmins(t *testing.T) {
	t.Parallel()
	const private = "/run/engine.sock"
	failed := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "inspect", Message: "the engine does not answer", Err: errors.New("dial " + private)}
	missing := &sandbox.Error{Code: sandbox.CodeNotFound, Op: "read", Message: "/workspace/x", Err: fmt.Errorf("%s: %w", private, syscall.ENOENT)}
	problem := func(err error) api.Problem {
		var e *sandbox.Error
		errors.As(err, &e)
		return api.Problem{Code: e.Code, Detail: e.Message, RequestID: "r-1"}
	}
	for _, tt := range []struct {
		role  token.Role
		tells bool
	}{{token.Session, false}, {token.Tenant, false}, {token.Admin, true}} {
		c := &Call{Caller: auth.Caller{Role: tt.role}, Problem: problem}
		for _, err := range []error{failed, missing} {
			text, _ := json.Marshal(api.Of(reportedTo(c, err)))
			if strings.Contains(string(text), private) != tt.tells {
				t.Errorf("%s is told %s", tt.role, text)
			}
		}
		var d api.Document
		text, _ := json.Marshal(api.Of(reportedTo(c, missing)))
		if err := json.Unmarshal(text, &d); err != nil || !errors.Is(d.Err(), fs.ErrNotExist) || d.Code != sandbox.CodeNotFound {
			t.Errorf("a file that is not there is %s for %s", text, tt.role)
		}
	}
	if text, _ := json.Marshal(api.Of(reportedTo(nil, failed))); strings.Contains(string(text), private) {
		t.Errorf("nobody is told %s", text)
	}
	if reportedTo(nil, nil) != nil {
		t.Error("nothing that went wrong is an error")
	}
}

// One tenant cannot take all the leases on files from others.
func TestHandleBelongsToOneTenant(t *testing.T) {
	t.Parallel()
	s := NewSessions(nil, stream.Options{})
	for range maxHandlesTo {
		if _, err := s.register(&handle{owner: owner{who: config.Who{Tenant: "greedy"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.register(&handle{owner: owner{who: config.Who{Tenant: "greedy"}, token: "another"}}); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("one more is %v", err)
	}
	if _, err := s.register(&handle{owner: owner{who: config.Who{Tenant: "other"}}}); err != nil {
		t.Errorf("another tenant is refused: %v", err)
	}
}
