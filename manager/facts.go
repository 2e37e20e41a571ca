package manager

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A describer finds out what the host says about settings, and describes
// sandboxes by both. It remembers what follows from the id of an image, and what
// was described last.
type describer struct {
	m         *Manager
	volumes   sync.Map // by image id, of which they are a part
	imageJava sync.Map // likewise: what the image sets JAVA_TOOL_OPTIONS to
	described descriptions
	layered   settingsCache[config.Resolved] // see resolved
	wants     wantCache
	places    folderCache
	notes     sync.Map // noted by the place of a private view; see noteView
	mapping   mapping
}

// facts finds out what the world says about res. It returns the agent's
// folder besides, from which a scratch workspace is seeded.
func (d *describer) facts(ctx context.Context, res config.Resolved, p sandbox.Provider, at hostIdentity, i intent) (config.Facts, string, error) {
	f := config.Facts{
		Instance: d.m.instanceOf(p.Name()), Provider: p.Name(),
		HostCPUs: d.m.host.CPUs, HostMemory: d.m.host.Memory,
		Home: d.m.host.Home, Env: d.m.host.Env, Sensitive: d.m.host.Sensitive,
		HostIdentity: at.name, Canonical: map[string]string{}, Via: map[string][]string{},
	}
	if p.Features().Images { // other sandboxes have a filter of their own
		f.Seccomp = filter(res)
	}
	var agentDir string
	var ca []byte
	for _, step := range []func() error{
		func() (err error) { f.Listening, err = d.listening(); return err },
		func() error { return d.canonical(res, &f) },
		func() (err error) { f.Guest, err = d.m.host.Guest(); return err },
		func() error { return d.trust(res, &f) },
		func() (err error) { // before an image is made
			if res.Kind != sandbox.KindBrowser {
				ca, err = d.authorities(res, f.Exposed)
			}
			return err
		},
		func() error { return d.image(ctx, res, p, i, &f) },
		func() error { return d.company(ctx, p, ca, i, &f) },
		func() (err error) { agentDir, err = d.folders(res, p, at, i, &f); return err },
		func() (err error) { f.HomeDir, f.HomeReason, err = d.homeDir(res, p, at); return err },
		func() error { return d.profile(res, &f) },
	} {
		if err := step(); err != nil {
			return f, "", err
		}
	}
	// A sandbox that ends with us is reached over descriptors that it was born with.
	if p.Features().Persistent && !detached(p) && socketsCross(res.Docker.Runtime) {
		f.SocketDir = d.m.state.SocketPath(at.name)
	}
	uid, gid := f.UID, f.GID
	var err error
	if res.Docker.User != "" {
		if uid, gid, err = hardening.User("docker.user", res.Docker.User); err != nil {
			return f, "", err
		}
	}
	if f.CacheDir, err = d.cacheDir(res, p, f, uid); err != nil {
		return f, "", err
	}
	if i == sketch {
		f.PasswdFile, f.GroupFile = d.m.state.IdentityPaths(uid, gid)
		f.HostsFile = d.m.state.HostsPath(at.name)
		return f, agentDir, nil
	}
	if _, kept := d.m.kept[p.Name()]; kept {
		return f, agentDir, nil // no file of this machine is seen inside
	}
	if f.HostsFile, err = d.m.state.Hosts(at.name, res.Docker.ExtraHosts); err != nil {
		return f, "", err
	}
	f.PasswdFile, f.GroupFile, err = d.m.state.Identity(uid, gid)
	return f, agentDir, err
}

// filter is the system-call filter for res: the one for browsers lets Chromium
// build its own sandbox.
func filter(res config.Resolved) string {
	if res.Kind == sandbox.KindBrowser && !res.Browser.DangerouslyNoSandbox {
		return seccomp.Browser()
	}
	return seccomp.Profile()
}

// owner says whose the sandbox of res is.
func (d *describer) owner(res config.Resolved) sandbox.Owner {
	return sandbox.Owner{Instance: d.m.instanceOf(res.Provider), Tenant: res.Tenant, Agent: res.Agent, Session: res.Session, Scope: res.Scope, ScopeKey: res.ScopeKey}
}

