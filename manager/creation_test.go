package manager_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// create creates the sandbox of a session.
func create(m *manager.Manager, session string, c config.Creation) (manager.Prepared, error) {
	return m.Create(context.Background(), manager.Request{Who: who(session)}, c)
}

// refusedAt fails the test unless err has the code and the field.
func refusedAt(t testing.TB, err error, code sandbox.Code, field string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || e.Field != field {
		t.Errorf("%v is no %s of %q", err, code, field)
	}
}

// TestCreate holds that what a sandbox was created with holds for its commands, in
// this program and in others, until it is removed; that it is no label of the
// container; and that a request with other fields is refused.
func TestCreate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const settings = `{"daemon": {"create": {"env": ["APP_*"], "maxMemory": "3g"}}}`
	m := r.manager(settings)
	ctx := context.Background()
	c := config.Creation{
		Env: map[string]string{"APP_MODE": "x y"}, Resources: &config.Resources{Memory: 3 << 30, Processes: 100, CPUs: 0.5},
		Labels: map[string]string{"sandbox.instance": "other", "team": "red"}, Metadata: map[string]string{"user": "größe"},
	}
	p, err := create(m, "s", c)
	must(t, err)
	if !p.Created {
		t.Error("it was there")
	}
	check := func(m *manager.Manager) {
		t.Helper()
		out, o := mustRun(t, m, "s", "echo $APP_MODE")
		if strings.TrimSpace(out) != "x y" || o.Created {
			t.Errorf("%q, created %t", out, o.Created)
		}
		got := row(t, m, "s")
		if s := m.Measure(ctx, got); s.MemoryLimit != 3<<30 || s.PIDsLimit != 100 {
			t.Errorf("%+v", s)
		}
		if got.Labels["team"] != "red" || got.Metadata["user"] != "größe" || got.ConfigMatch == nil || !*got.ConfigMatch {
			t.Errorf("%+v", got)
		}
	}
	check(m)
	other := r.manager(settings)
	check(other)
	if p, err = create(other, "s", c); err != nil || p.Created {
		t.Errorf("again: %+v, %v", p, err)
	}
	differs := c
	differs.Env = map[string]string{"APP_MODE": "z"}
	_, err = create(m, "s", differs)
	refusedAt(t, err, sandbox.CodeBusy, "env")
	info, err := r.engine.Inspect(ctx, p.Name)
	must(t, err)
	if info.Owner.Instance != r.state.Instance() {
		t.Errorf("a label changed the owner: %+v", info.Owner)
	}
	for want, labels := range map[int]map[string]string{1: {"team": "red"}, 0: {"team": "red", "sandbox.instance": ""}} {
		l, err := m.List(ctx, manager.ListOptions{Labels: labels})
		if err != nil || len(l.Containers) != want {
			t.Errorf("%v: %d, %v", labels, len(l.Containers), err)
		}
	}
	// A sandbox that was made without fields has none, and one that was removed none any more.
	mustRun(t, m, "plain", "true")
	_, err = create(m, "plain", config.Creation{Labels: map[string]string{"a": "b"}})
	refusedAt(t, err, sandbox.CodeBusy, "labels")
	must(t, m.Remove(ctx, row(t, m, "s"), manager.RemoveOptions{Force: true}))
	if out, o := mustRun(t, m, "s", "echo ${APP_MODE-none}"); strings.TrimSpace(out) != "none" || !o.Created {
		t.Errorf("after its removal: %q, %+v", out, o)
	}
}

