package hardening_test

import (
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

func TestPrivateName(t *testing.T) {
	for in, want := range map[string]string{
		"sbx-a-0123456789abcdef":                                 "sbx-a-0123456789abcdef-private",
		strings.Repeat("x", 55):                                  strings.Repeat("x", 55) + "-private",
		"p2345-" + strings.Repeat("x", 40) + "-0123456789abcdef": strings.Repeat("x", 38) + "-0123456789abcdef-private",
		strings.Repeat("x", 7) + "-" + strings.Repeat("y", 55):   strings.Repeat("y", 55) + "-private",
	} {
		got := hardening.PrivateName(in)
		if got != want || len(got) > hardening.MaxViewName {
			t.Errorf("%s: %s; want %s", in, got, want)
		}
	}
}

// TestCheckPrivateView holds that a private view is mounted from its own place
// alone, that the folder behind it is judged, and that no other mount lets the
// sandbox write to that folder.
func TestCheckPrivateView(t *testing.T) {
	const place = "/srv/state/workspaces/w-private"
	with := func(m sandbox.Mount, more ...sandbox.Mount) []sandbox.Mount {
		m.Target, m.Role = sandbox.WorkspaceDir, sandbox.RoleWorkspace
		return append([]sandbox.Mount{m}, more...)
	}
	bind := func(source string, readOnly bool) sandbox.Mount {
		return sandbox.Mount{Source: source, Target: "/x", ReadOnly: readOnly, Role: sandbox.RoleBind}
	}
	for name, c := range map[string]struct {
		mounts []sandbox.Mount
		want   string // part of the refusal; empty is allowed
	}{
		"as we make it":         {with(sandbox.Mount{Source: place, Base: "/data/project"}), ""},
		"below root's home":     {with(sandbox.Mount{Source: place, Base: "/root/project"}), ""},
		"read-only bind in it":  {with(sandbox.Mount{Source: place, Base: "/data/project"}, bind("/data/project/sub", true)), ""},
		"another's place":       {with(sandbox.Mount{Source: "/srv/state/workspaces/other-private", Base: "/data/project"}), "other sandboxes"},
		"the scratch workspace": {with(sandbox.Mount{Source: "/srv/state/workspaces/w", Base: "/data/project"}), "not the place"},
		"elsewhere":             {with(sandbox.Mount{Source: "/data/view", Base: "/data/project"}), "not the place"},
		"not said of what":      {with(sandbox.Mount{Source: place}), "not said of which folder"},
		"of credentials":        {with(sandbox.Mount{Source: place, Base: "/root/.ssh"}), "credentials"},
		"of the state":          {with(sandbox.Mount{Source: place, Base: "/srv/state/egress"}), "runs the sandboxes"},
		"of another's":          {with(sandbox.Mount{Source: place, Base: "/srv/state/workspaces/other"}), "other sandboxes"},
		"of its own workspace":  {with(sandbox.Mount{Source: place, Base: "/srv/state/workspaces/w"}), "other sandboxes"},
		"of all":                {with(sandbox.Mount{Source: place, Base: "/"}), "root of the host"},
		"of a link":             {with(sandbox.Mount{Source: place, Base: "/data/swapped"}), "leads to"},
		"writable bind of it":   {with(sandbox.Mount{Source: place, Base: "/data/project"}, bind("/data/project", false)), "writable beside"},
		"writable bind in it":   {with(sandbox.Mount{Source: place, Base: "/data/project"}, bind("/data/project/sub", false)), "writable beside"},
		"writable bind around":  {with(sandbox.Mount{Source: place, Base: "/data/project/sub"}, bind("/data/project", false)), "sandbox can write"},
		"a bind with a base":    {append(goodSpec().Mounts[3:4], sandbox.Mount{Source: place, Base: "/data/project", Target: "/x", Role: sandbox.RoleBind}), "not the place"},
	} {
		s, w := goodSpec(), world()
		s.Mounts = append(s.Mounts[:3:3], c.mounts...)
		w.Canonical = func(p string) (string, error) {
			if p == "/data/swapped" {
				return "/data/secret", nil
			}
			return p, nil
		}
		err := hardening.Check(s, w)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}
