package manager

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

var (
	now   = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	owner = sandbox.Owner{Instance: "i", Tenant: "acme", Agent: "main", Session: "chat-42", Scope: sandbox.ScopeSession, ScopeKey: "chat-42"}
)

func TestDecide(t *testing.T) {
	const (
		running = sandbox.StatusRunning
		paused  = sandbox.StatusPaused
		stopped = sandbox.StatusStopped
		keep    = sandbox.DriftKeep
		refuse  = sandbox.DriftRefuse
	)
	minute := func(n float64) time.Time { return now.Add(-time.Duration(n * float64(time.Minute))) }
	unknown := time.Time{}
	tests := []struct {
		name     string
		status   sandbox.Status // empty: there is none
		have     string
		want     string // "want" when empty
		settings string
		drift    sandbox.DriftPolicy
		last     time.Time
		leased   bool
		window   time.Duration
		action   lifecycleAction
		wake     lifecycleAction
		reason   string
	}{
		{name: "none", action: lifecycleCreate, reason: "there is none"},
		{name: "none but leased", leased: true, action: lifecycleCreate},
		{name: "none but recently used", last: minute(1), action: lifecycleCreate},

		{name: "equal, running", status: running, have: "want", action: lifecycleUse},
		{name: "equal, paused", status: paused, have: "want", action: lifecycleUnpause},
		{name: "equal, stopped", status: stopped, have: "want", action: lifecycleStart},
		{name: "equal, cold", status: running, have: "want", last: minute(600), action: lifecycleUse},
		{name: "equal, hot, refuse", status: running, have: "want", drift: refuse, last: minute(1), action: lifecycleUse},
		{name: "equal with the flags", status: running, have: "want", settings: "plain", last: minute(1), action: lifecycleUse},

		{name: "settings differ, used a minute ago, keep", status: running, have: "old", drift: keep, last: minute(1), action: keepAndHint, wake: lifecycleUse, reason: "used within the last 5m"},
		{name: "settings differ, used a minute ago, refuse", status: running, have: "old", drift: refuse, last: minute(1), action: lifecycleRefuse, reason: "its settings changed"},
		{name: "settings differ, policy unknown", status: running, have: "old", drift: "odd", last: minute(1), action: lifecycleRefuse},
		{name: "settings differ, policy unset", status: running, have: "old", last: minute(1), action: lifecycleRefuse},
		{name: "settings differ, just inside the window", status: running, have: "old", drift: keep, last: minute(4.99), action: keepAndHint, wake: lifecycleUse},
		{name: "settings differ, just at the window", status: running, have: "old", drift: keep, last: minute(5), action: lifecycleRecreate},
		{name: "settings differ, used 6 minutes ago, keep", status: running, have: "old", drift: keep, last: minute(6), action: lifecycleRecreate, reason: "not been used for 6m"},
		{name: "settings differ, used 6 minutes ago, refuse", status: running, have: "old", drift: refuse, last: minute(6), action: lifecycleRecreate},
		{name: "settings differ, other window", status: running, have: "old", drift: keep, last: minute(6), window: time.Hour, action: keepAndHint, wake: lifecycleUse, reason: "within the last 1h"},
		{name: "settings differ, used 6 minutes ago, leased, keep", status: running, have: "old", drift: keep, last: minute(6), leased: true, action: keepAndHint, wake: lifecycleUse, reason: "something is running"},
		{name: "settings differ, used 6 minutes ago, leased, refuse", status: running, have: "old", drift: refuse, last: minute(6), leased: true, action: lifecycleRefuse},
		{name: "settings differ, last use unknown, running", status: running, have: "old", drift: keep, last: unknown, action: keepAndHint, wake: lifecycleUse, reason: "not known"},
		{name: "settings differ, last use unknown, running, refuse", status: running, have: "old", drift: refuse, last: unknown, action: lifecycleRefuse},
		{name: "settings differ, last use unknown, paused", status: paused, have: "old", drift: keep, last: unknown, action: keepAndHint, wake: lifecycleUnpause},
		{name: "settings differ, last use unknown, stopped", status: stopped, have: "old", drift: keep, last: unknown, action: lifecycleRecreate},
		{name: "settings differ, last use ahead", status: running, have: "old", drift: keep, last: minute(-60), action: keepAndHint, wake: lifecycleUse},

		{name: "paused, hot, keep", status: paused, have: "old", drift: keep, last: minute(1), action: keepAndHint, wake: lifecycleUnpause},
		{name: "paused, hot, refuse", status: paused, have: "old", drift: refuse, last: minute(1), action: lifecycleRefuse},
		{name: "paused, cold", status: paused, have: "old", drift: keep, last: minute(6), action: lifecycleRecreate},
		{name: "paused, cold, leased", status: paused, have: "old", drift: keep, last: minute(6), leased: true, action: keepAndHint, wake: lifecycleUnpause},
		{name: "stopped, used a minute ago", status: stopped, have: "old", drift: keep, last: minute(1), action: lifecycleRecreate, reason: "it is stopped"},
		{name: "stopped, refuse", status: stopped, have: "old", drift: refuse, last: minute(1), action: lifecycleRecreate},
		{name: "stopped, leased, keep", status: stopped, have: "old", drift: keep, last: minute(1), leased: true, action: keepAndHint, wake: lifecycleStart},
		{name: "stopped, leased, refuse", status: stopped, have: "old", drift: refuse, last: minute(1), leased: true, action: lifecycleRefuse},

		{name: "flag differs, hot, keep", status: running, have: "plain", settings: "plain", drift: keep, last: minute(1), action: lifecycleRefuse, reason: "a flag of this call"},
		{name: "flag differs, hot, refuse", status: running, have: "plain", settings: "plain", drift: refuse, last: minute(1), action: lifecycleRefuse},
		{name: "flag differs, leased", status: running, have: "plain", settings: "plain", drift: keep, last: minute(6), leased: true, action: lifecycleRefuse},
		{name: "flag differs, cold", status: running, have: "plain", settings: "plain", drift: keep, last: minute(6), action: lifecycleRecreate},
		{name: "flag differs, stopped", status: stopped, have: "plain", settings: "plain", drift: keep, last: minute(1), action: lifecycleRecreate},
		{name: "flag and settings differ, hot", status: running, have: "old", settings: "plain", drift: keep, last: minute(1), action: lifecycleRefuse, reason: "settings or a flag"},
		{name: "a flag that changes nothing", status: running, have: "old", settings: "want", drift: keep, last: minute(1), action: keepAndHint, wake: lifecycleUse},

		{name: "sandbox without hash, hot", status: running, have: "", drift: keep, last: minute(1), action: keepAndHint, wake: lifecycleUse},
		{name: "sandbox without hash, cold", status: running, have: "", drift: keep, last: minute(6), action: lifecycleRecreate},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := lifecycleInput{Owner: owner, WantHash: "want", SettingsHash: tt.settings, Drift: tt.drift, Known: true,
				LastUsed: tt.last, Leased: tt.leased, Now: now, HotWindow: tt.window}
			if tt.status != "" {
				in.Have = &sandbox.Info{Name: "sbx-a", Owner: owner, Status: tt.status, ConfigHash: tt.have}
			}
			d, err := decideAction(in)
			if err != nil {
				t.Fatal(err)
			}
			if d.Action != tt.action || d.Wake != tt.wake || !strings.Contains(d.Reason, tt.reason) || d.Reason == "" {
				t.Errorf("got %+v, want %s, wake %q, reason with %q", d, tt.action, tt.wake, tt.reason)
			}
			hinted := d.Action == keepAndHint || d.Action == lifecycleRefuse
			if want := "sandbox --tenant acme recreate --session chat-42"; hinted && d.Hint != want || !hinted && d.Hint != "" {
				t.Errorf("hint %q", d.Hint)
			}
		})
	}
}

