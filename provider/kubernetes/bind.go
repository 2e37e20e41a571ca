package kubernetes

import "github.com/bulkhead-dev/sandbox"

// Bind returns a handle for the pod behind sb that is another sandbox from now on:
// commands, shells and files are as s says, and Info is as. It takes the place of
// sb, whose session with the guest it goes on with; sb is not to be used or closed any
// more. The API server is not asked, and the pod keeps its labels: whose it is the
// registry knows, so that no right to change pods is needed. Whether the pod can
// become s is the caller's to know, see package pool.
func (p *Provider) Bind(sb sandbox.Sandbox, s sandbox.Spec, as sandbox.Info) (sandbox.Sandbox, error) {
	h, ok := sb.(*handle)
	if !ok {
		return nil, sandbox.Errorf(sandbox.CodeInternal, "bind", "a handle of %T is none of kubernetes'", sb)
	}
	if p.Separates(s.Owner.Tenant) {
		return nil, sandbox.Errorf(sandbox.CodeUnsupported, "bind", "the pod is not in the namespace of the tenant")
	}
	return &handle{info: as, spec: s, guest: h.guest, way: h.way, trust: h.trust}, nil
}
