package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

var hostileRequest = sandbox.PermissionRequest{
	Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite, Resource: "/data/\x1b[2Jx\nAllow", Inside: "/in/x", Sandbox: "sbx-a",
	Command: []string{"sh", "-c", "echo \x1b]0;t\a" + strings.Repeat("é", 500)}, Reason: "write \u202e/x",
}

func TestPromptAnswers(t *testing.T) {
	tests := []struct {
		typed string
		want  sandbox.Permission
	}{
		{"o\n", sandbox.AllowOnce}, {"ONCE\n", sandbox.AllowOnce}, {"s\n", sandbox.AllowSession}, {"session\n", sandbox.AllowSession},
		{"p\n", sandbox.AllowPermanent}, {"permanently\n", sandbox.AllowPermanent}, {"n\n", sandbox.Deny}, {"\n", sandbox.Deny}, {"y\n", sandbox.Deny},
		{"yes\n", sandbox.Deny}, {"oo\n", sandbox.Deny}, {"\x04", sandbox.Deny}, {strings.Repeat("o", 2000) + "\n", sandbox.Deny},
	}
	for _, tt := range tests {
		t.Run(strings.TrimSpace(tt.typed[:min(9, len(tt.typed))]), func(t *testing.T) {
			host, caller := openPTY(t)
			host.WriteString("o\n") // typed ahead, which is no answer
			waitTyped(t, caller)
			asked := make(chan string, 1)
			go func() {
				// The terminal echoes what was typed ahead first.
				b := bufio.NewReader(host)
				text, _ := b.ReadString('[')
				for !strings.HasSuffix(text, "/N] ") {
					r, err := b.ReadByte()
					if err != nil {
						break
					}
					text += string(r)
				}
				host.WriteString(tt.typed)
				asked <- text
			}()
			got, err := (&prompt{in: caller, out: caller}).Approve(t.Context(), hostileRequest)
			if got != tt.want || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			text := <-asked
			if strings.ContainsAny(text, "\x1b\a\u202e") || !strings.Contains(text, `/data/\x1b[2Jx\nAllow (inside: /in/x)`) || len(text) > 1500 {
				t.Errorf("it asks %q", text)
			}
		})
	}
}

// TestPromptAboutACommand holds that all of a command is shown and that what
// was not offered is no answer.
func TestPromptAboutACommand(t *testing.T) {
	for typed, want := range map[string]sandbox.Permission{"s\n": sandbox.AllowSession, "p\n": sandbox.Deny} {
		host, caller := openPTY(t)
		r := hostileRequest
		r.Kind, r.Operation, r.Inside, r.Resource = sandbox.ResourceCommand, sandbox.OpExecute, "", "make \x1b[2J"+strings.Repeat("x", 600)+"END"
		asked := make(chan string, 1)
		go func() {
			b, text := bufio.NewReader(host), ""
			for !strings.HasSuffix(text, "/N] ") {
				c, err := b.ReadByte()
				if err != nil {
					break
				}
				text += string(c)
			}
			host.WriteString(typed)
			asked <- text
		}()
		got, err := (&prompt{in: caller, out: caller}).Approve(t.Context(), r)
		if got != want || err != nil {
			t.Errorf("%q: %q, %v", typed, got, err)
		}
		if text := <-asked; strings.Contains(text, "\x1b") || !strings.Contains(text, "END") || strings.Contains(text, "ermanently") {
			t.Errorf("it asks %q", text)
		}
	}
}

// TestQuestionAboutAHost holds what is asked about a host, of which there is
// nothing below.
func TestQuestionAboutAHost(t *testing.T) {
	r := hostileRequest
	r.Kind, r.Operation, r.Inside, r.Resource = sandbox.ResourceNetwork, sandbox.OpConnect, "", "x.test:443\x1b[2J"
	text := question(r)
	if strings.Contains(text, "\x1b") || !strings.Contains(text, `reach x.test:443\x1b[2J`+"\n") || strings.Contains(text, "below") || !strings.Contains(text, "[p]ermanently") {
		t.Errorf("it asks %q", text)
	}
}

// waitTyped waits until something typed can be read.
func waitTyped(t *testing.T, f *os.File) {
	t.Helper()
	testenv.Until(t, "something arrives at the terminal", func() bool {
		n, err := pending(f)
		return err != nil || n > 0
	})
}

