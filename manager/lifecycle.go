// This file decides what has to happen to a sandbox before a command
// can run in it: nothing, wake it, make it, or replace it.
//
// The decision is a pure function of what is wanted, what is there and how
// recently it was used. It never destroys on a guess: what may be in use is
// kept, and no answer from the provider is an error and not "there is none".

package manager

import (
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// HotWindow is how long after its last use a running sandbox counts as in use.
const hotWindow = 5 * time.Minute

// An Action is what has to be done.
type lifecycleAction string

// The actions.
const (
	lifecycleUse      lifecycleAction = "use"           // it runs and is as wanted
	lifecycleStart    lifecycleAction = "start"         // it is as wanted and stopped
	lifecycleUnpause  lifecycleAction = "unpause"       // it is as wanted and frozen
	keepAndHint       lifecycleAction = "keep-and-hint" // use it although its settings changed, and say so
	lifecycleRefuse   lifecycleAction = "refuse"        // run nothing until it is recreated
	lifecycleRecreate lifecycleAction = "recreate"      // remove it and make it anew
	lifecycleCreate   lifecycleAction = "create"        // there is none
)

// Input is all that the decision depends on.
type lifecycleInput struct {
	Flags []string // global flags of the command line, for hints; see [RecreateCommand]

	Owner sandbox.Owner // the caller
	Kind  sandbox.Kind  // of what is wanted; empty is a sandbox

	WantHash     string // config hash of what is wanted; required
	SettingsHash string // the same without the flags of this call; empty when there are none
	Drift        sandbox.DriftPolicy

	// Known says that the provider answered. Have is then what it knows,
	// nil when it knows of none. Without Known, Have means nothing.
	Known bool
	Have  *sandbox.Info

	// LastUsed is the recorded last use. Zero means that it is not known (a
	// lost record, say); a running sandbox then counts as hot, because what
	// may be in use is not destroyed. The next command records a use, so
	// this does not last.
	LastUsed  time.Time
	Leased    bool // something runs in it now
	Now       time.Time
	HotWindow time.Duration // zero or less: the constant HotWindow
}

// A Decision is what to do and why.
type lifecycleDecision struct {
	Action lifecycleAction

	// Wake says for KeepAndHint what has to be done first: Use (nothing),
	// Start or Unpause. For other actions it is empty.
	Wake lifecycleAction

	Reason string // one sentence without trailing period
	Hint   string // for KeepAndHint and Refuse: the command that resolves it
}

// Refusal returns the error that a Refuse decision about the sandbox name
// means.
func (d lifecycleDecision) Refusal(name string) *sandbox.Error {
	return &sandbox.Error{
		Code: sandbox.CodeBusy, Op: "ensure", Resource: name,
		Message: d.Reason, Hint: "recreate it: " + d.Hint,
	}
}

// decideAction returns what to do. It returns an error when nothing may be
// done: [sandbox.CodeUnavailable] when the provider gave no answer or one that
// cannot be interpreted, [sandbox.CodeUnsupported] when a newer version has made
// the sandbox, [sandbox.CodePermissionDeny] when the sandbox has another owner, [sandbox.CodeInternal] without a wanted hash.
func decideAction(in lifecycleInput) (lifecycleDecision, error) {
	if in.WantHash == "" {
		return lifecycleDecision{}, sandbox.Errorf(sandbox.CodeInternal, "ensure", "no config hash to compare with")
	}
	if !in.Known {
		return lifecycleDecision{}, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "ensure", Retryable: true,
			Message: "the provider did not say whether the sandbox exists",
			Hint:    "see what is wrong with: sandbox doctor",
		}
	}
	if in.Have == nil {
		return lifecycleDecision{Action: lifecycleCreate, Reason: "there is none"}, nil
	}
	older, err := in.Have.CheckFormat("ensure")
	if err != nil {
		return lifecycleDecision{}, err
	}
	if !in.Have.Owner.Same(in.Owner) {
		return lifecycleDecision{}, &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "ensure", Resource: in.Have.Name,
			Message: "the sandbox of that name belongs to another instance, tenant, scope or agent",
			Hint:    "see whose it is with: sandbox list --all --foreign",
		}
	}
	wake, err := wakeOf(in.Have)
	if err != nil {
		return lifecycleDecision{}, err
	}
	changed := "its settings changed"
	if older {
		changed = "an earlier version has made it"
	}
	if in.Have.ConfigHash == in.WantHash && !older {
		return lifecycleDecision{Action: wake, Reason: "it is as wanted and " + string(in.Have.Status)}, nil
	}
	why, hot := in.hot()
	if !hot {
		return lifecycleDecision{Action: lifecycleRecreate, Reason: changed + " and " + why}, nil
	}
	return in.drifted(wake, changed, why), nil
}

// wakeOf returns what makes the sandbox run.
func wakeOf(have *sandbox.Info) (lifecycleAction, error) {
	switch have.Status {
	case sandbox.StatusRunning:
		return lifecycleUse, nil
	case sandbox.StatusPaused:
		return lifecycleUnpause, nil
	case sandbox.StatusStopped:
		return lifecycleStart, nil
	}
	return "", &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "ensure", Resource: have.Name, Retryable: true,
		Message: fmt.Sprintf("the state of the sandbox is not known (%q)", have.Status),
		Hint:    "see what is wrong with: sandbox doctor",
	}
}

// hot reports whether the sandbox counts as in use, and why or why not. A
// paused one is alive: its processes wait in memory. A stopped one holds
// nothing, so only a lease protects it.
func (in lifecycleInput) hot() (why string, hot bool) {
	window := in.HotWindow
	if window <= 0 {
		window = hotWindow
	}
	idle := in.Now.Sub(in.LastUsed)
	switch {
	case in.Leased:
		return "something is running in it", true
	case in.Have.Status == sandbox.StatusStopped:
		return "it is stopped", false
	case in.LastUsed.IsZero():
		return "its last use is not known", true
	case idle < window: // also when last use lies ahead: the clock moved
		return fmt.Sprintf("it was used within the last %s", round(window)), true
	}
	return fmt.Sprintf("it has not been used for %s", round(idle)), false
}

// drifted decides about a hot sandbox whose hash differs.
//
// A difference that a flag of this call makes must not be passed over in
// silence: the caller asked for it now. When settings and flags both differ
// from what is there, the hashes cannot tell whether the flags are met, so
// that is refused as well.
func (in lifecycleInput) drifted(wake lifecycleAction, changed, why string) lifecycleDecision {
	d := lifecycleDecision{Action: lifecycleRefuse, Hint: recreateCommand(in.Flags, in.Owner, in.Kind)}
	flags := in.SettingsHash != "" && in.SettingsHash != in.WantHash
	switch {
	case flags && in.SettingsHash == in.Have.ConfigHash:
		d.Reason = "a flag of this call asks for other settings than the sandbox has, and " + why
	case flags:
		d.Reason = "the settings or a flag of this call ask for other than the sandbox has, and " + why
	case in.Drift == sandbox.DriftKeep:
		d.Action, d.Wake = keepAndHint, wake
		d.Reason = changed + ", and it is kept because " + why
	default: // refuse, and whatever else: fail closed
		d.Reason = changed + ", and " + why
	}
	return d
}

// round makes a duration readable.
func round(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		if d = d.Truncate(time.Minute); d < time.Hour {
			return fmt.Sprintf("%dm", d/time.Minute)
		}
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.Truncate(time.Second).String()
}