func (d *describer) canonical(res config.Resolved, f *config.Facts) error {
	paths, err := res.HostPaths(f.Home, f.Env)
	if err != nil {
		return err
	}
	for _, p := range paths {
		if f.Canonical[p], f.Via[p], err = hostpath.Trace(p); err != nil {
			return err
		}
	}
	f.Exposed, err = d.exposed()
	return err
}

// exposed are the folders that some sandbox of these settings can write, or
// was permitted to: nothing below them may be mounted, since code inside could
// have put a link there.
func (d *describer) exposed() ([]string, error) {
	spelled, err := d.m.writable()
	if err != nil {
		return nil, err
	}
	spelled = slices.Concat(spelled, d.m.grants.exposed())
	dirs := make([]string, len(spelled))
	for i, dir := range spelled {
		if dirs[i], err = hostpath.Canonical(dir); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// trust finds the folder of certificates, which is mounted also where no secret
// is bound: one may be while the sandbox exists.
func (d *describer) trust(res config.Resolved, f *config.Facts) (err error) {
	switch {
	case d.m.host.Trust == nil && len(res.Network.Secrets) == 0:
		return nil
	case d.m.host.Trust == nil:
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "resolve", Field: "network.secrets", Message: "this program has no certificate authority, which secrets need"}
	}
	if f.TrustDir, err = d.m.host.Trust(); err != nil && len(res.Network.Secrets) == 0 {
		f.TrustDir, err = "", nil // reported when a secret is bound
	}
	return err
}

// image finds the image's identity. Looking only, one that is not there yet
// stays without.
func (d *describer) image(ctx context.Context, res config.Resolved, p sandbox.Provider, i intent, f *config.Facts) error {
	if !p.Features().Images {
		return nil
	}
	var err error
	source := d.m.imagesOf(p)
	current := source.Current
	if _, own := p.(provider.ImageSource); i == sketch && !own {
		current = d.m.pool.imagesOf(d.m.images, d.m.now)
	}
	f.ImageID, err = current(ctx, res.Docker.Image, res.Docker.Setup)
	switch {
	case sandbox.IsNotFound(err) && i == effects:
		if err := d.refuseBeforeImage(ctx, res, p); err != nil {
			return err
		}
		f.ImageID, err = source.Ensure(ctx, res.Docker.Image, res.Docker.Setup)
	case sandbox.IsNotFound(err):
		f.ImageID = noImage
		return nil
	}
	if err == nil {
		f.Volumes, err = d.imageVolumes(ctx, source, f.ImageID)
	}
	return err
}

// imagesOf returns the source of the images of the provider p.
func (m *Manager) imagesOf(p sandbox.Provider) Images {
	if own, ok := p.(provider.ImageSource); ok {
		return own
	}
	return m.images
}

// imageVolumes returns the volumes of an image, which is asked for once.
func (d *describer) imageVolumes(ctx context.Context, source Images, id string) ([]string, error) {
	if known, ok := d.volumes.Load(id); ok {
		return known.([]string), nil
	}
	list, err := source.Volumes(ctx, id)
	if err == nil {
		d.volumes.Store(id, list)
	}
	return list, err
}

// javaOf returns the options for Java virtual machines that an image of p sets. The
// image is asked for them once: they are a part of what its id names.
func (d *describer) javaOf(ctx context.Context, p sandbox.Provider, id string) (string, error) {
	source, able := d.m.imagesOf(p).(ImageVariables)
	if id == "" || !able {
		return "", nil
	}
	if known, ok := d.imageJava.Load(id); ok {
		return known.(string), nil
	}
	env, err := source.Environment(ctx, id)
	if sandbox.IsNotFound(err) { // the engine keeps the sandbox, and the image was taken away
		d.m.log.WithField("image", id).Warn("the image is gone: what it sets " + config.JavaVariable + " to is not kept")
		return "", nil
	}
	if err == nil {
		d.imageJava.Store(id, env[config.JavaVariable])
	}
	return env[config.JavaVariable], err
}

// refuseBeforeImage returns the refusal that a sandbox meets which exists with
// another image, and must not be recreated now: before an image is made that
// nothing would use.
func (d *describer) refuseBeforeImage(ctx context.Context, res config.Resolved, p sandbox.Provider) error {
	owner := d.m.describer.owner(res)
	name, err := config.Name(res.Docker.ContainerPrefix, owner)
	if err != nil {
		return err
	}
	w := &want{res: res, provider: p, spec: sandbox.Spec{Name: name, Kind: cmp.Or(res.Kind, sandbox.KindSandbox), Owner: owner}, hash: noImage}
	have, rec, err := d.m.builder.look(ctx, w)
	if err != nil || have == nil {
		return err
	}
	leased, err := d.m.locksOf(p.Name()).Held(name)
	if err != nil {
		return err
	}
	in := d.m.builder.input(w, have, rec, leased)
	if res.Origin("docker.image") == "flag" {
		in.SettingsHash = have.ConfigHash
	}
	decision, err := decideAction(in)
	if err != nil || decision.Action != lifecycleRefuse {
		return err
	}
	refusal := decision.Refusal(name)
	refusal.Message += ": docker.image " + res.Docker.Image + ", which is not made yet"
	return refusal
}

// noImage stands for the identity of an image that has to be made first.
const noImage = "(not made yet)"

// folders finds workspace, agent's folder and owner.
func (d *describer) folders(res config.Resolved, p sandbox.Provider, at hostIdentity, i intent, f *config.Facts) (agentDir string, err error) {
	if k, kept := d.m.kept[p.Name()]; kept {
		d.keptFolders(res, k, at, f)
	} else if err := d.ownFolders(res, at, i, f); err != nil {
		return "", err
	}
	dir, given := res.AgentWorkspace, res.Workspace
	if given != "" {
		dir = given
	}
	if dir == "" && res.Private() {
		return "", &sandbox.Error{Code: sandbox.CodeValidation, Op: "resolve", Field: "workspaceAccess", Resource: string(sandbox.AccessPrivate), Message: "no folder is named to have a private view of",
			Hint: "name one with --workspace, or as workspace of the agent in agents.list"}
	}
	if dir == "" {
		return "", nil
	}
	if dir, err = hostpath.Expand(dir, f.Home, f.Env); err != nil {
		return "", err
	}
	if given != "" {
		if dir, err = d.givenFolder(dir); err != nil {
			return "", err
		}
	}
	return d.agentFolder(res, dir, at, i, f)
}

// ownFolders finds the scratch workspace or the private view, and the owner.
func (d *describer) ownFolders(res config.Resolved, at hostIdentity, i intent, f *config.Facts) error {
	claim := d.m.owners.Lookup
	if i == effects {
		claim = d.m.owners.Claim
	}
	own, err := claim(userOf(res, at))
	if err != nil {
		return err
	}
	f.UID, f.GID = own.UID, own.GID
	store, err := d.workspaces(res)
	if err != nil {
		return err
	}
	f.Workspaces = []string{store.Root()}
	name := at.name
	if res.Private() {
		name = hardening.PrivateName(name)
	}
	f.Workspace, err = store.Path(name)
	return err
}

// keptFolders names the workspace and the owner of a sandbox whose provider keeps its
// state itself. They follow from the scope, so that all programs find the same ones.
func (d *describer) keptFolders(res config.Resolved, k keeper, at hostIdentity, f *config.Facts) {
	first, count := k.Users(res.ProviderOptions)
	own := workspace.OwnerIn(first, count, at.owner)
	f.UID, f.GID = own.UID, own.GID
	name := at.name
	if res.Private() {
		name = hardening.PrivateName(name)
	}
	f.Workspaces, f.Workspace = []string{k.Workspaces()}, filepath.Join(k.Workspaces(), name)
}

// givenFolder makes a folder named by a flag absolute; it must exist.
func (d *describer) givenFolder(dir string) (string, error) {
	refused := sandbox.Error{Code: sandbox.CodeValidation, Op: "resolve", Field: "--workspace", Resource: dir, Message: "the folder cannot be used", Hint: "name a folder that you can open"}
	abs, err := filepath.Abs(dir)
	if err == nil {
		var st os.FileInfo
		if st, err = os.Stat(abs); err == nil && st.IsDir() {
			return abs, nil
		}
	}
	switch {
	case err == nil, errors.Is(err, syscall.ENOTDIR):
		refused.Message, refused.Hint = dir+" is no folder, or lies below a file", "name a folder"
	case errors.Is(err, fs.ErrNotExist):
		refused.Message, refused.Hint, refused.Err = "there is no such folder", "make it first: mkdir "+dir, err
	default:
		refused.Err = err
	}
	return "", &refused
}

// agentFolder finds, and with effects makes, the agent's folder, and for
// access rw or private the owner that its user dictates.
func (d *describer) agentFolder(res config.Resolved, dir string, at hostIdentity, i intent, f *config.Facts) (string, error) {
	access, role := res.FolderAccess(), sandbox.RoleWorkspace
	if access == sandbox.AccessPrivate {
		role = sandbox.RoleAgent // which no sandbox writes to, and which is no workspace of ours
	}
	own := workspace.Owner{UID: f.UID, GID: f.GID}
	// Judged as it is spelled, before anything is made or given away on the way:
	// a link in it may belong to another user.
	judge := func(path string) error {
		return hardening.Source("workspace", path, role, hardening.World{
			Canonical: hostpath.Canonical, Via: via, Sensitive: f.Sensitive, Listening: f.Listening, Workspaces: f.Workspaces, Home: f.Home, Exposed: f.Exposed,
		}, hardening.Switches{})
	}
	if err := judge(dir); err != nil {
		return "", err
	}
	canonical, passed, err := hostpath.Trace(dir)
	if err != nil {
		return "", err
	}
	f.Via[canonical] = passed
	if i == effects {
		dir, own, err = workspace.EnsureAllowedAgent(dir, access, own, judge)
	} else {
		dir, own, err = lookAgent(dir, access, own)
	}
	if err != nil {
		return "", err
	}
	f.AgentDir = dir
	if access == sandbox.AccessRW || access == sandbox.AccessPrivate {
		f.UID, f.GID = own.UID, own.GID
	}
	if access == sandbox.AccessRW {
		f.Workspace, f.Mapped = dir, d.mapped(dir, at.name)
	}
	return dir, nil
}

func via(path string) ([]string, error) {
	_, passed, err := hostpath.Trace(path)
	return passed, err
}

// lookAgent is workspace.EnsureAgent without its effects.
func lookAgent(dir string, access sandbox.Access, own workspace.Owner) (string, workspace.Owner, error) {
	dir, err := hostpath.Canonical(dir)
	if err != nil || access != sandbox.AccessRW && access != sandbox.AccessPrivate {
		return dir, own, err
	}
	folder, err := os.Open(dir)
	if os.IsNotExist(err) {
		return dir, own, nil // will be made and given to own
	}
	if err != nil {
		return "", own, sandbox.Errorf(sandbox.CodeUnavailable, "look at the agent's folder", "%w", err)
	}
	defer folder.Close()
	if access == sandbox.AccessPrivate {
		own, err = workspace.ViewOwner(folder, own)
	} else {
		own, err = workspace.AgentOwner(folder, own)
	}
	return dir, own, err
}

// maxProfile bounds a seccomp profile file.
const maxProfile = 1 << 20

func (d *describer) profile(res config.Resolved, f *config.Facts) error {
	path := res.Docker.SeccompProfile
	if path == "" {
		return nil
	}
	fail := func(err error) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "resolve", Field: "docker.seccompProfile", Resource: path, Message: "the profile cannot be read", Err: err, Hint: "name a JSON file, or leave the setting out for the built-in profile"}
	}
	path, err := hostpath.Expand(path, f.Home, f.Env)
	if err != nil {
		return fail(err)
	}
	file, err := os.Open(path)
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxProfile+1))
	if err != nil {
		return fail(err)
	}
	if len(b) > maxProfile {
		return fail(os.ErrInvalid)
	}
	f.SeccompOverride = string(b)
	return nil
}

// workspaces opens the root of the scratch workspaces.
func (d *describer) workspaces(res config.Resolved) (*workspace.Store, error) {
	root := d.m.state.Workspaces()
	if res.WorkspaceRoot != "" {
		var err error
		if root, err = hostpath.Expand(res.WorkspaceRoot, d.m.host.Home, d.m.host.Env); err != nil {
			return nil, err
		}
	}
	return workspace.Open(root)
}

// socketsCross reports whether a Unix socket made in a mounted folder can be
// connected to from outside. Runtimes that bring a kernel of their own keep
// such sockets to themselves; the guest is reached by a relay there.
func socketsCross(runtime string) bool {
	switch runtime {
	case "", "runc", "crun", "io.containerd.runc.v2":
		return true
	}
	return false
}
