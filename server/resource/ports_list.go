// This file lists the ports at which programs inside a sandbox listen.

package resource

import (
	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

func (x *Ports) list(c *Call) (any, error) {
	at, err := Sandboxed(c, x.manager)
	if err != nil {
		return nil, err
	}
	var out api.PortList
	req := manager.Request{Who: at.Who, Flags: c.Settings, MustExist: true, Tool: c.Tool("exec")}
	err = x.manager.WithSandbox(c.Context(), req, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		found, err := manager.PortsOf(c.Context(), sb)
		out.Items = make([]api.Port, len(found))
		for i, p := range found {
			out.Items[i] = api.Port(p)
		}
		return err
	})
	return out, err
}
