package resource

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// create starts the sandbox of a session, once for each idempotency key.
func (s *sandboxesResource) create(c *Call) (any, error) {
	in, err := Body[api.CreateSandbox](c)
	if err != nil {
		return nil, err
	}
	who, err := whose(c, in)
	if err != nil {
		return nil, err
	}
	if err := creatable(in); err != nil {
		return nil, err
	}
	if in.Asks() { // a replay with other fields says which
		if err := s.o.Manager.CheckCreation(who, c.Settings, in.Creation); err != nil {
			return nil, err
		}
	}
	if in.From, err = fromCheckpoint(c, s.o.Manager, who.Tenant, in.From); err != nil {
		return nil, err
	}
	key, err := keyOf(c, in)
	if err != nil {
		return nil, err
	}
	if key == "" {
		status, made, err := s.make(c, who, in)
		return Reply{Status: status, Header: located(made.Name), Body: made}, err
	}
	content, err := json.Marshal(struct {
		Who  config.Who
		TTL  int64
		Wait bool
		With string `json:",omitempty"` // settings of the call

		Asks *config.Creation `json:",omitempty"`
		From string           `json:",omitempty"`
	}{who, in.TTLSeconds, in.Wait == nil || *in.Wait, c.Request.Header.Get(api.HeaderSettings), asksOf(in), in.From})
	if err != nil {
		return nil, err
	}
	answer, replayed, err := s.o.Answers.Do(c.Context(), idempotencyOwner{Tenant: who.Tenant, Agent: c.Caller.Agent, Session: c.Caller.Session}, key, content, func() (idempotencyAnswer, error) {
		status, made, err := s.make(c, who, in)
		if err != nil {
			return idempotencyAnswer{}, err
		}
		body, err := json.Marshal(made)
		return idempotencyAnswer{Status: status, Body: body}, err
	})
	if err != nil {
		return nil, err
	}
	var made api.Sandbox
	if err := json.Unmarshal(answer.Body, &made); err != nil {
		return nil, err
	}
	made = reserved(c, made) // an admin may have asked before
	h := located(made.Name)
	if replayed {
		h.Set(api.HeaderReplayed, "true")
	}
	return Reply{Status: answer.Status, Header: h, Body: made}, nil
}

// asksOf is what a request asks for beside the settings, nil for nothing.
func asksOf(in api.CreateSandbox) *config.Creation {
	if !in.Asks() {
		return nil
	}
	return &in.Creation
}

// creatable refuses fields that exclude each other.
func creatable(in api.CreateSandbox) error {
	waits := in.Wait == nil || *in.Wait
	switch {
	case in.From != "" && !waits:
		return Invalid("wait", "must be true for a sandbox that begins with a checkpoint, so that the answer says what is refused")
	case !in.Asks():
		return nil
	case in.TTLSeconds > 0 && in.Timeout > 0:
		return Invalid("timeout", "excludes ttlSeconds: a sandbox has one end")
	case in.Timeout == 0 && in.OnTimeout != "":
		return Invalid("onTimeout", "needs timeout")
	case !waits:
		return Invalid("wait", "must be true for a sandbox that is created with fields of its own, so that the answer says what is refused")
	}
	return nil
}

func located(name string) http.Header {
	return http.Header{"Location": {api.Prefix + "/sandboxes/" + name}}
}

// whose returns on whose behalf a sandbox is requested: the body and the headers
// must agree where both name something.
func whose(c *Call, in api.CreateSandbox) (config.Who, error) {
	who := c.Who
	for _, f := range []struct {
		field, header, given string
		to                   *string
	}{{"agent", api.HeaderAgent, in.Agent, &who.Agent}, {"session", api.HeaderSession, in.Session, &who.Session}} {
		if f.given == "" {
			continue
		}
		if c.Request.Header.Get(f.header) != "" && *f.to != f.given {
			return who, Invalid(f.field, "says something else than the header "+f.header)
		}
		*f.to = f.given
	}
	return who, c.Caller.Speaks(who)
}

