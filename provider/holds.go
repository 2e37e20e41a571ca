package provider

import (
	"slices"

	"github.com/bulkhead-dev/sandbox"
)

// A Setting is the name of a setting, or of a group of them, whose effect is up
// to the provider.
type Setting string

// The settings that a provider may hold. Those of a group are held together:
// [HoldsFilesystem] are all lists of filesystem, [HoldsLimits] all limits of a
// command that are not held by the caller anyway.
const (
	HoldsNetwork    Setting = "docker.network"      // a sandbox is on no other network than the one that Spec.Network says
	HoldsMemory     Setting = "docker.memory"       // and docker.memorySwap
	HoldsCPUs       Setting = "docker.cpus"         //
	HoldsPIDs       Setting = "docker.pidsLimit"    //
	HoldsUlimits    Setting = "docker.ulimits"      //
	HoldsShmSize    Setting = "docker.shmSize"      //
	HoldsReadOnly   Setting = "docker.readOnlyRoot" //
	HoldsTmpfs      Setting = "docker.tmpfs"        // with the sizes
	HoldsBinds      Setting = "docker.binds"        //
	HoldsCapDrop    Setting = "docker.capDrop"      // no capability that Spec.Security does not leave
	HoldsUser       Setting = "docker.user"         // commands run as UID and GID of the Spec
	HoldsDNS        Setting = "docker.dns"          //
	HoldsExtraHosts Setting = "docker.extraHosts"   //
	HoldsSetup      Setting = "docker.setup"        //
	HoldsOnStart    Setting = "docker.onStart"      //
	HoldsRuntime    Setting = "docker.runtime"      //
	HoldsGPUs       Setting = "docker.gpus"         //
	HoldsSeccomp    Setting = "docker.seccompProfile"
	HoldsAppArmor   Setting = "docker.apparmorProfile"
	HoldsWorkspace  Setting = "workspaceAccess" // the workspace is the host's folder, and the agent's folder is shown
	HoldsFilesystem Setting = "filesystem"
	HoldsLimits     Setting = "limits"
	HoldsCache      Setting = "cache" // caches of package managers are shown, and outlive the sandbox
)

// A Holder is a provider that says which settings its sandboxes hold. What it
// does not name has no effect there: where the user has set it, nothing is made,
// and where it is a default, explain says so. A Spec without network is refused
// in any case unless [HoldsNetwork] is named.
//
// A provider that is no Holder refuses by itself, in Create and Open, every Spec
// of which it cannot hold all.
type Holder interface {
	// Holds returns the settings. It gives the same answer each time.
	Holds() []Setting
}

// demands says what a Spec asks of a provider.
func demands() []struct {
	Setting
	asked func(sandbox.Spec) bool
} {
	role := func(s sandbox.Spec, r sandbox.Role) bool {
		return slices.ContainsFunc(s.Mounts, func(m sandbox.Mount) bool { return m.Role == r })
	}
	return []struct {
		Setting
		asked func(sandbox.Spec) bool
	}{
		{HoldsNetwork, func(s sandbox.Spec) bool { return s.Network != "bridge" }},
		{HoldsMemory, func(s sandbox.Spec) bool { return s.Resources.Memory > 0 }},
		{HoldsCPUs, func(s sandbox.Spec) bool { return s.Resources.NanoCPUs > 0 }},
		{HoldsPIDs, func(s sandbox.Spec) bool { return s.Resources.PIDs > 0 }},
		{HoldsUlimits, func(s sandbox.Spec) bool { return len(s.Resources.Ulimits) > 0 }},
		{HoldsShmSize, func(s sandbox.Spec) bool { return s.Resources.ShmSize > 0 }},
		{HoldsReadOnly, func(s sandbox.Spec) bool { return s.ReadOnlyRoot }},
		{HoldsTmpfs, func(s sandbox.Spec) bool { return len(s.Tmpfs) > 0 }},
		{HoldsBinds, func(s sandbox.Spec) bool { return role(s, sandbox.RoleBind) }},
		{HoldsCapDrop, func(s sandbox.Spec) bool { return len(s.Security.CapDrop) > 0 }},
		{HoldsUser, func(s sandbox.Spec) bool { return true }},
		{HoldsDNS, func(s sandbox.Spec) bool { return len(s.DNS) > 0 }},
		{HoldsExtraHosts, func(s sandbox.Spec) bool { return len(s.ExtraHosts) > 0 }},
		{HoldsSetup, func(s sandbox.Spec) bool { return len(s.Setup) > 0 }},
		{HoldsOnStart, func(s sandbox.Spec) bool { return len(s.OnStart) > 0 }},
		{HoldsRuntime, func(s sandbox.Spec) bool { return s.Runtime != "" }},
		{HoldsGPUs, func(s sandbox.Spec) bool { return s.GPUs != "" }},
		{HoldsSeccomp, func(s sandbox.Spec) bool { return s.Security.Seccomp != "" }},
		{HoldsAppArmor, func(s sandbox.Spec) bool { return s.Security.AppArmor != "" }},
		{HoldsWorkspace, func(s sandbox.Spec) bool { return role(s, sandbox.RoleWorkspace) || role(s, sandbox.RoleAgent) }},
		{HoldsCache, func(s sandbox.Spec) bool { return role(s, sandbox.RoleCache) }},
		{HoldsFilesystem, func(s sandbox.Spec) bool {
			f := s.Filesystem
			return len(f.AllowRead)+len(f.DenyRead)+len(f.AllowWrite)+len(f.DenyWrite)+len(f.AllowUnixSockets) > 0
		}},
		{HoldsLimits, func(s sandbox.Spec) bool {
			l := s.Limits
			return l.Memory > 0 || l.CPUSeconds > 0 || l.FileSize > 0 || l.OpenFiles > 0 || l.Processes > 0
		}},
	}
}

// Settings returns all settings that a [Holder] may name.
func Settings() []Setting {
	var out []Setting
	for _, d := range demands() {
		out = append(out, d.Setting)
	}
	return out
}

// NotHeld returns the settings that s asks for and p does not hold, in the order
// of [Settings]; nil where p is no [Holder].
func NotHeld(p sandbox.Provider, s sandbox.Spec) []Setting {
	h, ok := p.(Holder)
	if !ok {
		return nil
	}
	held := h.Holds()
	var out []Setting
	for _, d := range demands() {
		if d.asked(s) && !slices.Contains(held, d.Setting) {
			out = append(out, d.Setting)
		}
	}
	return out
}