// TestCreateRefused holds that nothing is made, and nothing kept, of a request that
// asks for more than it may, and that settings that are lowered afterwards close the
// sandbox.
func TestCreateRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(`{}`)
	for field, c := range map[string]config.Creation{
		"image": {Image: "debian:latest"}, "env.LD_PRELOAD": {Env: map[string]string{"LD_PRELOAD": "/x.so"}}, "resources.memory": {Resources: &config.Resources{Memory: 1 << 40}},
		"network.allowedDomains[0]": {Network: &config.NetworkRules{AllowedDomains: &[]string{"example.com"}}},
	} {
		_, err := create(m, "s", c)
		refusedAt(t, err, sandbox.CodeCapabilityBlocked, field)
	}
	if l, err := m.List(context.Background(), manager.ListOptions{}); err != nil || len(l.Containers) != 0 {
		t.Errorf("%+v, %v", l.Containers, err)
	}
	if out, _ := mustRun(t, m, "s", "echo ${LD_PRELOAD-none}"); strings.TrimSpace(out) != "none" {
		t.Error(out)
	}
	wide := r.manager(`{"daemon": {"create": {"env": ["A"]}}}`)
	_, err := create(wide, "e", config.Creation{Env: map[string]string{"A": "1"}})
	must(t, err)
	_, _, err = run(r.manager(`{}`), "e", "true")
	refusedAt(t, err, sandbox.CodeCapabilityBlocked, "env.A")
}

// TestCreateAtOnce holds that of requests that differ one wins, and that the others
// learn which field differs.
func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var work sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		m := r.manager("")
		work.Go(func() {
			_, errs[i] = create(m, "s", config.Creation{Labels: map[string]string{"n": string(rune('a' + i%2))}})
		})
	}
	work.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		refusedAt(t, err, sandbox.CodeBusy, "labels")
	}
	if won != 3 {
		t.Errorf("%d of 6 were created: %v", won, errs)
	}
}

// TestSetNetwork holds that network rules change while a sandbox runs, within the
// ceilings, without making it anew.
func TestSetNetwork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const settings = `{"daemon": {"create": {"allowedDomains": ["*.example.com"]}}, "agents": {"defaults": {"sandbox": {"network": {"allowedDomains": ["packages.example.org"]}}}}}`
	m := r.manager(settings)
	ctx := context.Background()
	rules := func() (out []string) {
		t.Helper()
		e, err := m.Explain(ctx, who("s"), nil, manager.Questions{})
		must(t, err)
		for _, r := range e.Network.Rules {
			out = append(out, r.Rule)
		}
		return out
	}
	_, err := create(m, "s", config.Creation{Network: &config.NetworkRules{AllowedDomains: &[]string{"a.example.com"}}})
	must(t, err)
	if got := rules(); !slices.Contains(got, "a.example.com") || slices.Contains(got, "packages.example.org") {
		t.Errorf("%v", got)
	}
	must(t, m.SetNetwork(ctx, row(t, m, "s"), &config.NetworkRules{AllowedDomains: &[]string{"packages.example.org"}}))
	if got := rules(); slices.Contains(got, "a.example.com") || !slices.Contains(got, "packages.example.org") {
		t.Errorf("%v", got)
	}
	err = m.SetNetwork(ctx, row(t, m, "s"), &config.NetworkRules{AllowedDomains: &[]string{"evil.com"}})
	refusedAt(t, err, sandbox.CodeCapabilityBlocked, "network.allowedDomains[0]")
	if got := rules(); !slices.Contains(got, "packages.example.org") {
		t.Errorf("a refused change left %v", got)
	}
	must(t, m.SetNetwork(ctx, row(t, m, "s"), &config.NetworkRules{AllowedDomains: &[]string{}}))
	if got := rules(); slices.Contains(got, "packages.example.org") {
		t.Errorf("%v", got)
	}
	if _, o := mustRun(t, m, "s", "true"); o.Created {
		t.Error("it was made anew")
	}
}

// TestExpireKill holds that a sandbox is removed at the end of its timeout whatever
// runs in it, by a manager that did not set it, and that a later end puts that off.
func TestExpireKill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	ctx := context.Background()
	_, err := create(m, "s", config.Creation{Timeout: 60})
	must(t, err)
	got := row(t, m, "s")
	if left := got.ExpiresAt.Sub(r.clock.now()); left < 50*time.Second || left > time.Minute || got.OnTimeout != "kill" {
		t.Errorf("%v, %+v", left, got)
	}
	ended := make(chan error, 1)
	go func() { _, _, err := run(m, "s", "sleep 300"); ended <- err }()
	other := r.manager("")
	expire := func() []string {
		t.Helper()
		names, next, err := other.Expire(ctx)
		must(t, err)
		if next <= 0 || next > time.Minute {
			t.Errorf("the next round is in %v", next)
		}
		return names
	}
	if got := expire(); len(got) != 0 {
		t.Fatalf("too early: %v", got)
	}
	r.clock.advance(59 * time.Second)
	must(t, m.SetTimeout(ctx, row(t, m, "s"), 100*time.Second))
	r.clock.advance(2 * time.Second)
	if got := expire(); len(got) != 0 {
		t.Fatalf("although it was put off: %v", got)
	}
	r.clock.advance(99 * time.Second)
	if got := expire(); len(got) != 1 {
		t.Fatalf("%v", got)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("its command goes on")
	}
	if l, err := m.List(ctx, manager.ListOptions{}); err != nil || len(l.Containers) != 0 {
		t.Errorf("%+v, %v", l.Containers, err)
	}
	refusedAt(t, m.SetTimeout(ctx, got, time.Minute), sandbox.CodeNotFound, "")
	refusedAt(t, m.SetTimeout(ctx, got, 0), sandbox.CodeNotFound, "")
}

