package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/registry/pool"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// The inputs and results of the tools that make and remove sandboxes, with the
// tags of package tools/schema.
type (
	createInput struct {
		Agent   string `json:"agent" maxlen:"64" doc:"Who speaks; this session's agent by default. Others only where the client may act for its whole tenant."`
		Session string `json:"session" maxlen:"256" doc:"The conversation; this one by default. Others only where the client may act for its whole tenant."`
	}
	createResult struct {
		Name    string `json:"name" doc:"The sandbox."`
		Created bool   `json:"created" doc:"It was made by this call; otherwise it was there."`
		Place   string `json:"place" doc:"Where commands of the session run."`
		Reason  string `json:"reason" doc:"Why there."`
		Claimed bool   `json:"claimed,omitempty" doc:"It was kept ready, and claimed by this call."`

		Miss *pool.Miss `json:"miss,omitempty" doc:"Why it was made although some are kept ready, and how long that took."`
	}
	listInput struct {
		Limit int `json:"limit" min:"1" max:"1000" default:"100" doc:"The most sandboxes."`
	}
	listResult struct {
		Sandboxes []entry `json:"sandboxes" doc:"The sandboxes, with browsers."`
		Total     int     `json:"total" doc:"How many there are."`
	}
	// An entry is a sandbox, without anything about the host.
	entry struct {
		Name       string    `json:"name" doc:"The sandbox."`
		Kind       string    `json:"kind" doc:"sandbox or browser."`
		Provider   string    `json:"provider" doc:"What isolates it."`
		Agent      string    `json:"agent" doc:"Who speaks in it."`
		Session    string    `json:"session" doc:"The conversation that made it."`
		Scope      string    `json:"scope" doc:"Who shares it."`
		Status     string    `json:"status" doc:"running, paused, stopped, missing, orphan or unknown."`
		Image      string    `json:"image,omitempty" doc:"What it was made from."`
		Outdated   bool      `json:"outdated,omitempty" doc:"Its settings or its image are others now; sandbox_recreate makes it anew."`
		CreatedAt  time.Time `json:"createdAt" doc:"When it was made."`
		LastUsedAt time.Time `json:"lastUsedAt" doc:"When it was used last."`
	}
	nameInput struct {
		Name     string `json:"name" maxlen:"256" doc:"The sandbox, as sandbox_list names it; this session's own by default."`
		Provider string `json:"provider" maxlen:"64" doc:"Of two sandboxes of this name with different providers, the one with this; by default the one of the provider that the settings name."`
	}
	nameResult struct {
		Name string `json:"name" doc:"The sandbox."`
		Done string `json:"done" enum:"recreated,removed" doc:"What was done with it."`
	}
)

// managing returns the tools that make and remove sandboxes.
func managing() []schema.Tool {
	return []schema.Tool{
		schema.Define[createInput, createResult](schema.Tool{Name: "sandbox_create", Title: "Make the sandbox", Version: "1.0.0", Idempotent: true,
			Description: "Brings the session's sandbox up, or says that it is there. Other tools do that by themselves.", Examples: []string{`{}`}}),
		schema.Define[listInput, listResult](schema.Tool{Name: "sandbox_list", Title: "List sandboxes", Version: "1.0.0", ReadOnly: true, Idempotent: true,
			Description: "Lists sandboxes and how they are.", Examples: []string{`{}`}}),
		schema.Define[nameInput, nameResult](schema.Tool{Name: "sandbox_recreate", Title: "Make a sandbox anew", Version: "1.0.0", Destructive: true,
			Description: "Takes a sandbox away and makes it anew from its image and the settings of now. Its workspace stays; all else in it is lost.", Examples: []string{`{}`}}),
		schema.Define[nameInput, nameResult](schema.Tool{Name: "sandbox_remove", Title: "Take a sandbox away", Version: "1.0.0", Destructive: true,
			Description: "Takes a sandbox away. Its workspace stays for the next one; all else in it is lost.", Examples: []string{`{}`}}),
	}
}

