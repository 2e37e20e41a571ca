package providertest

import (
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// lifecycleChecks hold what one caller sees of Inspect, Create, Open, List
// and Remove.
func lifecycleChecks() []Check {
	return []Check{
		{Name: "inspect of an unknown name is not found", run: inspectUnknown},
		{Name: "open of an unknown name is not found", run: openUnknown},
		{Name: "create tells what it made", run: createTells},
		{Name: "create twice is busy and harms nothing", run: createTwice},
		{Name: "create refuses what no sandbox may have", run: createRefuses},
		{Name: "create under an ended context leaves nothing", run: createCancelled},
		{Name: "owner round-trips and guards open", run: ownerGuards},
		{Name: "list filters", run: listFilters},
		{Name: "remove twice is no error", run: removeTwice},
		{Name: "remove ends what runs", run: removeEnds},
		{Name: "a removed name can be created again", run: createAgain},
		{Name: "sandboxes outlive their provider as features say", run: persists},
	}
}

func inspectUnknown(r *rig) {
	s := r.spec("a")
	info, err := r.p.Inspect(r.ctx, s.Name)
	r.wantCode("Inspect", err, sandbox.CodeNotFound)
	if info != (sandbox.Info{}) {
		r.Errorf("Inspect gave %+v beside its error", info)
	}
	r.absent(s.Name)
}

func openUnknown(r *rig) {
	sb, err := r.p.Open(r.ctx, r.spec("a"))
	r.wantCode("Open", err, sandbox.CodeNotFound)
	if sb != nil {
		r.Error("Open gave a handle beside its error")
	}
}

func createTells(r *rig) {
	s := r.spec("a")
	before := time.Now()
	created := r.create(s)
	checkInfo(r, "Create", created, s, before)

	inspected, err := r.p.Inspect(r.ctx, s.Name)
	if err != nil {
		r.Fatalf("Inspect: %v", err)
	}
	list, err := r.p.List(r.ctx, sandbox.Filter{Name: s.Name})
	if err != nil || len(list) != 1 {
		r.Fatalf("List = %+v, %v; want one sandbox", list, err)
	}
	sb := r.open(s)
	for from, info := range map[string]sandbox.Info{"Inspect": inspected, "List": list[0], "Open": sb.Info()} {
		checkInfo(r, from, info, s, before)
		if info.ID != created.ID || info.ConfigHash != created.ConfigHash || !info.CreatedAt.Equal(created.CreatedAt) {
			r.Errorf("%s says %+v, Create said %+v", from, info, created)
		}
	}
	r.works(sb)
}

// checkInfo holds what an Info says about a running sandbox of s.
func checkInfo(r *rig, from string, i sandbox.Info, s sandbox.Spec, before time.Time) {
	r.Helper()
	if i.Name != s.Name || i.Kind != s.Kind || i.Owner != s.Owner || i.Provider != r.p.Name() {
		r.Errorf("%s says name %q, kind %q, owner %+v, provider %q", from, i.Name, i.Kind, i.Owner, i.Provider)
	}
	if i.Status != sandbox.StatusRunning {
		r.Errorf("%s says status %q, want running", from, i.Status)
	}
	if i.ID == "" || i.ConfigHash == "" || i.Format == "" {
		r.Errorf("%s leaves out id %q, config hash %q or format %q", from, i.ID, i.ConfigHash, i.Format)
	}
	if r.p.Features().Images && i.ImageID != s.ImageID {
		r.Errorf("%s says image id %q, want %q", from, i.ImageID, s.ImageID)
	}
	// Clocks of engine and test may differ a little.
	if i.CreatedAt.Before(before.Add(-time.Minute)) || i.CreatedAt.After(time.Now().Add(time.Minute)) {
		r.Errorf("%s says created at %v", from, i.CreatedAt)
	}
	if !i.StartedAt.IsZero() && i.StartedAt.Before(i.CreatedAt.Add(-time.Second)) {
		r.Errorf("%s says started at %v, created at %v", from, i.StartedAt, i.CreatedAt)
	}
}

func createTwice(r *rig) {
	s, sb := r.box("a")
	marker := newMarker()
	r.start(r.ctx, sb, r.h.Programs.Sleep(marker))
	r.awaitCount(sb, marker, 1)
	_, err := r.p.Create(r.ctx, s)
	r.wantCode("second Create", err, sandbox.CodeBusy)
	r.awaitCount(sb, marker, 1)
}

func createRefuses(r *rig) {
	refused := []struct {
		name   string
		change func(*sandbox.Spec)
	}{
		{"user 0", func(s *sandbox.Spec) { s.UID = 0 }},
		{"group 0", func(s *sandbox.Spec) { s.GID = 0 }},
		{"network host", func(s *sandbox.Spec) { s.Network = "host" }},
		{"network HOST", func(s *sandbox.Spec) { s.Network = "HOST" }},
		{"privilege gain", func(s *sandbox.Spec) { s.Security.NoNewPrivileges = false }},
	}
	for _, tt := range refused {
		s := r.spec(tt.name)
		tt.change(&s)
		_, err := r.p.Create(r.ctx, s)
		r.wantCode("Create with "+tt.name, err, sandbox.CodeCapabilityBlocked, sandbox.CodeValidation)
		r.absent(s.Name)
	}
	s := r.spec("nameless")
	s.Name = ""
	_, err := r.p.Create(r.ctx, s)
	r.wantCode("Create without a name", err, sandbox.CodeValidation, sandbox.CodeCapabilityBlocked)
}

// createCancelled ends the context before and at various moments during
// Create. Whatever Create answers must then be what is there.
func createCancelled(r *rig) {
	s := r.spec("a")
	for _, after := range []time.Duration{
		0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond,
		60 * time.Millisecond, 100 * time.Millisecond, 160 * time.Millisecond, 250 * time.Millisecond,
	} {
		ctx, cancel := contextEnding(r.ctx, after)
		_, err := r.p.Create(ctx, s)
		cancel()
		if after == 0 && err == nil {
			r.Error("Create under an ended context succeeded")
		}
		if err != nil {
			r.wantCode("Create ended after "+after.String(), err, sandbox.CodeTimeout, sandbox.CodeUnavailable)
			r.absent(s.Name)
		} else {
			r.works(r.open(s))
		}
		if err := r.p.Remove(r.ctx, s.Name); err != nil { // the next round starts afresh
			r.Fatalf("Remove: %v", err)
		}
	}
}

func ownerGuards(r *rig) {
	s := r.spec("a")
	s.Owner.Session = `sess ion "quoted", =comma; Grüße 日本 ` + strings.Repeat("x", 180)
	s.Owner.ScopeKey = s.Owner.Session
	info := r.create(s)
	if info.Owner != s.Owner {
		r.Errorf("owner came back as %+v, want %+v", info.Owner, s.Owner)
	}
	for name, change := range map[string]func(*sandbox.Owner){
		"instance":  func(o *sandbox.Owner) { o.Instance += "x" },
		"tenant":    func(o *sandbox.Owner) { o.Tenant += "x" },
		"scope":     func(o *sandbox.Owner) { o.Scope = sandbox.ScopeShared },
		"scope key": func(o *sandbox.Owner) { o.ScopeKey += "x" },
		"agent":     func(o *sandbox.Owner) { o.Agent += "x" },
	} {
		other := s
		change(&other.Owner)
		sb, err := r.p.Open(r.ctx, other)
		r.wantCode("Open with another "+name, err, sandbox.CodePermissionDeny)
		if sb != nil {
			r.Errorf("Open with another %s gave a handle", name)
		}
	}
	same := s
	same.Owner.Session = "another"
	r.works(r.open(same))
}

func listFilters(r *rig) {
	a, b := r.spec("a"), r.spec("b")
	b.Owner.Tenant = a.Owner.Tenant + "-other"
	r.create(a)
	r.create(b)
	tests := []struct {
		name         string
		f            sandbox.Filter
		wantA, wantB bool
	}{
		{"everything", sandbox.Filter{}, true, true},
		{"instance", sandbox.Filter{Instance: a.Owner.Instance}, true, a.Owner.Instance == b.Owner.Instance},
		{"another instance", sandbox.Filter{Instance: "ffffffffffffffff"}, false, false},
		{"tenant", sandbox.Filter{Tenant: b.Owner.Tenant}, false, true},
		{"kind", sandbox.Filter{Kind: a.Kind}, true, true},
		{"another kind", sandbox.Filter{Kind: sandbox.KindBrowser}, false, false},
		{"name", sandbox.Filter{Name: a.Name}, true, false},
		{"part of a name", sandbox.Filter{Name: a.Name[:len(a.Name)-1]}, false, false},
		{"all fields", sandbox.Filter{Instance: b.Owner.Instance, Tenant: b.Owner.Tenant, Kind: b.Kind, Name: b.Name}, false, true},
		{"fields that disagree", sandbox.Filter{Tenant: b.Owner.Tenant, Name: a.Name}, false, false},
	}
	for _, tt := range tests {
		list, err := r.p.List(r.ctx, tt.f)
		if err != nil {
			r.Errorf("%s: %v", tt.name, err)
			continue
		}
		seen := map[string]int{}
		for _, info := range list {
			seen[info.Name]++
		}
		if (seen[a.Name] == 1) != tt.wantA || (seen[b.Name] == 1) != tt.wantB || seen[a.Name] > 1 || seen[b.Name] > 1 {
			r.Errorf("%s: a listed %d times (want %v), b %d times (want %v)",
				tt.name, seen[a.Name], tt.wantA, seen[b.Name], tt.wantB)
		}
	}
}

func removeTwice(r *rig) {
	s := r.spec("a")
	if err := r.p.Remove(r.ctx, s.Name); err != nil {
		r.Errorf("Remove of what never was: %v", err)
	}
	r.create(s)
	for range 2 {
		if err := r.p.Remove(r.ctx, s.Name); err != nil {
			r.Errorf("Remove: %v", err)
		}
		r.absent(s.Name)
	}
}

func removeEnds(r *rig) {
	s, sb := r.box("a")
	marker := newMarker()
	p := r.start(r.ctx, sb, r.h.Programs.Tree(marker))
	r.await(p.stdout, "ready")
	if err := r.p.Remove(r.ctx, s.Name); err != nil {
		r.Fatalf("Remove: %v", err)
	}
	// The result of the command is lost with the sandbox, or it was killed.
	if exit, err := r.wait(p); err != nil {
		r.wantCode("Wait after Remove", err, sandbox.CodeUnavailable, sandbox.CodeNotFound)
	} else if exit.Code == 0 {
		r.Errorf("a command that was removed ended with %+v", exit)
	}
	_, err := sb.Start(r.ctx, r.h.Programs.True())
	r.wantCode("Start after Remove", err, sandbox.CodeUnavailable, sandbox.CodeNotFound)
	r.absent(s.Name)
}

func createAgain(r *rig) {
	s := r.spec("a")
	first := r.create(s)
	if err := r.p.Remove(r.ctx, s.Name); err != nil {
		r.Fatalf("Remove: %v", err)
	}
	second := r.create(s)
	if first.ID == second.ID {
		r.Errorf("both sandboxes have the id %q", first.ID)
	}
	if first.ConfigHash != second.ConfigHash {
		r.Errorf("equal Specs have the hashes %q and %q", first.ConfigHash, second.ConfigHash)
	}
	r.works(r.open(s))
}

func persists(r *rig) {
	if !r.p.Features().Persistent {
		r.Skip("the provider does not say that sandboxes outlive it")
	}
	if r.h.Reconnect == nil {
		r.Fatal("Features.Persistent is set and the harness has no Reconnect")
	}
	s, sb := r.box("a")
	sb.Close()
	other := r.h.Reconnect(r, r.p)
	info, err := other.Inspect(r.ctx, s.Name)
	if err != nil || info.Owner != s.Owner || info.Status != sandbox.StatusRunning {
		r.Fatalf("the other provider says %+v, %v", info, err)
	}
	r.works(r.openWith(other, s))
}
