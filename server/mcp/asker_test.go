package mcp_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	servermcp "github.com/bulkhead-dev/sandbox/server/mcp"
)

// TestPermissionsAreAskedFor holds the result of a stopped command for each
// answer of the person at the client.
func TestPermissionsAreAskedFor(t *testing.T) {
	answer := func(action, permission string) func() (*mcp.ElicitResult, error) {
		return func() (*mcp.ElicitResult, error) {
			r := &mcp.ElicitResult{Action: action}
			if permission != "" {
				r.Content = map[string]any{"permission": permission}
			}
			return r, nil
		}
	}
	for _, tt := range []struct {
		name    string
		answer  func() (*mcp.ElicitResult, error)
		allowed bool
		again   bool // without a question the second time
	}{
		{"once", answer("accept", "allow_once"), true, false},
		{"for the session", answer("accept", "allow_session"), true, true},
		{"denied", answer("accept", "deny"), false, false},
		{"declined", answer("decline", ""), false, false},
		{"declined with an answer", answer("decline", "allow_session"), false, false},
		{"closed", answer("cancel", ""), false, false},
		{"nonsense", answer("accept", "yes"), false, false},
		{"nothing", answer("accept", ""), false, false},
		{"an error", func() (*mcp.ElicitResult, error) { return nil, errors.New("no") }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, settingsWith(""))
			var asked []*mcp.ElicitParams
			c := r.connect(bound("s"), &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked = append(asked, q.Params)
				return tt.answer()
			}})
			try := func() *mcp.CallToolResult {
				return call(t, c, "exec", `{"command":"reach `+r.host+`/x"}`)
			}
			res := try()
			if res.IsError == tt.allowed || strings.Contains(text(res), "done") != tt.allowed {
				t.Errorf("%q", text(res))
			}
			if len(asked) != 1 || !strings.Contains(asked[0].Message, r.host) || !strings.Contains(asked[0].Message, "write") {
				t.Fatalf("%+v", asked)
			}
			properties := asked[0].RequestedSchema.(map[string]any)["properties"].(map[string]any)
			if enum := properties["permission"].(map[string]any)["enum"]; !slices.Equal(enum.([]any), []any{"allow_once", "allow_session", "allow_permanent", "deny"}) {
				t.Errorf("%v", enum)
			}
			try()
			if (len(asked) == 1) != tt.again {
				t.Errorf("asked %d times", len(asked))
			}
		})
	}
}

// TestWhatClientsMayAnswer holds that a client allows no more than its binding
// says, whatever it answers, and that one that may allow nothing is not asked.
func TestWhatClientsMayAnswer(t *testing.T) {
	for _, tt := range []struct {
		name    string
		may     servermcp.Answers
		answer  string
		asked   int
		allowed bool
	}{
		{"nothing", servermcp.AnswersNothing, "allow_once", 0, false},
		{"for now, a file of the host", servermcp.AnswersForNow, "allow_once", 0, false},
		{"for good", servermcp.AnswersForGood, "allow_once", 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, settingsWith(""))
			b := bound("s")
			b.Answers = tt.may
			asked := 0
			c := r.connect(b, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked++
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"permission": tt.answer}}, nil
			}})
			res := call(t, c, "exec", `{"command":"reach `+r.host+`/x"}`)
			if asked != tt.asked || res.IsError == tt.allowed {
				t.Errorf("asked %d times, %q", asked, text(res))
			}
		})
	}
}

// TestNobodyCanBeAsked holds that a question to a client without elicitation is
// denied, with that reason.
func TestNobodyCanBeAsked(t *testing.T) {
	r := newRig(t, settingsWith(""))
	c := r.connect(bound("s"), nil)
	other := r.connect(bound("other"), &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		t.Error("the client of another session was asked")
		return nil, errors.New("no")
	}})
	call(t, other, "sandbox_list", `{}`)
	res := call(t, c, "exec", `{"command":"reach `+r.host+`/x"}`)
	if !res.IsError || !strings.Contains(text(res), "elicitation") {
		t.Errorf("%q", text(res))
	}
}

// TestAskerAlone holds the answers of an asker without clients.
func TestAskerAlone(t *testing.T) {
	ask := sandbox.PermissionRequest{Tenant: "acme", Agent: "main", Session: "s", Kind: sandbox.ResourcePath, Resource: "/x"}
	p, err := servermcp.NewAsker(false).Approve(deadline(t), ask)
	if p != sandbox.Deny || sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("%s, %v", p, err)
	}
	ctx, done := context.WithCancel(deadline(t))
	answered := make(chan error, 1)
	go func() {
		p, err := servermcp.NewAsker(true).Approve(ctx, ask)
		if p != sandbox.Deny {
			err = errors.New("it is allowed")
		}
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("it has decided, although others may answer: %v", err)
	default:
	}
	done()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTenantsAreOfferedNothingForGood holds which answers a client is offered
// that may allow for now only, and the result of an answer that was not offered.
func TestTenantsAreOfferedNothingForGood(t *testing.T) {
	var asker *servermcp.Asker
	r := newRig(t, settingsWith(""), func(o *servermcp.Options) { asker = o.Asker })
	b := bound("s")
	b.Answers = servermcp.AnswersForNow
	asked, answer := 0, ""
	c := r.connect(b, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked++
		properties := q.Params.RequestedSchema.(map[string]any)["properties"].(map[string]any)
		if enum := properties["permission"].(map[string]any)["enum"]; !slices.Equal(enum.([]any), []any{"allow_once", "allow_session", "deny"}) {
			t.Errorf("%v", enum)
		}
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"permission": answer}}, nil
	}})
	call(t, c, "sandbox_list", `{}`) // it has begun
	for text, want := range map[string]sandbox.Permission{"allow_once": sandbox.AllowOnce, "allow_permanent": sandbox.Deny} {
		answer = text
		if p, _ := asker.Approve(deadline(t), sandbox.PermissionRequest{Tenant: b.Who.Tenant, Agent: b.Who.Agent, Session: b.Who.Session, Kind: sandbox.ResourceNetwork, Resource: "one.test:443"}); p != want {
			t.Errorf("%s comes to %s", text, p)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}