func TestDecideErrors(t *testing.T) {
	have := func(change func(*sandbox.Info)) *sandbox.Info {
		i := &sandbox.Info{Name: "sbx-a", Owner: owner, Status: sandbox.StatusRunning, ConfigHash: "want"}
		change(i)
		return i
	}
	tests := []struct {
		name string
		in   lifecycleInput
		code sandbox.Code
	}{
		{"no answer", lifecycleInput{WantHash: "want"}, sandbox.CodeUnavailable},
		{"no answer, with remains of one", lifecycleInput{WantHash: "want", Have: have(func(*sandbox.Info) {})}, sandbox.CodeUnavailable},
		{"status unknown", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Status = sandbox.StatusUnknown })}, sandbox.CodeUnavailable},
		{"status empty", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Status = "" })}, sandbox.CodeUnavailable},
		{"status missing", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Status = sandbox.StatusMissing })}, sandbox.CodeUnavailable},
		{"another tenant", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Owner.Tenant = "other" })}, sandbox.CodePermissionDeny},
		{"another instance", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Owner.Instance = "other" })}, sandbox.CodePermissionDeny},
		{"another scope", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Owner.Scope = sandbox.ScopeShared })}, sandbox.CodePermissionDeny},
		{"another agent", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Owner.Agent = "researcher" })}, sandbox.CodePermissionDeny},
		{"another scope key", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Owner.ScopeKey = "chat-43" })}, sandbox.CodePermissionDeny},
		{"no owner", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Owner = sandbox.Owner{} })}, sandbox.CodePermissionDeny},
		{"owner comes before status", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Owner.Tenant, i.Status = "other", "" })}, sandbox.CodePermissionDeny},
		{"newer format", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Format = "2" })}, sandbox.CodeUnsupported},
		{"format that is no number", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Format = "1.1" })}, sandbox.CodeUnsupported},
		{"newer format, whose owner is not believed", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Format, i.Owner = "2", sandbox.Owner{} })}, sandbox.CodeUnsupported},
		{"newer format, stopped and long idle", lifecycleInput{WantHash: "want", Known: true, Have: have(func(i *sandbox.Info) { i.Format, i.Status, i.ConfigHash = "2", sandbox.StatusStopped, "old" })}, sandbox.CodeUnsupported},
		{"nothing wanted", lifecycleInput{Known: true, Have: have(func(i *sandbox.Info) { i.ConfigHash = "" })}, sandbox.CodeInternal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Owner, tt.in.Now = owner, now
			d, err := decideAction(tt.in)
			if sandbox.CodeOf(err) != tt.code || d != (lifecycleDecision{}) {
				t.Errorf("got %+v, %v; want %s", d, err, tt.code)
			}
		})
	}
	wide := owner
	wide.Scope, wide.ScopeKey = sandbox.ScopeShared, "shared"
	if _, err := decideAction(lifecycleInput{WantHash: "want", Known: true, Now: now, Owner: wide,
		Have: have(func(i *sandbox.Info) { i.Owner = wide; i.Owner.Agent, i.Owner.Session = "researcher", "other" })}); err != nil {
		t.Errorf("agent and session do not decide whose a shared sandbox is: %v", err)
	}
}