func TestPromptEndsWithItsContext(t *testing.T) {
	_, caller := openPTY(t)
	ctx, done := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer done()
	if got, err := (&prompt{in: caller, out: caller}).Approve(ctx, hostileRequest); got != sandbox.Deny || err == nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestAskWithoutATerminal checks that the program asks nothing when there is
// no terminal.
func TestAskWithoutATerminal(t *testing.T) {
	f := &fake{}
	f.run = func(ctx context.Context, r manager.Request) (manager.Outcome, error) {
		p, err := f.options.Approver.Approve(ctx, hostileRequest)
		if p != sandbox.Deny || sandbox.CodeOf(err) != sandbox.CodePermissionDeny || !r.Ask {
			t.Errorf("%q, %v, ask %v", p, err, r.Ask)
		}
		r.Again()
		return manager.Outcome{}, nil
	}
	if r := call(t, f, "run", "--ask", "--", "x"); r.status != 0 || r.stderr != "sandbox: allowed: the command is run again\n" {
		t.Errorf("status %d, %q", r.status, r.stderr)
	}
	_, caller := openPTY(t)
	if r := callWith(t, f, caller, "run", "--ask", "--", "x"); r.status != 0 { // standard error is none
		t.Errorf("status %d, %q", r.status, r.stderr)
	}
	for _, flag := range []string{"-i", "-t", "-it"} {
		if r := callWith(t, &fake{}, caller, "run", "--ask", flag, "--", "x"); r.status != 2 {
			t.Errorf("%s: status %d, %q", flag, r.status, r.stderr)
		}
	}
}

// TestBlockedIsSaid holds what is said behind the command's own words.
func TestBlockedIsSaid(t *testing.T) {
	v := sandbox.Violation{Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite, Resource: "/d/x\n\x1b", HostPath: "/d/x", Evidence: sandbox.EvidenceStrong}
	builtin := v
	builtin.Builtin = true
	outcome := func(v sandbox.Violation, answers ...manager.Answer) manager.Outcome {
		return manager.Outcome{Exit: sandbox.Exit{Code: 3}, Blocked: true, BlockedReason: "write /d/x\n\x1b: denied", BlockedResource: v.Resource,
			Violations: []sandbox.Violation{v}, Causes: []sandbox.Violation{v}, Answers: answers}
	}
	const said = "sandbox: blocked: certain: connect a.example:443: denied"
	refused := func(rule string, answers ...manager.Answer) manager.Outcome {
		v := sandbox.Violation{Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: "a.example:443", Rule: rule, Evidence: sandbox.EvidenceCertain}
		out := outcome(v, answers...)
		out.BlockedReason = "connect a.example:443: denied: " + rule
		return out
	}
	tests := []struct {
		name string
		out  manager.Outcome
		want string
	}{
		{"can be allowed", outcome(v), `sandbox: blocked: strong: write /d/x\n\x1b: denied; allow it with --ask, or with filesystem.allowWrite in the settings` + "\n"},
		{"built in", outcome(builtin), `sandbox: blocked: strong: write /d/x\n\x1b: denied; no permission opens what is denied there` + "\n"},
		{"asked", outcome(v, manager.Answer{Permission: sandbox.Deny}), `sandbox: blocked: strong: write /d/x\n\x1b: denied` + "\n"},
		{"a host", refused("network.allowedDomains"), said + `: network.allowedDomains; allow it with --ask, with --allow-domain a.example:443, or with network.allowedDomains in the settings` + "\n"},
		{"a host that was asked about", refused("network.ask", manager.Answer{Permission: sandbox.Deny}), said + ": network.ask\n"},
		{"a host, and nobody to ask", refused("network.ask"), said + ": network.ask; network.allowedDomains in the settings would allow it\n"},
		{"an address", refused("address"), said + ": address; only a rule of network.allowedDomains that names the address opens it\n"},
		{"a denied host", refused("network.deniedDomains[0]: *.example"), said + ": network.deniedDomains[0]: *.example; no permission opens what is denied there\n"},
		{"a limit", refused("limits.connections"), said + ": limits.connections; network.limits.connections in the settings bounds it\n"},
		{"no name in TLS", refused("sni"), said + ": sni\n"},
		{"not blocked", manager.Outcome{Exit: sandbox.Exit{Code: 3}, Violations: []sandbox.Violation{v}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{run: func(context.Context, manager.Request) (manager.Outcome, error) { return tt.out, nil }}
			if r := call(t, f, "run", "--", "x"); r.status != 3 || r.stderr != tt.want {
				t.Errorf("status %d, says %q", r.status, r.stderr)
			}
			r := call(t, f, "run", "-o", "json", "--", "x")
			if tt.want == "" {
				if r.stderr != "" {
					t.Errorf("says %q", r.stderr)
				}
				return
			}
			var got blockedView
			if err := json.Unmarshal([]byte(r.stderr), &got); err != nil || !got.Blocked || got.Resource != tt.out.BlockedResource || len(got.Violations) != 1 || strings.Contains(r.stderr, "\x1b") {
				t.Errorf("%v: %s", err, r.stderr)
			}
		})
	}
}

// pending is how many bytes can be read from a terminal.
func pending(f *os.File) (int, error) { return unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ) }
