package operation

import (
	"context"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// visit checks a document of the main frame against the profile. Navigation by
// the page itself counts as a page that the call opens; a redirect belongs to
// the page that it began with.
func (e *browseExecutor) visit(_ context.Context, address string, hop int) error {
	if e.life.Err() != nil {
		return context.Cause(e.life)
	}
	e.mu.Lock()
	c := e.call
	opened := e.pages
	if hop == 0 {
		e.pages++
	} else {
		opened--
	}
	e.mu.Unlock()
	v, err := hold(c, address, hop, opened)
	if err != nil {
		if hop == 0 {
			e.mu.Lock()
			e.pages--
			e.mu.Unlock()
		}
		return err
	}
	f := evidence.Effect{Kind: grant.EffectNetwork, Host: place(v)}
	if f.Host == "" {
		f = evidence.Effect{Kind: grant.EffectRead, Path: fileOf(c, v.URL)}
	}
	e.effect(f)
	e.mu.Lock()
	e.host, e.file = f.Host, f.Path
	e.mu.Unlock()
	return nil
}

// hold checks a page against the guard, after the given number of pages were
// opened.
func hold(c *Call, address string, hop, opened int) (grant.Vetted, error) {
	if c == nil {
		return grant.Vetted{}, sandbox.Errorf(sandbox.CodeInternal, browseOp, "no operation has opened a page")
	}
	s := c.State()
	// The state may already count the page that is being opened.
	s.Depth = max(opened, s.Depth-1)
	v, err := c.Guard.ValidateHop(grant.Operation{Kind: grant.OpBrowserNav, URL: address}, max(hop, 1), s)
	if err == nil && c.Allowed != nil {
		err = c.Allowed(v)
	}
	return v, err
}

// read checks a file of the workspace that a page requests against the profile
// as if it were opened, except for the number of pages: the content of a page
// can request any file.
func (e *browseExecutor) read(_ context.Context, file string) error {
	if e.life.Err() != nil {
		return context.Cause(e.life)
	}
	e.mu.Lock()
	c := e.call
	e.mu.Unlock()
	if c == nil {
		return sandbox.Errorf(sandbox.CodeInternal, browseOp, "no operation has opened a page")
	}
	s := c.State()
	s.Depth = 0
	v, err := c.Guard.ValidateHop(grant.Operation{Kind: grant.OpBrowserNav, URL: "workspace:" + file}, 1, s)
	if err == nil && c.Allowed != nil {
		err = c.Allowed(v)
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	f := evidence.Effect{Kind: grant.EffectRead, Path: fileOf(c, v.URL)}
	noted := f.Path == e.file // as the page itself
	e.mu.Unlock()
	if !noted {
		e.effect(f)
	}
	return nil
}

// place is the host of an address with its port, empty where it has none.
func place(v grant.Vetted) string {
	if v.Port == 0 {
		return ""
	}
	return v.Host.Target(v.Port)
}

// fileOf is the path inside of a file of the workspace that was opened.
func fileOf(c *Call, address string) string {
	file, ok := strings.CutPrefix(address, "workspace:")
	if !ok {
		return ""
	}
	return c.Guard.Profile().Mappings.Root + "/" + file
}

// receive takes what pages have received. It does not wait.
func (e *browseExecutor) receive(n int64) {
	if n <= 0 {
		return
	}
	e.received.Add(n)
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// transfer counts a file before it goes to a page or comes from one.
func (e *browseExecutor) transfer(_ context.Context, t browser.Transfer) error {
	e.mu.Lock()
	c, running := e.call, e.running
	e.mu.Unlock()
	if !running {
		return sandbox.Errorf(sandbox.CodeInternal, browseOp, "no operation moves a file")
	}
	l := c.Guard.Profile().Limits
	switch {
	case t.Upload && t.Bytes > l.MaxBytesOut:
		return browseTooLarge("maxBytesOut", "sent", l.MaxBytesOut)
	case t.Upload:
		return c.Meter.Add(budget.BytesOut, t.Bytes)
	case t.Bytes > l.MaxBytesIn:
		return browseTooLarge("maxBytesIn", "received", l.MaxBytesIn)
	case c.State().Files >= l.MaxFiles:
		return &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: browseOp, Field: "profile.limits.maxFiles",
			Message: "at most " + strconv.FormatInt(l.MaxFiles, 10) + " files may be written by a call", Hint: "write fewer files",
		}
	}
	if err := c.Meter.Add(budget.BytesIn, t.Bytes); err != nil {
		return err
	}
	return c.Meter.Add(budget.Files, 1)
}

// browseTooLarge is a size beyond a limit of the profile.
func browseTooLarge(limit, what string, most int64) error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: browseOp, Field: "profile.limits." + limit,
		Message: "at most " + strconv.FormatInt(most, 10) + " bytes may be " + what + " at once", Hint: "use something smaller",
	}
}
