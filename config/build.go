package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

// BuildSpec gives the complete description of the sandbox that r asks for in
// the world of f. It is deterministic: equal arguments give equal Specs.
//
// A missing fact is [sandbox.CodeInternal], a setting that cannot be met is
// [sandbox.CodeValidation], and what package hardening refuses is
// [sandbox.CodeCapabilityBlocked].
func BuildSpec(r Resolved, f Facts) (sandbox.Spec, error) {
	owner := sandbox.Owner{
		Instance: f.Instance, Tenant: r.Tenant, Agent: r.Agent, Session: r.Session,
		Scope: r.Scope, ScopeKey: r.ScopeKey,
	}
	name, err := Name(r.Docker.ContainerPrefix, owner)
	if err != nil {
		return sandbox.Spec{}, err
	}
	s := sandbox.Spec{
		Format: sandbox.SpecFormat, Name: name, Kind: cmp.Or(r.Kind, sandbox.KindSandbox),
		Provider: cmp.Or(f.Provider, r.Provider), Owner: owner,
		Image: r.Docker.Image, ImageID: f.ImageID,
		Setup: slices.Clone(r.Docker.Setup), OnStart: slices.Clone(r.Docker.OnStart),
		Workdir: r.Docker.Workdir, Env: maps.Clone(r.Docker.Env),
		ReadOnlyRoot: r.Docker.ReadOnlyRoot, Network: cmp.Or(r.Docker.Network, "none"),
		DNS: slices.Clone(r.Docker.DNS), ExtraHosts: slices.Clone(r.Docker.ExtraHosts),
		Limits: limits(r.Limits), Runtime: r.Docker.Runtime, GPUs: r.Docker.GPUs,
		Guest: f.Guest, Egress: egress(r.Network), Options: maps.Clone(r.ProviderOptions),
	}
	if err := missingFact(s, r, f); err != nil {
		return sandbox.Spec{}, err
	}
	for _, fill := range []func(*sandbox.Spec, Resolved, Facts) error{
		fillUser, fillSecurity, fillMounts, fillResources, fillTrust, fillCache, fillRules, checkWorkdir,
	} {
		if err := fill(&s, r, f); err != nil {
			return sandbox.Spec{}, err
		}
	}
	world := f.world()
	world.Canonical = nil // sources are canonical by now
	world.Via = func(p string) ([]string, error) { return f.Via[p], nil }
	judged := s
	judged.Name = cmp.Or(f.HostIdentity, s.Name) // distinguishes its workspace from those of other slots
	if err := hardening.Check(judged, world); err != nil {
		return sandbox.Spec{}, err
	}
	return s, nil
}

// missingFact reports the first fact without which s would describe another
// sandbox than the one asked for.
func missingFact(s sandbox.Spec, r Resolved, f Facts) error {
	for _, need := range []struct {
		name string
		ok   bool
	}{
		{"Instance", f.Instance != ""},
		{"Provider", s.Provider != "auto"},
		{"ImageID", f.ImageID != "" || s.Provider != "docker"},
		{"Guest", f.Guest.Dir != "" && f.Guest.Digest != "" || s.Provider != "docker" && s.Provider != "local" && s.Provider != "landlock"},
		{"AgentDir", f.AgentDir != "" || !needsAgentDir(r)},
		{"TrustDir", f.TrustDir != "" || len(s.Egress.Secrets) == 0},
		{"SeccompOverride", f.SeccompOverride != "" || r.Docker.SeccompProfile == ""},
	} {
		if !need.ok {
			return sandbox.Errorf(sandbox.CodeInternal, "build spec", "the fact %s is missing", need.name)
		}
	}
	return nil
}

// needsAgentDir reports whether the agent's folder, or a view of it, is mounted.
func needsAgentDir(r Resolved) bool {
	return r.Private() || r.WorkspaceAccess == sandbox.AccessRO || r.WorkspaceAccess == sandbox.AccessRW && r.Workspace == ""
}

func fillUser(s *sandbox.Spec, r Resolved, f Facts) (err error) {
	s.UID, s.GID = f.UID, f.GID
	if r.Docker.User != "" {
		s.UID, s.GID, err = hardening.User(r.field("docker.user"), r.Docker.User)
	}
	return err
}

func fillSecurity(s *sandbox.Spec, r Resolved, f Facts) error {
	b := switchesOf(r)
	s.Security = sandbox.Security{
		CapDrop:         slices.Clone(r.Docker.CapDrop),
		NoNewPrivileges: true,
		Seccomp:         f.Seccomp,
		AppArmor:        r.Docker.AppArmorProfile,
		Dangerous:       b.List(),
	}
	if r.Docker.SeccompProfile != "" {
		s.Security.Seccomp = f.SeccompOverride
		return hardening.Seccomp(r.field("docker.seccompProfile"), f.SeccompOverride)
	}
	return nil
}