// manages returns those of them that the session may use now. Settings do not
// list them among the tools that agents have by default, but rules that name
// them apply.
func (x *session) manages() []schema.Tool {
	u, err := x.o.Manager.Usable(x.bound.Who, x.bound.Flags)
	if err != nil {
		return nil // the kit returns its own error
	}
	return slices.DeleteFunc(managing(), func(t schema.Tool) bool { return mayManage(u, t.Name) != nil })
}

func mayManage(u manager.Usable, name string) error {
	if u.Place == manager.Refused {
		return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: name, Message: "this session is not sandboxed (" + u.Reason + "), so it has no tools", Hint: "change the setting, or use another session; see: sandbox explain"}
	}
	d := u.Tool(name)
	if d.Verdict == policy.Allow || d.Rule == "tools.allow" && d.Layer == "default" {
		return nil
	}
	return d.Err()
}

// manage carries out one of them.
func (x *session) manage(ctx context.Context, name string, input json.RawMessage) (tools.Answer, error) {
	u, err := x.o.Manager.Usable(x.bound.Who, x.bound.Flags)
	if err == nil {
		err = mayManage(u, name)
	}
	if err != nil {
		return tools.Answer{}, err
	}
	switch name {
	case "sandbox_create":
		return managed(ctx, name, input, x.create)
	case "sandbox_list":
		return managed(ctx, name, input, x.list)
	case "sandbox_recreate":
		return managed(ctx, name, input, x.recreate)
	}
	return managed(ctx, name, input, x.remove)
}

func managed[T any](ctx context.Context, name string, input json.RawMessage, do func(context.Context, T) (tools.Answer, error)) (tools.Answer, error) {
	in, err := schema.Decode[T](name, input)
	if err != nil {
		return tools.Answer{}, err
	}
	return do(ctx, in)
}

// request returns a request on behalf of who, with the settings of this
// session's caller.
func (x *session) request(who config.Who) manager.Request {
	return manager.Request{Who: who, Flags: x.bound.Flags, Subagent: x.bound.Subagent}
}

func (x *session) create(ctx context.Context, in createInput) (tools.Answer, error) {
	who := x.bound.Who
	who.Agent, who.Session = cmp.Or(in.Agent, who.Agent), cmp.Or(in.Session, who.Session)
	if who != x.bound.Who && !x.bound.Tenant {
		return tools.Answer{}, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "sandbox_create", Field: "session", Message: "this client is bound to its own session"}
	}
	p, err := x.o.Manager.Ready(ctx, x.request(who))
	if err != nil {
		return tools.Answer{}, err
	}
	text := "The sandbox " + p.Name + " is there."
	if p.Created {
		text = "The sandbox " + p.Name + " was made."
	}
	return tools.Answer{Text: text, Data: createResult{p.Name, p.Created, fmt.Sprint(p.Place), p.Reason, p.Claimed, p.Miss}}, nil
}

// rows returns the sandboxes that the client may see.
func (x *session) rows(ctx context.Context) ([]manager.Row, error) {
	l, err := x.o.Manager.List(ctx, manager.ListOptions{Tenant: x.bound.Who.Tenant})
	if err != nil {
		return nil, err
	}
	all := append(l.Containers, l.Browsers...)
	if x.bound.Tenant {
		return all, nil
	}
	own, err := x.o.Manager.Name(x.bound.Who, x.bound.Flags)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(r manager.Row) bool { return r.Name == own })
	if at < 0 {
		return nil, nil
	}
	mine := all[at]
	return slices.DeleteFunc(all, func(r manager.Row) bool { return r.Scope != mine.Scope || r.ScopeKey != mine.ScopeKey }), nil
}

func (x *session) list(ctx context.Context, in listInput) (tools.Answer, error) {
	rows, err := x.rows(ctx)
	if err != nil {
		return tools.Answer{}, err
	}
	out := listResult{Sandboxes: []entry{}, Total: len(rows)}
	var text strings.Builder
	for _, r := range rows[:min(len(rows), in.Limit)] {
		no := func(match *bool) bool { return match != nil && !*match }
		e := entry{Name: r.Name, Kind: string(r.Kind), Provider: r.Provider, Agent: r.Agent, Session: r.Session, Scope: string(r.Scope), Status: string(r.Status),
			Image: r.Image, Outdated: no(r.ImageMatch) || no(r.ConfigMatch), CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt}
		if !x.bound.Tenant { // others may share it
			e.Session = x.bound.Who.Session
		}
		out.Sandboxes = append(out.Sandboxes, e)
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\tagent %s\tsession %s\n", e.Name, e.Kind, e.Provider, e.Status, e.Agent, e.Session)
	}
	if len(rows) == 0 {
		text.WriteString("There is no sandbox.\n")
	} else if len(rows) > in.Limit {
		fmt.Fprintf(&text, "[%d of %d; a larger limit shows more]\n", in.Limit, len(rows))
	}
	return tools.Answer{Text: text.String(), Data: out}, nil
}

