package manager

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/provider"
)

// refuseUnheld returns an error for the first setting of s that settings or flags have set
// and the provider p says nothing of, and for a sandbox without network where p
// does not say that there is none. Nothing that was asked for is left out in
// silence.
func refuseUnheld(res config.Resolved, p sandbox.Provider, s sandbox.Spec) error {
	for _, name := range provider.NotHeld(p, s) {
		closed := name == provider.HoldsNetwork && s.Network == "none"
		field, set := res.SetBy(pathsOf(name)...)
		if !set && !closed {
			continue
		}
		e := &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "resolve", Field: field, Resource: s.Name,
			Message: fmt.Sprintf("the provider %s does not enforce %s", p.Name(), name), Hint: "leave the setting out, or use another provider",
		}
		if closed {
			e.Message = fmt.Sprintf("the provider %s does not say that its sandboxes have no network", p.Name())
			e.Hint = `use another provider, or set docker.network to "bridge" where programs inside may reach any host`
		}
		return e
	}
	return nil
}

// pathsOf are the paths of the settings that name stands for.
func pathsOf(name provider.Setting) []string {
	switch name {
	case provider.HoldsMemory:
		return []string{string(name), "docker.memorySwap"}
	case provider.HoldsWorkspace:
		return []string{string(name), "workspace"} // and the flag that names a folder
	}
	return []string{string(name)}
}

// unheldNotes says which defaults the provider p does not hold for s.
func unheldNotes(p sandbox.Provider, s sandbox.Spec) []string {
	var out []string
	for _, name := range provider.NotHeld(p, s) {
		out = append(out, fmt.Sprintf("%s is not enforced: the provider %s does not say that it does", name, p.Name()))
	}
	return out
}

// noImageNotice returns a notice if the settings name an image and the provider
// makes its sandboxes from none.
func noImageNotice(res config.Resolved, p sandbox.Provider) []config.Notice {
	field, set := res.SetBy("docker.image")
	if _, registered := p.(provider.Holder); !registered || !set || p.Features().Images {
		return nil
	}
	return []config.Notice{{Path: field, Value: fmt.Sprintf("%q", res.Docker.Image), Why: "sandboxes of the provider " + p.Name() + " are made from no image"}}
}

// heldBy are the names of the settings that p says it holds.
func heldBy(p sandbox.Provider) []string {
	h, ok := p.(provider.Holder)
	if !ok {
		return nil
	}
	var out []string
	for _, name := range h.Holds() {
		out = append(out, string(name))
	}
	return out
}
