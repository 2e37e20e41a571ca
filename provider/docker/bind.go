package docker

import (
	"github.com/bulkhead-dev/sandbox"
)

// Bind returns a handle for the container behind sb that is another sandbox
// from now on: commands, shells and files are as s says, and Info is as. It
// takes the place of sb, which is not to be used or closed any more. Nothing
// is asked of engine or guest. Whether the container can become s is the
// caller's to know, see package pool.
func (p *Provider) Bind(sb sandbox.Sandbox, s sandbox.Spec, as sandbox.Info) (sandbox.Sandbox, error) {
	h, ok := sb.(*handle)
	if !ok {
		return nil, sandbox.Errorf(sandbox.CodeInternal, "bind", "a handle of %T is none of docker's", sb)
	}
	return &handle{info: as, spec: s, engine: h.engine, guest: h.guest, p: p, standby: h.standby}, nil
}
