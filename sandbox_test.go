package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestCodesAndStatuses(t *testing.T) {
	tests := map[sandbox.Code]int{
		sandbox.CodePermissionDeny: 403, sandbox.CodeCapabilityBlocked: 403, sandbox.CodeDenyTool: 403,
		sandbox.CodeNotFound: 404, sandbox.CodeBusy: 409, sandbox.CodeValidation: 422, sandbox.CodeBudgetExceeded: 429,
		sandbox.CodeUnsupported: 501, sandbox.CodeUnavailable: 503, sandbox.CodeTimeout: 504,
		sandbox.CodeExecution: 500, sandbox.CodeInternal: 500, "": 500,
	}
	for code, want := range tests {
		if got := code.HTTPStatus(); got != want {
			t.Errorf("%s is %d, want %d", code, got, want)
		}
	}
}

func TestCodeOf(t *testing.T) {
	inner := sandbox.Errorf(sandbox.CodeBusy, "open", "in use")
	tests := []struct {
		name string
		err  error
		want sandbox.Code
	}{
		{"nil", nil, ""},
		{"foreign", io.EOF, sandbox.CodeInternal},
		{"own", inner, sandbox.CodeBusy},
		{"wrapped", fmt.Errorf("while opening: %w", inner), sandbox.CodeBusy},
		{"joined", errors.Join(io.EOF, inner), sandbox.CodeBusy},
		{"own around own", &sandbox.Error{Code: sandbox.CodeTimeout, Err: inner}, sandbox.CodeTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sandbox.CodeOf(tt.err); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestErrorf(t *testing.T) {
	err := sandbox.Errorf(sandbox.CodeNotFound, "read", "no such file: %w", fs.ErrNotExist)
	if !errors.Is(err, fs.ErrNotExist) || !sandbox.IsNotFound(err) {
		t.Errorf("%v lost its cause or code", err)
	}
	if err.Message != "no such file" {
		t.Errorf("message %q repeats the cause", err.Message)
	}
	if n := strings.Count(err.Error(), fs.ErrNotExist.Error()); n != 1 {
		t.Errorf("%q names the cause %d times", err.Error(), n)
	}
}

func TestErrorIsByCode(t *testing.T) {
	err := fmt.Errorf("outer: %w", &sandbox.Error{Code: sandbox.CodeBusy, Op: "open", Message: "in use"})
	if !errors.Is(err, &sandbox.Error{Code: sandbox.CodeBusy}) {
		t.Error("an error is not of its own code")
	}
	for _, other := range []*sandbox.Error{{Code: sandbox.CodeTimeout}, {Code: sandbox.CodeBusy, Op: "close"}, {Code: sandbox.CodeBusy, Message: "in use"}} {
		if errors.Is(err, other) {
			t.Errorf("it counts as %+v", other)
		}
	}
}

func TestOwnerSame(t *testing.T) {
	o := sandbox.Owner{Instance: "i", Tenant: "t", Agent: "a", Session: "s", Scope: sandbox.ScopeAgent, ScopeKey: "agent:a"}
	change := map[string]struct {
		do   func(*sandbox.Owner)
		same bool
	}{
		"session":   {func(o *sandbox.Owner) { o.Session = "other" }, true},
		"agent":     {func(o *sandbox.Owner) { o.Agent = "other" }, true},
		"instance":  {func(o *sandbox.Owner) { o.Instance = "other" }, false},
		"tenant":    {func(o *sandbox.Owner) { o.Tenant = "other" }, false},
		"scope":     {func(o *sandbox.Owner) { o.Scope = sandbox.ScopeSession }, false},
		"scope key": {func(o *sandbox.Owner) { o.ScopeKey = "other" }, false},
	}
	for name, c := range change {
		t.Run(name, func(t *testing.T) {
			p := o
			c.do(&p)
			if got := o.Same(p); got != c.same {
				t.Errorf("got %v", got)
			}
		})
	}
}

// In session scope the agent is part of whose a sandbox is.
func TestSessionsOfAgentsAreApart(t *testing.T) {
	o := sandbox.Owner{Instance: "i", Agent: "main", Session: "s", Scope: sandbox.ScopeSession, ScopeKey: "s"}
	p := o
	if p.Agent = "other"; o.Same(p) {
		t.Error("a session that another agent has made under this key counts as the agent's own")
	}
	seen := map[string][2]string{}
	for _, agent := range []string{"main", "a", "b", "agent", "session"} {
		for _, session := range []string{"s", "main", "agent:", "agent:a", "agent:a:session:s", "agent:main:session:s", ":session:", ":session:s", "agent:a:session:agent:a:session:s", "shared"} {
			key := sandbox.SessionKey(agent, session)
			if other, ok := seen[key]; ok {
				t.Errorf("%q is the key of session %q of agent %q and of %q", key, session, agent, other)
			}
			seen[key] = [2]string{agent, session}
			if a, s := sandbox.SplitSessionKey(key); a != agent || s != session {
				t.Errorf("%q is read as session %q of agent %q", key, s, a)
			}
		}
	}
	if got := sandbox.SessionKey("main", "chat-42"); got != "chat-42" || sandbox.SessionKey("", "chat-42") != got {
		t.Errorf("the key of a session of the default agent is %q", got)
	}
}

func ExampleError() {
	err := &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "load settings", Field: "agents.defaults.sandbox.docker.memory",
		Message: `"2q" is not a size`, Hint: `write it like "512m" or "2g"`,
	}
	fmt.Println(err)
	// Output: SCHEMA.VALIDATION_FAILED: load settings: agents.defaults.sandbox.docker.memory: "2q" is not a size (write it like "512m" or "2g")
}
