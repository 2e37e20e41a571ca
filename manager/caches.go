package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// What is kept about a folder of caches.
const (
	cacheTenant = "tenant"
	cacheAgent  = "agent"
	cacheFolder = "workspace"
	cacheUID    = "uid"
	cacheSize   = "size"
)

// cacheFull is how much of their bound caches may fill when a sandbox is made, in
// hundredths; what fills more begins anew.
const cacheFull = 90

// cacheKey names the caches of a tenant, an agent and a folder of the host. The
// parts are written with their lengths, so that no two run together. Sandboxes of
// another tenant, agent or folder never see each other's caches: what lies in
// a cache is run by whoever uses it.
func cacheKey(res config.Resolved, folder string) string {
	h := sha256.New()
	for _, s := range []string{res.Tenant, cacheAgentOf(res), folder} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// cacheAgentOf is the agent whose caches res has; agents that share a sandbox share them.
func cacheAgentOf(res config.Resolved) string {
	if res.Scope == sandbox.ScopeShared {
		return ""
	}
	return res.Agent
}

// userOf returns by which name and scope the user id of a sandbox is claimed: its
// own, or with caches that of the caches. Their files belong to one user, and a
// sandbox of the next session has to be that user.
func userOf(res config.Resolved, at hostIdentity) (string, sandbox.Owner) {
	if len(res.Cache.Tools) == 0 || res.Kind == sandbox.KindBrowser {
		return at.name, at.owner
	}
	name := "cache-" + cacheKey(res, "")
	return name, sandbox.Owner{Instance: at.owner.Instance, Tenant: res.Tenant, ScopeKey: name}
}

// cacheDir returns the host folder of the caches that a sandbox of res has, or "".
func (d *describer) cacheDir(res config.Resolved, p sandbox.Provider, f config.Facts, uid int) (string, error) {
	if len(res.Cache.Tools) == 0 || res.Kind == sandbox.KindBrowser || p.Name() == hostName {
		return "", nil
	}
	if detached(p) {
		return "", &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "resolve", Field: "cache.tools", Message: "the provider " + p.Name() + " shows no folder of this machine",
			Hint: "leave cache.tools out",
		}
	}
	folder := ""
	if !ownScratch(res) {
		folder = f.AgentDir
	}
	return filepath.Join(d.m.state.Caches(), cacheKey(res, folder)+"-"+strconv.Itoa(uid)), nil
}

// prepareCache makes the folder of caches that the sandbox of s mounts, if it has
// one. Where this machine can bound it, it is a file system of its own. Caches that
// have come near their bound begin anew, and so do those whose bound was lowered.
func (b *builder) prepareCache(ctx context.Context, w *want, s sandbox.Spec) error {
	i := slices.IndexFunc(s.Mounts, func(m sandbox.Mount) bool { return m.Role == sandbox.RoleCache })
	if i < 0 {
		return nil
	}
	m, own := s.Mounts[i], workspace.Owner{UID: s.UID, GID: s.GID}
	store, err := workspace.Open(filepath.Dir(m.Source))
	if err != nil {
		return err
	}
	name := filepath.Base(m.Source)
	lock, err := b.m.leases.Ensure(ctx, "cache-"+name)
	if err != nil {
		return err
	}
	defer lock.Release()
	bound := int64(0)
	if b.m.host.CanBound != nil && b.m.host.CanBound() == nil {
		bound = m.Size
	}
	_, err = store.Ensure(ctx, name, own, bound)
	full := err == nil && cacheIsFull(ctx, m.Source, m.Size)
	if full && bound == 0 { // a file system goes on for the sandboxes that have it, and a folder does not
		users, err := b.m.cacheUsers()
		if err != nil {
			return err
		}
		full = !slices.ContainsFunc(users[m.Source], func(name string) bool { return name != s.Name })
	}
	if full || sandbox.CodeOf(err) == sandbox.CodeValidation && bound > 0 {
		b.m.log.WithField("folder", m.Source).Info("the caches have reached cache.size and begin anew")
		if err := store.Remove(ctx, m.Source); err != nil {
			return cacheError(err)
		}
		_, err = store.Ensure(ctx, name, own, bound)
	}
	if err != nil {
		return cacheError(err)
	}
	folder := ""
	if !ownScratch(w.res) {
		folder = w.facts.AgentDir
	}
	return store.Annotate(name, map[string]string{
		cacheTenant: w.res.Tenant, cacheAgent: cacheAgentOf(w.res), cacheFolder: folder,
		cacheUID: strconv.Itoa(s.UID), cacheSize: strconv.FormatInt(m.Size, 10),
	})
}

// cacheError names the setting of caches in what a store of folders says.
func cacheError(err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Op, out.Field = "make caches", "cache"
	if e.Code == sandbox.CodeValidation || e.Code == sandbox.CodeUnavailable {
		out.Hint = "see to what the message names, remove the caches with: sandbox prune --caches, or leave cache.tools out"
	}
	return &out
}

// cacheNotes says what the caches of a sandbox weaken.
func (x *explainer) cacheNotes(w *want) []string {
	if !slices.ContainsFunc(w.spec.Mounts, func(m sandbox.Mount) bool { return m.Role == sandbox.RoleCache }) {
		return nil
	}
	out := []string{"cache.tools: what code inside writes to the caches is run by later sandboxes of this tenant, agent and workspace folder; sandbox prune --caches removes them"}
	why := errNoHomes
	if x.m.host.CanBound != nil {
		why = x.m.host.CanBound()
	}
	if why != nil {
		out = append(out, "cache.size is looked at when a sandbox is made, and bounds nothing while one runs: "+why.Error())
	}
	return out
}

