// This file holds what the command line on one machine and the daemon on another
// exchange.

package api

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// HandlesPath is the prefix of the paths of open handles; the ticket follows.
const HandlesPath = "/v1/lent"

// A Use says how a sandbox is used. It is the Extra of a stream.Request of the
// route attachSession.
type Use struct {
	Shell     bool   `json:"shell,omitempty"`     // the arguments are the shell's; none is an interactive one
	MustExist bool   `json:"mustExist,omitempty"` // no sandbox is made
	Remove    bool   `json:"remove,omitempty"`    // with its workspace, afterwards
	Subagent  bool   `json:"subagent,omitempty"`  // judge as a sub-agent's
	Tool      string `json:"tool,omitempty"`      // of an agent that this is
	Ask       bool   `json:"ask,omitempty"`       // see /v1/approvals
	User      string `json:"user,omitempty"`      // inside
	From      string `json:"from,omitempty"`      // the checkpoint that a new sandbox begins with
	Flags     *Flags `json:"flags,omitempty"`     // for admins
}

// Flags are the settings of one call.
type Flags struct {
	Settings  json.RawMessage `json:"settings,omitempty"`  // as agents.defaults.sandbox of a settings file
	Workspace *string         `json:"workspace,omitempty"` // a folder of the daemon's machine
}

// FlagsOf returns s in the form that is sent; nil is nil.
func FlagsOf(s *config.SandboxSettings) (*Flags, error) {
	if s == nil {
		return nil, nil
	}
	b, err := json.Marshal(s)
	return &Flags{Settings: b, Workspace: s.Workspace}, err
}

// Layer parses received flags by the rules of a settings file. It accepts any
// name of a provider: unknown ones are found when the settings are resolved.
func (f *Flags) Layer() (*config.SandboxSettings, error) {
	if f == nil {
		return nil, nil
	}
	if len(f.Settings) == 0 {
		return &config.SandboxSettings{Workspace: f.Workspace}, nil
	}
	if !json.Valid(f.Settings) { // which a settings file need not be
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "read flags", Field: "flags", Message: "the settings are no JSON"}
	}
	layer, err := config.ParseLayer("flags", f.Settings)
	if err != nil {
		return nil, err
	}
	layer.Workspace = f.Workspace
	return layer, nil
}

// An Outcome is the result of a command beside its exit.
type Outcome struct {
	Name            string              `json:"name"`
	TimedOut        bool                `json:"timedOut"`
	Created         bool                `json:"created"`
	Claimed         bool                `json:"claimed,omitempty"`
	Miss            *pool.Miss          `json:"miss,omitempty"`
	Duration        time.Duration       `json:"durationNanos"`
	Blocked         bool                `json:"blocked"`
	BlockedReason   string              `json:"blockedReason,omitempty"`
	BlockedResource string              `json:"blockedResource,omitempty"`
	Waited          *sandbox.Waited     `json:"waited,omitempty"`
	Warnings        []string            `json:"warnings,omitempty"`
	Violations      []sandbox.Violation `json:"violations,omitempty"`
	Causes          []sandbox.Violation `json:"causes,omitempty"`
	Answers         []manager.Answer    `json:"answers,omitempty"`
}

// OutcomeOf returns o in the form that is sent. Only an admin receives paths of
// the host.
func OutcomeOf(o manager.Outcome, admin bool) Outcome {
	hide := func(vs []sandbox.Violation) []sandbox.Violation {
		out := make([]sandbox.Violation, len(vs))
		copy(out, vs)
		for i := range out {
			if !admin {
				out[i].HostPath = ""
			}
		}
		return out
	}
	answers := slices.Clone(o.Answers)
	for i := range answers {
		if a := &answers[i]; !admin {
			a.Note, a.Request = "", a.Request.Inward()
		}
	}
	return Outcome{
		Answers: answers,
		Name:    o.Name, TimedOut: o.TimedOut, Created: o.Created, Claimed: o.Claimed, Miss: o.Miss, Duration: o.Duration, Blocked: o.Blocked,
		BlockedReason: o.BlockedReason, BlockedResource: o.BlockedResource, Waited: o.Waited, Warnings: o.Warnings, Violations: hide(o.Violations), Causes: hide(o.Causes),
	}
}

// Whole returns the outcome of a command that ended with exit.
func (o Outcome) Whole(exit sandbox.Exit) manager.Outcome {
	return manager.Outcome{
		Answers: o.Answers,
		Name:    o.Name, Exit: exit, TimedOut: o.TimedOut, Created: o.Created, Claimed: o.Claimed, Miss: o.Miss, Duration: o.Duration, Blocked: o.Blocked,
		BlockedReason: o.BlockedReason, BlockedResource: o.BlockedResource, Waited: o.Waited, Warnings: o.Warnings, Violations: o.Violations, Causes: o.Causes,
	}
}

// A HandleRequest is a request for access to the files of the session's sandbox.
type HandleRequest struct {
	MustExist bool   `json:"mustExist,omitempty"`
	Flags     *Flags `json:"flags,omitempty"`
}

// A Handle is the address of the files, valid for as long as the socket is open.
type Handle struct {
	Ticket    string             `json:"ticket,omitempty"`
	Name      string             `json:"name,omitempty"`
	Roots     []Root             `json:"roots,omitempty"`
	Exposed   []string           `json:"exposed,omitempty"` // see manager.Share; for admins
	Transport fsbridge.Transport `json:"transport"`
	Error     *Document          `json:"error,omitempty"` // instead of all that
}

// A Root is a folder inside the sandbox below which files are served.
type Root struct {
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// A Listing is the sandboxes that exist, and with an error those that the
// records know.
type Listing struct {
	Containers []manager.Row `json:"containers"`
	Browsers   []manager.Row `json:"browsers"`
	Error      *Document     `json:"error,omitempty"`
}

// A Selection says which sandboxes are meant: exactly one of the first three
// fields, or Session and Agent.
type Selection struct {
	Session  string `json:"session,omitempty" maxlen:"256"`
	Agent    string `json:"agent,omitempty" maxlen:"64"`
	All      bool   `json:"all,omitempty"`
	Browsers bool   `json:"browsers,omitempty" doc:"Browsers instead of sandboxes"`
}

// Selected are the sandboxes of a selection.
type Selected struct {
	Items []manager.Row `json:"items"`
}

// A RecreateForm names sandboxes to be removed, so that their next use makes new
// ones.
type RecreateForm struct {
	Names []string `json:"names" required:"true" maxitems:"1000"`
}

// A ClearedForm lists what was removed.
type ClearedForm struct {
	Removed []manager.Removed `json:"removed"`
	Kept    int               `json:"kept"`
	Failed  []manager.Failed  `json:"failed"`
}

// A Prune says what is to be removed; the settings supply what is absent.
type Prune struct {
	Idle       *time.Duration `json:"idleNanos,omitempty"`
	MaxAge     *time.Duration `json:"maxAgeNanos,omitempty"`
	Workspaces bool           `json:"workspaces,omitempty"`
	DryRun     bool           `json:"dryRun,omitempty"`
}

// An Explain asks what sandbox a session gets, and why.
type Explain struct {
	Flags   *Flags `json:"flags,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Command string `json:"command,omitempty"`
	Path    string `json:"path,omitempty"`
	Host    string `json:"host,omitempty"`
	Method  string `json:"method,omitempty"`
}

// ReadExplain parses the body of the request.
func ReadExplain(b []byte) (Explain, error) {
	var q Explain
	err := jsonschema.Decode(b, &q)
	return q, err
}
