package client

import (
	"context"
	"slices"
	"strings"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// maxShellID bounds in bytes what the guest is given of the name of a shell.
const maxShellID = 256

// Snapshot implements [sandbox.Snapshotter]. The states of shells beyond 48 MiB in
// all are left out. A guest from before it is [sandbox.CodeUnsupported].
func (c *Client) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	if !c.hello.Has(wire.FeatureSnapshot) {
		return sandbox.Snapshot{}, c.named(&sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "snapshot", Message: "the guest of the sandbox does not say what runs",
			Hint: "recreate the sandbox to get the current guest",
		})
	}
	k := &fileCall{
		c: c, op: "snapshot", request: wire.TypeSnapshot, asks: true, flows: true, limit: wire.MaxSnapshot,
		answered: make(chan struct{}), ended: make(chan struct{}), off: make(chan struct{}),
	}
	if err := k.do(ctx); err != nil {
		return sandbox.Snapshot{}, err
	}
	s := newFileStream(ctx, k)
	defer s.Close()
	content, err := s.all()
	if err != nil {
		return sandbox.Snapshot{}, err
	}
	m, err := wire.DecodeSnapshot(content)
	if err != nil {
		return sandbox.Snapshot{}, k.strange("the guest said what can be no snapshot")
	}
	return snapshotOf(m), nil
}

func snapshotOf(m wire.Snapshot) sandbox.Snapshot {
	text := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	var out sandbox.Snapshot
	for _, s := range m.Shells {
		out.Shells = append(out.Shells, sandbox.ShellState{
			ID: text(s.ID), Program: s.Program, Dir: text(s.Dir), Line: text(s.Line), Processes: int(s.Processes),
			Stale: !s.Kept, Content: s.State,
		})
	}
	slices.SortStableFunc(out.Shells, func(a, b sandbox.ShellState) int { return strings.Compare(a.ID, b.ID) })
	for _, r := range m.Commands {
		one := sandbox.RunningCommand{PID: int(r.PID), Dir: text(r.Dir), Started: time.Unix(0, int64(r.Started)), Detached: r.Detach, TTY: r.TTY}
		for _, a := range r.Args {
			one.Args = append(one.Args, text(a))
		}
		out.Running = append(out.Running, one)
	}
	slices.SortStableFunc(out.Running, func(a, b sandbox.RunningCommand) int { return a.Started.Compare(b.Started) })
	return out
}

// stateFrom returns a state with the variables env, as "KEY=value", laid over those
// in it.
func stateFrom(from sandbox.ShellState, env []string) (*ShellState, error) {
	invalid := func(message string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "open shell", Field: "from", Message: message}
	}
	// What ends the variables in a state, see the prelude of the guest's shells.
	export, before := "", ""
	switch from.Program {
	case "bash":
		export, before = "builtin export ", "\n__sandbox_end "
	case "sh":
		export, before = "command export ", "\n__sandbox_cd\n"
	default:
		return nil, invalid("there is no shell " + wire.Quote(from.Program))
	}
	text := string(from.Content)
	at := strings.LastIndex(text, before)
	if at < 0 || len(text) > wire.MaxSize || strings.IndexByte(text, 0) >= 0 {
		return nil, invalid("the state is not that of a shell")
	}
	var b strings.Builder
	b.WriteString(text[:at+1])
	for _, kv := range env {
		if key, value, _ := strings.Cut(kv, "="); isName(key) {
			b.WriteString(export + key + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'\n")
		}
	}
	b.WriteString(text[at+1:])
	return &ShellState{program: from.Program, stale: from.Stale, content: []byte(b.String())}, nil
}

// isName reports whether s can be the name of a variable of a shell.
func isName(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