func fillResources(s *sandbox.Spec, r Resolved, f Facts) error {
	volumes, err := volumesOf(*s, r, f)
	if err != nil {
		return err
	}
	shm, tmpfs, err := memoryFolders(r, volumes, f.HomeDir == "")
	if err != nil {
		return err
	}
	if s.Tmpfs = tmpfs; f.ImageID != "" {
		takeFromImage(s.Tmpfs, volumes)
	}
	s.Resources = sandbox.Resources{
		Memory:     int64(r.Docker.Memory),
		MemorySwap: int64(cmp.Or(r.Docker.MemorySwap, r.Docker.Memory)),
		NanoCPUs:   nanoCPUs(r, f),
		PIDs:       r.Docker.PIDsLimit,
		ShmSize:    shm,
	}
	for _, name := range sortedKeys(r.Docker.Ulimits) {
		u := r.Docker.Ulimits[name]
		s.Resources.Ulimits = append(s.Resources.Ulimits, sandbox.Ulimit{Name: name, Soft: u.Soft, Hard: u.Hard})
	}
	return nil
}

// nanoCPUs is docker.cpus, but no more than the host has: an engine refuses more.
func nanoCPUs(r Resolved, f Facts) int64 {
	n := int64(math.Round(r.Docker.CPUs * 1e9))
	if host := int64(f.HostCPUs) * 1e9; host > 0 && n > host {
		return host
	}
	return n
}

// Clamps returns a notice for each value that BuildSpec lowers to what the
// host has, and for each that is beyond it.
func Clamps(r Resolved, f Facts) []Notice {
	var out []Notice
	if f.HostCPUs > 0 && r.Docker.CPUs > float64(f.HostCPUs) {
		out = append(out, Notice{
			Path: r.field("docker.cpus"), Value: fmt.Sprint(r.Docker.CPUs),
			Why: fmt.Sprintf("the host has %d, so the sandbox gets %d", f.HostCPUs, f.HostCPUs),
		})
	}
	if f.HostMemory > 0 && int64(r.Docker.Memory) > f.HostMemory {
		out = append(out, Notice{
			Path: r.field("docker.memory"), Value: r.Docker.Memory.String(),
			Why: fmt.Sprintf("the host has %s, so the limit does not protect it", Size(f.HostMemory)),
		})
	}
	return out
}

func limits(l Limits) sandbox.Limits {
	return sandbox.Limits{
		Timeout: time.Duration(l.Timeout), MaxOutputBytes: int64(l.MaxOutputBytes), Memory: int64(l.Memory),
		CPUSeconds: l.CPUSeconds, FileSize: int64(l.FileSize), OpenFiles: l.OpenFiles, Processes: l.Processes,
	}
}

func egress(n Network) sandbox.EgressRules {
	return sandbox.EgressRules{
		AllowedDomains: slices.Clone(n.AllowedDomains), DeniedDomains: slices.Clone(n.DeniedDomains),
		AllowPrivate: n.AllowPrivate, AllowPublic: n.AllowPublic, Ask: n.Ask,
		AllowLocalBinding: n.AllowLocalBinding, HTTPProxyPort: int(n.HTTPProxyPort), Secrets: secretRefs(n),
	}
}

// fillRules expands the path rules; those that name a path become canonical.
func fillRules(s *sandbox.Spec, r Resolved, f Facts) error {
	for _, l := range []struct {
		from []string
		to   *[]string
	}{
		{r.Filesystem.AllowRead, &s.Filesystem.AllowRead},
		{r.Filesystem.DenyRead, &s.Filesystem.DenyRead},
		{r.Filesystem.AllowWrite, &s.Filesystem.AllowWrite},
		{r.Filesystem.DenyWrite, &s.Filesystem.DenyWrite},
	} {
		for _, rule := range l.from {
			p, err := rulePath(rule, f.Home, f.Env)
			if err != nil {
				return err
			}
			if c, ok := f.Canonical[p]; ok && !isGlob(p) {
				p = c
			}
			*l.to = append(*l.to, p)
		}
	}
	if err := reopened(s, r, f); err != nil {
		return err
	}
	return sockets(s, r, f)
}

// sockets puts the listed sockets into s as they are written: one that is
// reached by a link is refused, not resolved, because programs inside look for
// it where it was listed.
func sockets(s *sandbox.Spec, r Resolved, f Facts) error {
	for _, listed := range r.Filesystem.AllowUnixSockets {
		p, err := rulePath(listed, f.Home, f.Env)
		if err == nil {
			err = hardening.UnixSocket(r.field("filesystem.allowUnixSockets"), p, f.world())
		}
		if err != nil {
			return err
		}
		s.Filesystem.AllowUnixSockets = append(s.Filesystem.AllowUnixSockets, path.Clean(p))
	}
	return nil
}

// checkWorkdir refuses a working folder that no mount or tmpfs holds: nothing
// could be written there, and on a read-only root it could not be made.
func checkWorkdir(s *sandbox.Spec, r Resolved, _ Facts) error {
	var places []string
	for _, m := range s.Mounts {
		if m.Role != sandbox.RoleGuest && m.Role != sandbox.RoleSocket && m.Role != sandbox.RoleIdentity && m.Role != sandbox.RoleTrust && m.Role != sandbox.RoleSettings && m.Role != sandbox.RoleCache {
			places = append(places, m.Target)
		}
	}
	for _, t := range s.Tmpfs {
		places = append(places, t.Target)
	}
	for _, p := range places {
		if s.Workdir == p || strings.HasPrefix(s.Workdir, p+"/") {
			return nil
		}
	}
	e := sandbox.Errorf(sandbox.CodeValidation, "build spec", "%q lies in no mount and no tmpfs", s.Workdir)
	e.Field, e.Hint = r.field("docker.workdir"), "use a folder at or below one of "+strings.Join(places, ", ")
	return e
}
