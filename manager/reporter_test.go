package manager_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy"
)

// A notebook keeps the records that it receives, unless it fails or hangs.
type notebook struct {
	mu    sync.Mutex
	kept  []violation.Record
	fails error
	hangs bool
}

// Append implements store.Recorder.
func (n *notebook) Append(ctx context.Context, rs ...violation.Record) error {
	if n.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kept = append(n.kept, rs...)
	return n.fails
}

// TestRefusalsAreReportedOnce holds that each refusal is recorded, with what was
// to be run and once, whoever refused; and that what ran is not.
func TestRefusalsAreReportedOnce(t *testing.T) {
	t.Parallel()
	const asks = `"commands": {"autoAllowIfSandboxed": false, "strictness": "strict", "allow": ["true"]}`
	tests := []struct {
		name    string
		run     func(*guarded, *manager.Manager) error
		typ     violation.Type
		verdict policy.Verdict
		command string
	}{
		{"denied", func(g *guarded, m *manager.Manager) error { return g.judged(m, []string{"rm", "-rf", "/"}) }, violation.CriticalPathRemoval, policy.Deny, ""},
		{"a line", func(g *guarded, m *manager.Manager) error {
			_, err := m.Shell(context.Background(), manager.Request{Who: someone, Command: sandbox.Command{Args: []string{"-c", "true; rm -rf /"}}})
			return err
		}, violation.CriticalPathRemoval, policy.Deny, ""},
		{"nobody asked", func(g *guarded, m *manager.Manager) error { return g.judged(m, []string{"reach"}) }, violation.CommandBlocked, policy.Ask, "reach"},
		{"asked and denied", func(g *guarded, m *manager.Manager) error {
			return g.judged(m, []string{"reach"}, func(r *manager.Request) { r.Ask = true })
		}, violation.CommandBlocked, policy.Ask, "reach"},
		{"a way out", func(g *guarded, m *manager.Manager) error {
			return g.judged(m, []string{"reach"}, func(r *manager.Request) { r.Unsandboxed = true })
		}, violation.CommandBlocked, policy.Deny, "reach"},
		{"a tool", func(g *guarded, m *manager.Manager) error {
			return g.judged(m, nil, func(r *manager.Request) { r.Tool = "browser" })
		}, violation.ToolDenied, policy.Deny, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			notes := &notebook{}
			g := newGuarded(t, sandbox.Deny)
			g.recorder = notes
			if err := tt.run(g, g.manager(settingsWith(asks))); sandbox.CodeOf(err) != sandbox.CodeDenyTool && sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Fatalf("%v", err)
			}
			seen := 0
			for _, r := range notes.kept {
				if r.Type == tt.typ && r.Verdict == tt.verdict && r.Severity != 0 {
					seen++
				}
				if r.Verdict != tt.verdict || strings.Contains(r.Command, "command -v") || tt.command != "" && r.Command != tt.command || r.Type == violation.CriticalPathRemoval && r.Program != "rm" || r.Agent == "" || r.Session == "" {
					t.Errorf("%+v", r)
				}
			}
			if seen != 1 {
				t.Errorf("told %d times: %+v", seen, notes.kept)
			}
		})
	}
}

// TestRecorderThatFails checks that a refusal stays one, and a command is not
// held up for good, when the recorder cannot write down what was stopped.
func TestRecorderThatFails(t *testing.T) {
	t.Parallel()
	for name, notes := range map[string]*notebook{"fails": {fails: errors.New("the disk is full")}, "hangs": {hangs: true}} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			g.recorder = notes
			if err := g.judged(g.manager(guardedSettings), []string{"rm", "-rf", "/"}); sandbox.CodeOf(err) != sandbox.CodeDenyTool {
				t.Errorf("%v", err)
			}
			if !strings.Contains(g.log.String(), "cannot record") {
				t.Errorf("log: %s", g.log)
			}
		})
	}
}
