// Package tools carries out what agents call: exec, process, run_code, read,
// write, edit, apply_patch, ls, glob, grep, image, checkpoint and browser. What goes in
// and comes out is said by package tools/schema; everything is done inside the sandbox of
// the session, and nothing of the host is ever opened.
//
// A [Kit] holds the tools of one session. It decides nothing: the settings say
// at each call which tools exist, by the rules of the manager's gate, and the
// gate judges each call again when it runs.
package tools

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/running"
	"github.com/bulkhead-dev/sandbox/tools/schema"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// A Manager is what tools need of a [manager.Manager].
type Manager interface {
	Usable(who config.Who, flags *config.SandboxSettings) (manager.Usable, error)
	Files(ctx context.Context, req manager.Request, fn func(manager.Share) error) error
	Shell(ctx context.Context, req manager.Request) (manager.Outcome, error)
	Ports(ctx context.Context, req manager.Request) ([]manager.Port, error)
	Name(who config.Who, flags *config.SandboxSettings) (string, error)
	Checkpoint(ctx context.Context, req manager.Request, o manager.CheckpointOptions) (checkpoint.Record, error)
	Checkpoints(ctx context.Context, f manager.CheckpointFilter) ([]checkpoint.Record, error)
	FindCheckpoint(ctx context.Context, tenant, ref string) (checkpoint.Record, error)
	Rollback(ctx context.Context, req manager.Request, ref string) (manager.RolledBack, error)
	Spend(ctx context.Context, fn func(context.Context) error, kinds ...budget.Kind) error
}

var _ Manager = (*manager.Manager)(nil)

// Options are what Tools are made of.
type Options struct {
	Manager Manager
	// Running holds shells and commands in the background; nil has neither, and
	// so none of exec, process and run_code. Its creator closes it.
	Running *running.Supervisor
	// Browser opens a session in the browser of a scope; nil has none.
	Browser func(ctx context.Context, who config.Who) (browser.Session, error)
	Log     logrus.FieldLogger // nil is silent
	Now     func() time.Time   // default time.Now
}

// Tools are the tools of all sessions. They are safe for concurrent use, and
// have to be closed.
type Tools struct {
	o     Options
	turns keylock.Turns // by sandbox: of two edits of one file neither loses what the other one did
	looks keylock.Turns // by sandbox: bounds the listings held in memory
	pages *display.Tabs
}

// maxLooks is how many calls look through folders of one sandbox at a time;
// others wait. A folder with 300,000 files takes 100 MB while it is listed.
const maxLooks = 2

// New returns the tools of all sessions.
func New(o Options) *Tools {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		silent := logrus.New()
		silent.SetLevel(logrus.PanicLevel)
		o.Log = silent
	}
	return &Tools{o: o, looks: keylock.Turns{Most: maxLooks}, pages: display.NewTabs(o.Browser)}
}

// Look is for callers that look through folders of the sandbox name beside the
// tools: it waits until few enough calls do so, or until ctx ends. The caller
// must call release once.
func (t *Tools) Look(ctx context.Context, name string) (release func(), err error) {
	return t.looks.Enter(ctx, name)
}

// Close ends the browser sessions that calls have left open. What runs in the
// background belongs to [Options.Running]. Close waits for running calls until
// ctx ends.
func (t *Tools) Close(ctx context.Context) error { return t.pages.Close(ctx) }

// EndSession ends the browser session that calls of a session have left open.
func (t *Tools) EndSession(ctx context.Context, who config.Who) error {
	_, err := t.pages.End(ctx, who)
	return err
}

// A Session says for whom tools are called.
type Session struct {
	Who      config.Who
	Flags    *config.SandboxSettings // settings of this caller alone; may be nil
	Subagent bool                    // commands.subagentBlock counts, too
	Ask      bool                    // the approver is asked where a rule stops a command and a grant opens it
}

// A Kit is the tools of one session. It is safe for concurrent use, holds
// nothing, and needs no closing.
type Kit struct {
	tools   *Tools
	session Session
}

// For returns the tools of a session. It creates nothing. It returns an error
// if the session cannot exist: its names or settings are wrong. A session that
// settings leave without a sandbox, without letting its commands run on the
// host, gets a kit without tools, and every call of it returns the error that
// says why.
func (t *Tools) For(_ context.Context, s Session) (*Kit, error) {
	if _, err := t.o.Manager.Usable(s.Who, s.Flags); err != nil {
		return nil, err
	}
	return &Kit{t, s}, nil
}

// An Answer is what a call came to.
type Answer struct {
	Text     string    // for agents to read
	Pictures []Picture // that belong to it
	Data     any       // the same for programs: a result of package tools/schema
	Failed   bool      // what was asked for was done, and did not succeed: a command exits with another status than 0
}

// A Picture is one that an agent is shown.
type Picture struct {
	MIME string // image/png, image/jpeg, image/gif or image/webp
	Data []byte
}

// Progress tells how far a call is. A call tells of it a few times a second at
// most, one at a time.
type Progress struct {
	Message string // the last line of output, bounded
	Bytes   int64  // of output so far
	Lines   int64
}

// Tools returns the tools that the session may use now, those of package
// tools/schema in their order.
func (k *Kit) Tools() []schema.Tool {
	usable, err := k.usable()
	if err != nil {
		k.tools.o.Log.WithError(err).Warn("a session has no tools, because its settings cannot be resolved")
		return nil
	}
	var out []schema.Tool
	for _, t := range schema.All() {
		if k.listed(usable, t.Name) == nil {
			out = append(out, t)
		}
	}
	return out
}

func (k *Kit) usable() (manager.Usable, error) {
	return k.tools.o.Manager.Usable(k.session.Who, k.session.Flags)
}

// listed is why a tool is none of the session's, nil where it is one.
func (k *Kit) listed(u manager.Usable, name string) error {
	if _, ok := schema.Find(name); !ok {
		return &sandbox.Error{Code: sandbox.CodeDenyTool, Op: "tool", Resource: shown(name), Message: "there is no tool " + shown(name)}
	}
	if u.Place == manager.Refused {
		return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: name,
			Message: "this session is not sandboxed (" + u.Reason + "), so it has no tools", Hint: "change the setting, or use another session; see: sandbox explain"}
	}
	if err := u.Tool(name).Err(); err != nil {
		return err
	}
	switch onHost := u.Place == manager.Unsandboxed; {
	case (name == "exec" || name == "process" || name == "run_code") && k.tools.o.Running == nil:
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: name, Message: "commands cannot be run here"}
	case name == "browser" && k.tools.o.Browser == nil:
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: name, Message: "there is no browser here"}
	case name == "browser" && !u.Browser:
		return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: name, Field: "browser.enabled", Message: "the settings have no browser for this agent", Hint: "set browser.enabled to true"}
	case onHost && name != "exec" && name != "process" && name != "browser":
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: name,
			Message: "this session runs without a sandbox (" + u.Reason + "), and " + name + " works on files of a sandbox only", Hint: "use exec, or a session that is sandboxed"}
	}
	return nil
}
