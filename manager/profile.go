package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/store"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// Profile tells what a call may do: what its grant, its manifest and the
// settings as they are now come to. It begins nothing, uses no decision up and
// leaves nothing on record, so it promises nothing for later. Of req, what is
// to be done is not looked at.
//
// The grant is believed, as by [Manager.Operate].
func (m *Manager) Profile(_ context.Context, req Operation) (grant.Profile, error) {
	var none grant.Profile
	if m.control == nil {
		return none, errNoControl()
	}
	c, err := m.control()
	if err != nil {
		return none, err
	}
	o := &order{m: m, c: c, req: req, who: whoOf(req.Grant)}
	if err := validWho(o.who); err != nil {
		return none, err
	}
	o.steps = m.pipeline(o.request(), gate.Call{})
	if o.steps.res, err = config.Resolve(o.steps.settings, o.who, nil); err != nil {
		return none, err
	}
	now := m.now()
	line := append([]grant.Grant{req.Grant}, req.Line...)
	if len(req.Line) > store.MaxDepth {
		return none, &sandbox.Error{Code: sandbox.CodeValidation, Op: "profile", Field: "line", Message: "the grant was derived too often"}
	}
	if err := grant.CheckLine(req.Grant, req.Line, now); err != nil {
		return none, err
	}
	for i := range line {
		if err := store.Check(c.Revocations, line[i], now); err != nil {
			return none, err
		}
	}
	if err := narrower(line); err != nil {
		return none, err
	}
	t, err := m.prepared.get(o)
	if err != nil {
		return none, err
	}
	return t.Build(req.Grant, now)
}