// keyOf returns the idempotency key of a request, or "".
func keyOf(c *Call, in api.CreateSandbox) (string, error) {
	given := c.Request.Header.Values(api.HeaderIdempotency)
	switch {
	case len(given) > 1:
		return "", Invalid(api.HeaderIdempotency, "is there more than once")
	case len(given) == 1 && in.IdempotencyKey != "" && given[0] != in.IdempotencyKey:
		return "", Invalid("idempotencyKey", "says something else than the header "+api.HeaderIdempotency)
	case len(given) == 1 && given[0] == "":
		return "", Invalid(api.HeaderIdempotency, "is empty")
	case len(given) == 1:
		return given[0], nil
	}
	return in.IdempotencyKey, nil
}

// make starts the sandbox, or has it started in the background.
func (s *sandboxesResource) make(c *Call, who config.Who, in api.CreateSandbox) (status int, made api.Sandbox, err error) {
	if _, err := InsideWith(s.o.Manager, who, c.Settings); err != nil {
		return 0, made, err
	}
	name, err := s.o.Manager.Name(who, c.Settings)
	if err != nil {
		return 0, made, err
	}
	if in.Wait != nil && !*in.Wait {
		return s.later(asker{ctx: c.Context(), id: c.Caller.ID(), who: who, settings: c.Settings}, name, in)
	}
	p, err := s.bring(c, who, in)
	if err != nil {
		return 0, made, err
	}
	row, err := s.o.Manager.Find(c.Context(), who.Tenant, p.Name, providerOf(c))
	if err != nil {
		return 0, made, err
	}
	made, status = brought(c, row, p), http.StatusOK
	if p.Created {
		status = http.StatusCreated
	}
	return status, made, nil
}

// bring starts the sandbox with what the request asks for, and has it kept.
func (s *sandboxesResource) bring(c *Call, who config.Who, in api.CreateSandbox) (p manager.Prepared, err error) {
	if in.Asks() {
		p, err = s.o.Manager.Create(c.Context(), manager.Request{Who: who, Flags: c.Settings, From: in.From}, in.Creation)
	} else {
		p, err = s.ready(c.Context(), manager.Request{Who: who, Flags: c.Settings, From: in.From})
	}
	if err == nil && in.TTLSeconds > 0 {
		err = s.keep(c.Context(), who.Tenant, p.Name, providerOf(c), in.TTLSeconds)
	}
	return p, err
}

// ready starts the sandbox.
func (s *sandboxesResource) ready(ctx context.Context, req manager.Request) (manager.Prepared, error) {
	p, err := s.o.Manager.Ready(ctx, req)
	if err == nil && p.Place != manager.Sandboxed {
		err = &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Message: "this session has no sandbox: " + p.Reason}
	}
	return p, err
}

// keep sets how long a sandbox is kept, in seconds.
func (s *sandboxesResource) keep(ctx context.Context, tenant, name, provider string, ttl int64) error {
	err := s.o.Manager.Extend(ctx, tenant, name, provider, time.Now().Add(time.Duration(ttl)*time.Second))
	var e *sandbox.Error
	if errors.As(err, &e) && e.Field == "until" {
		reported := *e
		reported.Field = "ttlSeconds"
		return &reported
	}
	return err
}

// recreate removes the sandbox of the path and makes a new one.
func (s *sandboxesResource) recreate(c *Call) (any, error) {
	in, err := Body[api.Recreate](c)
	if err != nil {
		return nil, err
	}
	at, err := Sandboxed(c, s.o.Manager)
	if err != nil {
		return nil, err
	}
	row, err := s.own(c)
	if err != nil {
		return nil, err
	}
	if row.Kind != sandbox.KindSandbox {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "recreate", Resource: row.Name, Message: "this is no sandbox for commands", Hint: "remove it; it comes up again with its next use"}
	}
	if err := s.o.Manager.Remove(c.Context(), row, manager.RemoveOptions{Force: in.Force, Keep: true}); err != nil {
		return nil, err
	}
	p, err := s.bring(c, at.Who, api.CreateSandbox{})
	if err != nil {
		return nil, err
	}
	if row, err = s.o.Manager.Find(c.Context(), at.Who.Tenant, p.Name, providerOf(c)); err != nil {
		return nil, err
	}
	return brought(c, row, p), nil
}

// brought returns a sandbox with how it was started for this request.
func brought(c *Call, row manager.Row, p manager.Prepared) api.Sandbox {
	made := shown(c, row)
	made.Created, made.Claimed, made.Miss = p.Created, p.Claimed, p.Miss
	if p.Miss != nil {
		made.Note = p.Miss.Detail
	}
	return made
}