func TestRefusal(t *testing.T) {
	e := lifecycleDecision{Action: lifecycleRefuse, Reason: "its settings changed", Hint: "sandbox recreate --session a"}.Refusal("sbx-a")
	if !errors.Is(e, &sandbox.Error{Code: sandbox.CodeBusy}) || e.Resource != "sbx-a" || !strings.Contains(e.Error(), "(recreate it: sandbox recreate --session a)") {
		t.Error(e)
	}
}

func TestRecreateCommand(t *testing.T) {
	tests := []struct {
		name  string
		owner sandbox.Owner
		want  string
		flags []string
	}{
		{"session", sandbox.Owner{Scope: sandbox.ScopeSession, ScopeKey: "chat-42"}, "sandbox recreate --session chat-42", nil},
		{"tenant", sandbox.Owner{Tenant: "acme", Scope: sandbox.ScopeSession, ScopeKey: "chat-42"}, "sandbox --tenant acme recreate --session chat-42", nil},
		{"agent", sandbox.Owner{Scope: sandbox.ScopeAgent, ScopeKey: "agent:researcher"}, "sandbox recreate --agent researcher", nil},
		{"shared", sandbox.Owner{Tenant: "acme", Scope: sandbox.ScopeShared, ScopeKey: "shared"}, "sandbox --tenant acme recreate --all", nil},
		{"session of an agent", sandbox.Owner{Scope: sandbox.ScopeSession, ScopeKey: sandbox.SessionKey("researcher", "my chat")}, "sandbox recreate --agent researcher --session 'my chat'", nil},
		{"session like a key", sandbox.Owner{Scope: sandbox.ScopeSession, ScopeKey: sandbox.SessionKey("main", "agent:a:session:s")}, "sandbox recreate --session agent:a:session:s", nil},
		{"space", sandbox.Owner{Scope: sandbox.ScopeSession, ScopeKey: "my chat"}, "sandbox recreate --session 'my chat'", nil},
		{"quote and substitution", sandbox.Owner{Scope: sandbox.ScopeSession, ScopeKey: `a'b$(id)`}, `sandbox recreate --session 'a'\''b$(id)'`, nil},
		{"leading dash", sandbox.Owner{Scope: sandbox.ScopeSession, ScopeKey: "--all"}, "sandbox recreate --session=--all", nil},
		{"leading tilde", sandbox.Owner{Scope: sandbox.ScopeSession, ScopeKey: "~root"}, "sandbox recreate --session '~root'", nil},
		{"empty", sandbox.Owner{Scope: sandbox.ScopeSession}, "sandbox recreate --session ''", nil},
		{"letters of other scripts", sandbox.Owner{Scope: sandbox.ScopeSession, ScopeKey: "grüße"}, "sandbox recreate --session 'grüße'", nil},
		{"control characters", sandbox.Owner{Scope: sandbox.ScopeSession, ScopeKey: "a\x1b[2J'\n"}, `sandbox recreate --session $'a\x1b[2J\'\x0a'`, nil},
		{"bidi override", sandbox.Owner{Scope: sandbox.ScopeSession, ScopeKey: "a\u202eb"}, `sandbox recreate --session $'a\xe2\x80\xaeb'`, nil},
		{"global flags", sandbox.Owner{Tenant: "acme", Scope: sandbox.ScopeSession, ScopeKey: "a"}, "sandbox --config '/my files/c.json' --state-dir /s --tenant acme recreate --session a",
			[]string{"--config", "/my files/c.json", "--state-dir", "/s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := recreateCommand(tt.flags, tt.owner, sandbox.KindSandbox); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a b", "'", `\`, "\x00", "\xff", "$(id)", "a\nb", "\u202e", `\x41`} {
		f.Add(s)
	}
	bash, err := exec.LookPath("bash")
	f.Fuzz(func(t *testing.T, s string) {
		q := quote(s)
		for _, r := range q {
			if r < ' ' || r == 0x7f {
				t.Fatalf("control character in %q", q)
			}
		}
		if err != nil || strings.ContainsRune(s, 0) {
			return // no shell to ask, or a word that no shell can hold
		}
		out, err := exec.Command(bash, "-c", "printf %s "+q).Output()
		if err != nil || string(out) != s {
			t.Fatalf("%q was quoted as %s, which the shell reads as %q (%v)", s, q, out, err)
		}
	})
}
