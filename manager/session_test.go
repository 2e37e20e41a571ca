package manager_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(`{"agents": {"list": [{"id": "out", "sandbox": {"mode": "off"}}]}}`)
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	s, err := m.Open(ctx, manager.Request{Who: who("whole")})
	must(t, err)
	defer s.Close()
	if s.Place != manager.Sandboxed || !s.Created || s.Browser != nil || s.Workspace == "" || s.Tools.Judge("exec").Verdict != policy.Allow {
		t.Errorf("%+v", s)
	}
	mustRun(t, m, "whole", "echo hello >note")
	f, err := s.Files.Read(ctx, "note", 0, -1)
	must(t, err)
	text, err := io.ReadAll(f)
	f.Close()
	if err != nil || string(text) != "hello\n" {
		t.Errorf("read %q, %v", text, err)
	}

	t.Run("it is held", func(t *testing.T) {
		rows, err := m.Select(ctx, "", manager.Selector{Session: "whole"}, false)
		must(t, err)
		if got := m.Recreate(ctx, rows); len(got.Failed) != 1 {
			t.Errorf("recreate: %+v", got)
		}
		must(t, s.Close())
		must(t, s.Close())
		if got := m.Recreate(ctx, rows); len(got.Removed) != 1 {
			t.Errorf("recreate after Close: %+v", got)
		}
	})
	t.Run("outside of sandboxes", func(t *testing.T) {
		o := who("x")
		o.Agent = "out"
		_, err := m.Open(ctx, manager.Request{Who: o})
		if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
			t.Errorf("a session that nothing may be run for: %v", err)
		}
		u, err := m.Usable(o, nil)
		must(t, err)
		if u.Place != manager.Refused || u.Reason == "" {
			t.Errorf("usable: %+v", u)
		}
	})
	t.Run("there has to be one", func(t *testing.T) {
		_, err := m.Open(ctx, manager.Request{Who: who("none"), MustExist: true})
		if !sandbox.IsNotFound(err) {
			t.Errorf("%v", err)
		}
	})
}

func TestFind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	ctx := context.Background()
	mine := who("s")
	mine.Tenant = "acme"
	p, err := m.Ready(ctx, manager.Request{Who: mine})
	must(t, err)
	if !p.Created || p.Place != manager.Sandboxed {
		t.Errorf("ready: %+v", p)
	}
	if again, err := m.Ready(ctx, manager.Request{Who: mine}); err != nil || again.Created || again.Name != p.Name {
		t.Errorf("again: %+v, %v", again, err)
	}
	if name, err := m.Name(mine, nil); err != nil || name != p.Name {
		t.Errorf("name %q, %v", name, err)
	}
	row, err := m.Find(ctx, "acme", p.Name, "")
	if err != nil || row.Status != sandbox.StatusRunning || row.ConfigMatch == nil || !*row.ConfigMatch {
		t.Errorf("find: %+v, %v", row, err)
	}
	_, other := m.Find(ctx, "other", p.Name, "")
	_, none := m.Recorded(ctx, "other", p.Name+"x", "")
	if !sandbox.IsNotFound(other) || !sandbox.IsNotFound(none) {
		t.Errorf("another tenant: %v, %v", other, none)
	}
	if _, err := m.Recorded(ctx, "acme", "../../etc/passwd", ""); !sandbox.IsNotFound(err) {
		t.Errorf("a name that is none: %v", err)
	}
}

func TestExtend(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(`{"agents": {"defaults": {"sandbox": {"prune": {"idle": "1h", "maxAge": "24h"}}}}}`)
	ctx := context.Background()
	p, err := m.Ready(ctx, manager.Request{Who: who("kept")})
	must(t, err)
	now := r.clock.now()
	for name, until := range map[string]time.Time{"the past": now.Add(-time.Second), "beyond the most": now.Add(25 * time.Hour)} {
		if err := m.Extend(ctx, "", p.Name, "", until); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, m.Extend(ctx, "", p.Name, "", now.Add(3*time.Hour)))
	if err := m.Extend(ctx, "other", p.Name, "", now.Add(4*time.Hour)); !sandbox.IsNotFound(err) {
		t.Errorf("another tenant: %v", err)
	}
	for _, step := range []struct {
		ahead time.Duration
		gone  bool
	}{{2 * time.Hour, false}, {2 * time.Hour, true}} {
		r.clock.advance(step.ahead)
		out, err := m.Prune(ctx, manager.PruneOptions{})
		must(t, err)
		if (len(out.Removed) == 1) != step.gone || step.gone && out.Removed[0].Reason == "" {
			t.Errorf("after %s more: %+v", step.ahead, out)
		}
	}
}
