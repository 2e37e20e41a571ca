package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// maxShown is how much of a command a question shows, in bytes.
const maxShown = 400

// A prompt asks the person at the terminal about permissions, one question at
// a time. Everything that it shows comes from inside and is made safe.
type prompt struct {
	mu  sync.Mutex // held while it asks
	in  *os.File
	out *os.File
}

// approver returns the approver of this call: the person at the terminal.
// Without a terminal the approver denies.
func (a *app) approver() sandbox.Approver {
	if !isTerminal(a.Stdin) || !isTerminal(a.Stderr) {
		return nobody{}
	}
	return &prompt{in: a.Stdin, out: a.Stderr}
}

// nobody denies because there is no terminal to ask on.
type nobody struct{}

// Approve implements [sandbox.Approver].
func (nobody) Approve(context.Context, sandbox.PermissionRequest) (sandbox.Permission, error) {
	return sandbox.Deny, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "ask", Field: "--ask", Message: "no approval can be asked for, because standard input and standard error are not both a terminal"}
}

// Approve implements [sandbox.Approver]. Any answer but the words it offers,
// and their first letters, is a denial. What was typed before the question
// was there is no answer to it.
func (p *prompt) Approve(ctx context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return sandbox.Deny, err
	}
	in, err := newInput(p.in)
	if err != nil {
		return sandbox.Deny, err
	}
	defer in.Close()
	defer context.AfterFunc(ctx, func() { in.Close() })()
	forgetTyped(p.in)
	if _, err := io.WriteString(p.out, question(r)); err != nil {
		return sandbox.Deny, err
	}
	line, err := bufio.NewReader(io.LimitReader(in, 1024)).ReadString('\n')
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(p.out)
		return sandbox.Deny, ctx.Err()
	case err != nil && err != io.EOF:
		return sandbox.Deny, err
	case err == io.EOF:
		fmt.Fprintln(p.out) // the cursor stands behind the question
	}
	answer := answered(line)
	if answer == sandbox.AllowPermanent && r.Kind == sandbox.ResourceCommand {
		return sandbox.Deny, nil // it was not offered: the settings file keeps no commands that way
	}
	return answer, nil
}

// question is what a person reads.
func question(r sandbox.PermissionRequest) string {
	command := termsafe.Line(strings.Join(r.Command, " "))
	if len(command) > maxShown {
		command = strings.ToValidUTF8(command[:maxShown], "") + " …"
	}
	what := fmt.Sprintf("%s %s %s", termsafe.Line(string(r.Operation)), termsafe.Line(r.Kind), termsafe.Line(r.Resource))
	if r.Inside != "" && r.Inside != r.Resource {
		what += " (inside: " + termsafe.Line(r.Inside) + ")"
	}
	head, below := "a command was stopped, and can be run again if you allow this", ", and everything below it"
	answers := "Allow [o]nce, for this [s]ession while this program runs, [p]ermanently in the settings file, or deny? [o/s/p/N] "
	if r.Kind == sandbox.ResourceCommand {
		head, what, below = "a command needs your permission before it is run", "execute this command", ""
		command = termsafe.Line(r.Resource) // the whole line: a person must see all that they permit
		answers = "Allow [o]nce, for this [s]ession while this program runs, or deny? [o/s/N] "
	}
	if r.Kind == sandbox.ResourceNetwork {
		head, what, below = "a command waits because it wants to reach a host", "reach "+termsafe.Line(r.Resource), ""
	}
	return "sandbox: " + head + ":\n" +
		"  permission  " + what + below + "\n" +
		"  command     " + command + "\n" +
		"  because     " + termsafe.Line(r.Reason) + "\n" +
		"  sandbox     " + termsafe.Line(r.Sandbox) + "\n" +
		answers
}