// A Cache is a folder with caches of package managers.
type Cache struct {
	Name      string    `json:"name"`
	Tenant    string    `json:"tenant"`
	Agent     string    `json:"agent"`     // empty: shared by agents
	Workspace string    `json:"workspace"` // folder of the host that they belong to; empty: scratch workspaces of the agent
	UID       string    `json:"uid"`
	Tools     []string  `json:"tools"`
	Bytes     int64     `json:"bytes"` // that they take
	Size      int64     `json:"size"`  // that they may take
	UsedAt    time.Time `json:"usedAt"`
	Sandboxes []string  `json:"sandboxes"` // that have them

	path string
}

// Caches returns the caches of a tenant, or with an empty one of all tenants, by name.
func (m *Manager) Caches(ctx context.Context, tenant string) ([]Cache, error) {
	out := []Cache{}
	if _, err := os.Lstat(m.state.Caches()); errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	store, err := workspace.Open(m.state.Caches())
	if err != nil {
		return nil, err
	}
	entries, err := store.Scratch(ctx)
	if err != nil {
		return nil, err
	}
	users, err := m.cacheUsers()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if tenant != "" && e.About[cacheTenant] != tenant {
			continue
		}
		size, _ := strconv.ParseInt(e.About[cacheSize], 10, 64)
		out = append(out, Cache{
			Name: e.Name, Tenant: e.About[cacheTenant], Agent: e.About[cacheAgent], Workspace: e.About[cacheFolder], UID: e.About[cacheUID],
			Tools: cachedTools(e.Path), Bytes: cacheUse(ctx, e.Path), Size: size, UsedAt: e.ModTime,
			Sandboxes: append([]string{}, users[e.Path]...), path: e.Path,
		})
	}
	return out, nil
}

// cacheUsers returns the names of the recorded sandboxes that have caches, by the
// folder of these.
func (m *Manager) cacheUsers() (map[string][]string, error) {
	records, _, err := m.records.List("")
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, r := range records {
		full, err := m.records.Of(r.Provider).Get(r.Kind, r.Name)
		if sandbox.IsNotFound(err) || err == nil && full.Spec == nil {
			continue // it was removed meanwhile, or was made by a program that had no caches
		}
		if err != nil {
			return nil, err
		}
		for _, mount := range full.Spec.Mounts {
			if mount.Role == sandbox.RoleCache {
				out[mount.Source] = append(out[mount.Source], r.Name)
			}
		}
	}
	return out, nil
}

// cachedTools are the package managers that have a cache in dir.
func cachedTools(dir string) []string {
	out := []string{}
	for _, tool := range config.CacheTools() {
		if fi, err := os.Lstat(filepath.Join(dir, tool)); err == nil && fi.IsDir() {
			out = append(out, tool)
		}
	}
	return out
}

// cacheUse returns how many bytes the folder dir takes: the used part of its file
// system where it is one of its own, else the sum of its files. It follows no link.
// What cannot be looked at counts as nothing.
func cacheUse(ctx context.Context, dir string) int64 {
	if used, _, own := workspace.Used(dir); own {
		return used
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0
	}
	defer root.Close()
	var sum int64
	_ = fs.WalkDir(root.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() {
			sum += fi.Size()
		}
		return nil
	})
	return sum
}

// cacheIsFull reports whether the folder dir has come near its bound: that of its file
// system, which takes a part of the image for itself, else the given one, in bytes.
func cacheIsFull(ctx context.Context, dir string, bound int64) bool {
	if used, size, own := workspace.Used(dir); own {
		return used >= size/100*cacheFull
	}
	return cacheUse(ctx, dir) >= bound/100*cacheFull
}

// pruneCaches removes caches that no sandbox has and that were not used for idle;
// nil is any time.
func (b *sweeper) pruneCaches(ctx context.Context) error {
	list, err := b.m.Caches(ctx, b.o.Tenant)
	if err != nil || len(list) == 0 {
		return err
	}
	store, err := workspace.Open(b.m.state.Caches())
	if err != nil {
		return err
	}
	for _, c := range list {
		idle := b.m.now().Sub(c.UsedAt)
		gone := func(name string) bool {
			return slices.ContainsFunc(b.out.Removed, func(r Removed) bool { return r.Name == name })
		}
		if len(slices.DeleteFunc(slices.Clone(c.Sandboxes), gone)) > 0 || b.o.Idle != nil && idle < *b.o.Idle {
			b.out.Kept++
			continue
		}
		if !b.o.DryRun {
			removed, err := b.removeCache(ctx, store, c)
			if err != nil {
				b.out.Failed = append(b.out.Failed, Failed{Name: c.Name, Code: sandbox.CodeOf(err), Error: err.Error()})
				continue
			}
			if !removed {
				b.out.Kept++
				continue
			}
		}
		b.out.Removed = append(b.out.Removed, Removed{Name: c.Name, Reason: "caches: no sandbox has them"})
	}
	return nil
}

// removeCache removes a cache, and reports whether it did: one that a sandbox has by
// now, or that was prepared for one since it was listed, stays.
func (b *sweeper) removeCache(ctx context.Context, store *workspace.Store, c Cache) (removed bool, err error) {
	lock, err := b.m.leases.Ensure(ctx, "cache-"+c.Name)
	if err != nil {
		return false, err
	}
	defer lock.Release()
	users, err := b.m.cacheUsers()
	if err != nil || len(users[c.path]) > 0 {
		return false, err
	}
	entries, err := store.Scratch(ctx)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if e.Path == c.path && e.ModTime.After(c.UsedAt) {
			return false, nil // its sandbox is not on record yet
		}
	}
	return true, cacheError(store.Remove(ctx, c.path))
}
