package manager_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
)

// A planner is a sandbox in memory that tells how it would enforce a Spec.
type planner struct {
	sandbox.Provider
	plan provider.Plan
	err  error
}

func (p planner) Plan(context.Context, sandbox.Spec) (provider.Plan, error) { return p.plan, p.err }

func explain(t *testing.T, c *machine, q manager.Questions) manager.Explanation {
	t.Helper()
	e, err := c.manager(local, "").Explain(context.Background(), config.Who{Agent: "main", Session: "s"}, nil, q)
	must(t, err)
	return e
}

// TestExplainTellsThePlan holds that layers, steps and notes of a provider
// come through, and that paths are judged by it.
func TestExplainTellsThePlan(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	c.local = planner{Provider: c.local, plan: provider.Plan{
		Layers: []provider.Layer{{Name: "landlock", On: false, Detail: "switched off"}},
		Steps:  []provider.Step{{Does: "hidden", Target: "/workspace/.env", Rule: "**/.env"}},
		Notes:  []string{"docker.memory is not enforced"},
		Judge: func(op sandbox.Operation, inside string) sandbox.Verdict {
			switch {
			case strings.HasSuffix(inside, "/.env"):
				return sandbox.Verdict{Rule: "**/.env", Builtin: true, HostPath: "/home/me/.env"}
			case op == sandbox.OpWrite:
				return sandbox.Verdict{Rule: "nothing shows it", HostPath: inside}
			}
			return sandbox.Verdict{Allowed: true, Rule: "/usr", HostPath: inside}
		},
	}}
	tests := []struct {
		path string
		want []manager.Verdict
	}{
		{".env", []manager.Verdict{
			{Kind: "path", Operation: "read", Subject: "/workspace/.env", Verdict: "deny", Reason: "**/.env; nothing can grant it (on the host: /home/me/.env)"},
			{Kind: "path", Operation: "write", Subject: "/workspace/.env", Verdict: "deny", Reason: "**/.env; nothing can grant it (on the host: /home/me/.env)"},
		}},
		{"/usr/bin/env", []manager.Verdict{
			{Kind: "path", Operation: "read", Subject: "/usr/bin/env", Verdict: "allow", Reason: "/usr"},
			{Kind: "path", Operation: "write", Subject: "/usr/bin/env", Verdict: "deny", Reason: "nothing shows it; it could be granted"},
		}},
	}
	for _, tt := range tests {
		e := explain(t, c, manager.Questions{Path: tt.path, Host: "example.com"})
		if len(e.Layers) != 1 || len(e.Wall) != 1 || len(e.Notes) != 1 || len(e.Problems) != 0 {
			t.Errorf("%+v", e)
		}
		if len(e.Verdicts) < 4 || !cmp.Equal(e.Verdicts[:2], tt.want) || e.Verdicts[2].Kind != "command naming it" {
			t.Errorf("of %s: %+v", tt.path, e.Verdicts)
		}
		if last := e.Verdicts[len(e.Verdicts)-1]; last.Kind != "host" || last.Verdict != "deny" || last.Reason == "" {
			t.Errorf("of the host: %+v", last)
		}
	}
}

// TestExplainWithoutAPlan holds that the policy answers alone when the provider
// cannot tell, and says that it is not all.
func TestExplainWithoutAPlan(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	walls := []sandbox.Provider{c.local, planner{Provider: c.local, err: errors.New("the workspace is gone")}}
	for i, w := range walls {
		c.local = w
		e := explain(t, c, manager.Questions{Path: "/etc"})
		if len(e.Verdicts) != 2 || e.Verdicts[0].Verdict != "allow" || !strings.Contains(e.Verdicts[0].Reason, "mounts") || e.Verdicts[1].Verdict != "ask" || len(e.Problems) != i {
			t.Errorf("%+v, problems %v", e.Verdicts, e.Problems)
		}
	}
}

// TestExplainNamesClosedAllows holds that explain lists an allow which a deny
// closes among the settings without effect, with the rule that closes it.
func TestExplainNamesClosedAllows(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	settings := `{"agents": {"defaults": {"sandbox": {"provider": "local", "filesystem": {"denyRead": ["/srv/a"], "allowRead": ["/srv/a", "/srv/a/b", "/srv/c"]}}}}}`
	e, err := c.manager(settings, "").Explain(t.Context(), config.Who{Agent: "main", Session: "s"}, nil, manager.Questions{})
	must(t, err)
	if len(e.NoEffect) != 1 || !strings.HasSuffix(e.NoEffect[0].Path, "filesystem.allowRead[0]") || e.NoEffect[0].Value != `"/srv/a"` || !strings.Contains(e.NoEffect[0].Note, ": /srv/a;") {
		t.Errorf("without effect: %+v; want allowRead[0] with the rule /srv/a", e.NoEffect)
	}
}