// answered reads an answer.
func answered(line string) sandbox.Permission {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "o", "once":
		return sandbox.AllowOnce
	case "s", "session":
		return sandbox.AllowSession
	case "p", "permanently":
		return sandbox.AllowPermanent
	}
	return sandbox.Deny
}

// blockedView is what --format json says of a command that rules stopped.
type blockedView struct {
	Blocked    bool                `json:"blocked"`
	Resource   string              `json:"resource"`
	Reason     string              `json:"reason"`
	Hint       string              `json:"hint,omitempty"`
	Violations []sandbox.Violation `json:"violations"`
	Answers    []manager.Answer    `json:"answers"`
	Limit      *sandbox.LimitHit   `json:"limit,omitempty"` // that the command reached as well
	Waited     *sandbox.Waited     `json:"waited,omitempty"`
	Warnings   []string            `json:"warnings,omitempty"` // of the policy for commands
}

// sayBlocked says on standard error that rules stopped the command, behind
// what the command said itself: one line, or one JSON document.
func (a *app) sayBlocked(out manager.Outcome) error {
	if !out.Blocked {
		return nil
	}
	hint := howToAllow(out)
	if a.globals.json() {
		return writeJSON(a.Stderr, blockedView{
			Blocked: true, Resource: out.BlockedResource, Reason: out.BlockedReason, Hint: hint,
			Violations: notNil(out.Violations), Answers: notNil(out.Answers), Limit: out.Exit.Limit, Waited: out.Waited, Warnings: out.Warnings,
		})
	}
	tier := sandbox.Evidence("")
	if len(out.Causes) > 0 {
		tier = out.Causes[0].Evidence
	}
	line := fmt.Sprintf("blocked: %s: %s", tier, termsafe.Line(out.BlockedReason))
	if hint != "" {
		line += "; " + hint
	}
	a.say("%s", line)
	return nil
}

// howToReach says what would let the host be reached.
func howToReach(v sandbox.Violation, asked bool) string {
	rule, _, _ := strings.Cut(v.Rule, ":")
	switch {
	case rule == "network.allowedDomains":
		return "allow it with --ask, with --allow-domain " + termsafe.Line(v.Resource) + ", or with network.allowedDomains in the settings"
	case rule == "network.ask" && !asked:
		return "network.allowedDomains in the settings would allow it"
	case rule == "port":
		return "only a rule of network.allowedDomains that names the port opens it"
	case rule == "address" && strings.Contains(v.Rule, "; "):
		return "" // it says which rule opens it
	case rule == "address":
		return "only a rule of network.allowedDomains that names the address opens it"
	case rule == "proxy":
		return "have the program use the proxy; Node's fetch does from 24 and 22.21 on"
	case rule == "protocol":
		return "only a rule of network.allowedDomains for what is spoken there opens it: tcp://HOST:PORT for any bytes"
	case rule == "request":
		return "only a rule of network.allowedDomains for such requests opens it"
	case strings.HasPrefix(rule, "network.deniedDomains"):
		return "no permission opens what is denied there"
	case strings.HasPrefix(rule, "limits."):
		return "network." + rule + " in the settings bounds it"
	}
	return ""
}

// howToAllow says what would open the first cause, if anything does.
func howToAllow(out manager.Outcome) string {
	if len(out.Causes) == 0 {
		return ""
	}
	v := out.Causes[0]
	switch {
	case strings.Contains(out.BlockedReason, string(sandbox.CodeCapabilityBlocked)):
		return "" // it says so
	case v.Kind == sandbox.ResourceNetwork:
		return howToReach(v, len(out.Answers) > 0)
	case v.Builtin:
		return "no permission opens what is denied there"
	case v.Kind != sandbox.ResourcePath || v.HostPath == "" || len(out.Answers) > 0:
		return ""
	case v.Operation == sandbox.OpWrite:
		return "allow it with --ask, or with filesystem.allowWrite in the settings"
	}
	return "allow it with --ask, or with filesystem.allowRead in the settings"
}
