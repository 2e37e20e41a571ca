//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// installGuest puts the guest into the state folder.
func (r *rig) installGuest(path string) error {
	ref, err := r.state.InstallGuest(path)
	r.Spec.Guest = ref
	return err
}

// workspace is the host folder of the sandbox name's workspace.
func (r *rig) workspace(name string) string { return filepath.Join(r.state.Workspaces(), name) }

// NewSpec describes a hardened sandbox of its own for session, with the
// limits that the settings have by default, and makes its host folders.
func (r *rig) NewSpec(image, session string) (sandbox.Spec, error) {
	sum := sha256.Sum256([]byte(r.state.Instance() + session))
	name := "sbx-" + session + "-" + hex.EncodeToString(sum[:8])
	uid := 0x70000000 + int(sum[0])<<8 + int(sum[1])
	ws := r.workspace(name)
	if err := os.MkdirAll(ws, 0o700); err != nil {
		return sandbox.Spec{}, statedir.Unavailable("make workspace", ws, err)
	}
	if err := os.Chown(ws, uid, uid); err != nil {
		return sandbox.Spec{}, statedir.Unavailable("make workspace", ws, err)
	}
	sock, err := r.state.SocketDir(name, uid, uid)
	if err != nil {
		return sandbox.Spec{}, err
	}
	passwd, group, err := r.state.Identity(uid, uid)
	if err != nil {
		return sandbox.Spec{}, err
	}
	guest := r.Spec.Guest
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: name, Kind: sandbox.KindSandbox, Provider: "docker",
		Owner: sandbox.Owner{Instance: r.state.Instance(), Tenant: "bench", Agent: "bench", Session: session, Scope: sandbox.ScopeSession, ScopeKey: session},
		Image: image, ImageID: image,
		Workdir: sandbox.WorkspaceDir, UID: uid, GID: uid,
		Env: map[string]string{"LANG": "C.UTF-8", "HOME": sandbox.HomeDir},
		Mounts: []sandbox.Mount{
			{Source: guest.Dir, Target: sandbox.GuestDir + "/bin", ReadOnly: true, Role: sandbox.RoleGuest},
			{Source: sock, Target: sandbox.GuestDir + "/run", Role: sandbox.RoleSocket},
			{Source: passwd, Target: "/etc/passwd", ReadOnly: true, Role: sandbox.RoleIdentity},
			{Source: group, Target: "/etc/group", ReadOnly: true, Role: sandbox.RoleIdentity},
			{Source: ws, Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace},
		},
		Tmpfs: []sandbox.Tmpfs{
			{Target: "/tmp", Size: 256 << 20, Exec: true, Mode: 0o1777},
			{Target: sandbox.HomeDir, Size: 256 << 20, Exec: true, Mode: 0o700, Owned: true},
			{Target: "/var/tmp", Size: 64 << 20, Mode: 0o1777},
			{Target: "/run", Size: 8 << 20, Mode: 0o755, Owned: true},
		},
		ReadOnlyRoot: true, Network: "none",
		Security:  sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true, Seccomp: seccomp.Profile()},
		Resources: resources(),
		Guest:     guest,
	}, nil
}

// resources are the default limits. An engine refuses more processors than
// the machine has.
func resources() sandbox.Resources {
	return sandbox.Resources{
		Memory: 2 << 30, MemorySwap: 2 << 30, NanoCPUs: int64(min(2, runtime.NumCPU())) * 1e9, PIDs: 512, ShmSize: 64 << 20,
		Ulimits: []sandbox.Ulimit{{Name: "core"}, {Name: "nofile", Soft: 16384, Hard: 16384}},
	}
}

// Plan is what the engine is asked to create for s.
func (r *rig) Plan(s sandbox.Spec) (container.Plan, error) {
	hash, err := confighash.Sum(s)
	if err != nil {
		return container.Plan{}, err
	}
	return container.NewPlan(s, hash, time.Now())
}

// withoutSocket is s as a sandbox through which no socket goes: the provider
// uses the relay then.
func withoutSocket(s sandbox.Spec) sandbox.Spec {
	s.Mounts = slices.DeleteFunc(slices.Clone(s.Mounts), func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
	return s
}