// TestExpirePause holds that a sandbox is frozen at the end of its timeout with what
// runs in it, that only one that is to be resumed by a call is, and that its timeout
// begins anew then.
func TestExpirePause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	ctx := context.Background()
	_, err := create(m, "s", config.Creation{Timeout: 60, OnTimeout: "pause"})
	must(t, err)
	_, err = create(m, "auto", config.Creation{Timeout: 60, OnTimeout: "pause", AutoResume: new(true)})
	must(t, err)
	go run(m, "s", "echo data >/workspace/file; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i >/workspace/n; sleep 0.1; done")
	comesTo(t, func() bool { out, _, err := run(m, "s", "cat /workspace/n"); return err == nil && out != "" })
	r.clock.advance(61 * time.Second)
	names, _, err := r.manager("").Expire(ctx)
	must(t, err)
	if len(names) != 2 || row(t, m, "s").Status != sandbox.StatusPaused || row(t, m, "auto").Status != sandbox.StatusPaused {
		t.Fatalf("%v: %s and %s", names, row(t, m, "s").Status, row(t, m, "auto").Status)
	}
	if names, _, err = m.Expire(ctx); err != nil || len(names) != 0 {
		t.Errorf("again: %v, %v", names, err)
	}
	for _, m := range []*manager.Manager{m, r.manager("")} {
		_, _, err = run(m, "s", "true")
		refusedAt(t, err, sandbox.CodeBusy, "")
	}
	mustRun(t, m, "auto", "true")
	if got := row(t, m, "auto"); got.Status != sandbox.StatusRunning || !got.ExpiresAt.After(r.clock.now()) {
		t.Errorf("%+v", got)
	}
	if out, err := m.Prune(ctx, manager.PruneOptions{Idle: new(time.Duration(0)), MaxAge: new(time.Duration(0))}); err != nil || len(out.Removed) != 0 {
		t.Errorf("prune: %+v, %v", out, err)
	}
	must(t, m.Resume(ctx, row(t, m, "s")))
	got := row(t, m, "s")
	if got.Status != sandbox.StatusRunning || !got.ExpiresAt.After(r.clock.now()) {
		t.Errorf("%+v", got)
	}
	before, _ := mustRun(t, m, "s", "cat /workspace/file /workspace/n")
	comesTo(t, func() bool {
		after, _ := mustRun(t, m, "s", "cat /workspace/file /workspace/n")
		return strings.HasPrefix(after, "data") && after != before // its process goes on
	})
	must(t, m.Hold(ctx, got)) // with what runs in it
	mustRun(t, m, "s", "true")
}

// TestExpireClock holds that a clock that is set back does not lengthen a timeout.
func TestExpireClock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	r.clock.advance(10 * time.Hour)
	_, err := create(m, "s", config.Creation{Timeout: 300})
	must(t, err)
	r.clock.advance(-10 * time.Hour)
	if _, _, err := m.Expire(context.Background()); err != nil {
		t.Fatal(err)
	}
	if left := row(t, m, "s").ExpiresAt.Sub(r.clock.now()); left > 300*time.Second {
		t.Errorf("it ends in %v", left)
	}
}

// comesTo waits until ok.
func comesTo(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 300 {
		if ok() {
			return
		}
		<-tick.C
	}
	t.Fatal("it does not come to that")
}