// named finds the sandbox of that name. One that the client may not see does not
// exist for it. Without a provider it first looks in the provider of this
// server's flags.
func (x *session) named(ctx context.Context, name, provider string) (manager.Row, error) {
	own, err := x.o.Manager.Name(x.bound.Who, x.bound.Flags)
	if err != nil {
		return manager.Row{}, err
	}
	name = cmp.Or(name, own)
	none := &sandbox.Error{Code: sandbox.CodeNotFound, Op: "find", Resource: name, Message: "there is no such sandbox", Hint: "sandbox_list says which there are"}
	if name != own && !x.bound.Tenant {
		rows, err := x.rows(ctx)
		if err != nil {
			return manager.Row{}, err
		}
		if !slices.ContainsFunc(rows, func(r manager.Row) bool { return r.Name == name }) {
			return manager.Row{}, none
		}
	}
	if f := x.bound.Flags; provider == "" && f != nil && f.Provider != nil && *f.Provider != "auto" {
		if r, err := x.o.Manager.Find(ctx, x.bound.Who.Tenant, name, *f.Provider); !sandbox.IsNotFound(err) {
			return r, err
		}
	}
	r, err := x.o.Manager.Find(ctx, x.bound.Who.Tenant, name, provider)
	if sandbox.IsNotFound(err) {
		return r, none
	}
	return r, err
}

// takeAway removes the sandbox of that name.
func (x *session) takeAway(ctx context.Context, name, provider string) (manager.Row, error) {
	r, err := x.named(ctx, name, provider)
	if err != nil {
		return r, err
	}
	if !x.owns(r) {
		return r, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "remove", Resource: r.Name, Message: "others share this sandbox",
			Hint: "leave it to a client that acts for all who share it"}
	}
	if done := x.o.Manager.Recreate(ctx, []manager.Row{r}); len(done.Failed) > 0 {
		f := done.Failed[0]
		e := &sandbox.Error{Code: f.Code, Op: "remove", Resource: f.Name, Message: "the sandbox was not taken away: " + f.Error}
		if f.Code == sandbox.CodeBusy {
			e.Message, e.Hint, e.Retryable = "something runs in the sandbox", "end it first: process lists and kills what runs in the background", true
		}
		return r, e
	}
	return r, nil
}

// owns reports whether the client may remove a sandbox that it can reach.
func (x *session) owns(r manager.Row) bool {
	if x.bound.Owns != nil {
		return x.bound.Owns(r)
	}
	return x.bound.Tenant || r.Scope == sandbox.ScopeSession
}

func (x *session) remove(ctx context.Context, in nameInput) (tools.Answer, error) {
	r, err := x.takeAway(ctx, in.Name, in.Provider)
	if err != nil {
		return tools.Answer{}, err
	}
	return tools.Answer{Text: "The sandbox " + r.Name + " was taken away.", Data: nameResult{r.Name, "removed"}}, nil
}

func (x *session) recreate(ctx context.Context, in nameInput) (tools.Answer, error) {
	r, err := x.takeAway(ctx, in.Name, in.Provider)
	if err != nil {
		return tools.Answer{}, err
	}
	if r.Kind == sandbox.KindSandbox {
		if _, err := x.o.Manager.Ready(ctx, x.request(config.Who{Tenant: r.Tenant, Agent: r.Agent, Session: r.Session})); err != nil {
			return tools.Answer{}, err
		}
	}
	return tools.Answer{Text: "The sandbox " + r.Name + " was made anew.", Data: nameResult{r.Name, "recreated"}}, nil
}
