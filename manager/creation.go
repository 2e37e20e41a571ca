package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/registry"
)

// maxCreations bounds for how many sessions the settings of created sandboxes are
// cached.
const maxCreations = 1024

// Creations cache the settings of sandboxes that were created with fields of their
// own. They are safe for concurrent use.
type creations struct {
	m  *Manager
	mu sync.Mutex
	of map[config.Who]*created
}

// A created is what follows from settings and from what a sandbox was created with.
type created struct {
	base     *config.Settings
	name     string // of the sandbox
	stamp    registry.CreationStamp
	settings *config.Settings // base with the request laid over it

	once sync.Once
	res  config.Resolved // of settings
	err  error
}

// currentOf is current for a request of who: the settings in force, with what the
// sandbox of who was created with laid over them. The pointer is another one when
// either has changed. An error says that the sandbox may not be used as it was
// created.
//
// flags are those of the request: where they name a provider that keeps its state
// itself, the sandbox is that one's.
func (m *Manager) currentOf(who config.Who, flags *config.SandboxSettings) (*config.Settings, error) {
	return m.creations.over(m.current(), who, flags)
}

func (cs *creations) over(s *config.Settings, who config.Who, flags *config.SandboxSettings) (*config.Settings, error) {
	name, provider, err := cs.nameOf(s, who, flags)
	if err != nil {
		return s, nil // resolving the settings says why
	}
	stamp, err := cs.m.records.Of(provider).StampCreation(name)
	if err != nil || stamp == (registry.CreationStamp{}) {
		return s, err
	}
	cs.mu.Lock()
	had := cs.of[who]
	cs.mu.Unlock()
	if had != nil && had.base == s && had.name == name && had.stamp == stamp {
		return had.settings, nil
	}
	c, ok, err := cs.read(provider, name)
	if err != nil || !ok {
		return s, err
	}
	layer, err := cs.layer(s, who, c)
	if err != nil {
		return nil, stale(name, err)
	}
	made := &created{base: s, name: name, stamp: stamp, settings: &config.Settings{}}
	if s != nil {
		*made.settings = *s
	}
	made.settings.Request = layer
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.of == nil || len(cs.of) >= maxCreations {
		cs.of = map[config.Who]*created{}
	}
	cs.of[who] = made
	return made.settings, nil
}

// still is an error where the sandbox of w was created with fields of its own that w does
// not know of, because another program has created it meanwhile. It is for sandboxes whose
// provider keeps its state itself, and the caller holds the ensure lock.
func (cs *creations) still(w *want) error {
	provider := cs.viewOf(w.provider.Name())
	if provider == "" || w.settings == nil || w.settings.Request != nil {
		return nil
	}
	c, ok, err := cs.read(provider, w.spec.Name)
	if err != nil || !ok || !c.Confines() {
		return err
	}
	return &sandbox.Error{Code: sandbox.CodeBusy, Op: "make sandbox", Resource: w.spec.Name, Retryable: true,
		Message: "another program has just created the sandbox with fields of its own", Hint: "try again"}
}

// nameOf returns the name of the sandbox of who and its provider, as far as that has
// records of its own; else the name of the provider is empty.
func (cs *creations) nameOf(s *config.Settings, who config.Who, flags *config.SandboxSettings) (name, provider string, err error) {
	if len(cs.m.kept) == 0 {
		name, err = cs.m.names.of(s, who, cs.m.nameBy)
		return name, "", err
	}
	var res config.Resolved
	if given := providerNamed(flags); given != "" {
		res, err = config.Resolve(s, who, &config.SandboxSettings{Provider: &given})
	} else {
		res, err = cs.m.describer.layered.of(s, who, func(res config.Resolved) (config.Resolved, error) { return res, nil })
	}
	if err != nil {
		return "", "", err
	}
	if name, err = cs.m.nameBy(res); err == nil {
		provider = cs.viewOf(res.Provider)
	}
	return name, provider, err
}

// viewOf is the name of the provider where that keeps its state itself.
func (cs *creations) viewOf(provider string) string {
	if _, ok := cs.m.kept[provider]; ok {
		return provider
	}
	return ""
}

// stale is the error of a sandbox whose fields the settings no longer permit.
func stale(name string, err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Resource, out.Message = name, "the settings no longer permit what the sandbox was created with: "+e.Message
	out.Hint = "remove the sandbox and create it again, or have the operator permit it"
	return &out
}

// resolved is [config.Resolve] of settings that over has returned for who; ok is
// false for others.
func (cs *creations) resolved(settings *config.Settings, who config.Who) (res config.Resolved, ok bool, err error) {
	cs.mu.Lock()
	c := cs.of[who]
	cs.mu.Unlock()
	if c == nil || c.settings != settings {
		return res, false, nil
	}
	c.once.Do(func() { c.res, c.err = config.Resolve(settings, who, nil) })
	return c.res, true, c.err
}

// read returns what the sandbox was created with.
func (cs *creations) read(provider, name string) (c config.Creation, ok bool, err error) {
	data, ok, err := cs.m.records.Of(cs.viewOf(provider)).Creation(name)
	if err != nil || !ok {
		return c, false, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, false, sandbox.Errorf(sandbox.CodeUnavailable, "read creation", "what %s was created with cannot be read: %w", name, err)
	}
	return c, true, nil
}

func (cs *creations) put(provider, name string, c config.Creation) error {
	c.Timeout = 0 // which is of the request alone
	data, err := json.Marshal(c)
	if err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, "create", "cannot encode the request: %w", err)
	}
	if err := cs.m.records.Of(cs.viewOf(provider)).PutCreation(name, data); err != nil {
		return err
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.of = nil // two files that are written at once can have one stamp
	return nil
}

// layer is c as settings over those of the session.
func (cs *creations) layer(s *config.Settings, who config.Who, c config.Creation) (*config.SandboxSettings, error) {
	base, err := cs.m.describer.resolved(s, who, nil)
	if err != nil {
		return nil, err
	}
	var ceilings *config.CreateSettings
	if s != nil && s.Daemon != nil {
		ceilings = s.Daemon.Create
	}
	return c.Layer(base, ceilings)
}

// Create is [Manager.Ready] for a sandbox that has what c asks for beside what the
// settings give. What c asks for is kept until the sandbox is removed, and holds for
// all its commands. Create replaces nothing: a sandbox that is there and was created
// with another value of a field that c names is [sandbox.CodeBusy] with the Field.
// What is above a ceiling of daemon.create is [sandbox.CodeCapabilityBlocked], and
// what the provider cannot do [sandbox.CodeUnsupported], each with the Field; then
// nothing is made. With a Timeout the sandbox ends so long after Create.
func (m *Manager) Create(ctx context.Context, req Request, c config.Creation) (Prepared, error) {
	if !c.Asks() {
		return m.Ready(ctx, req)
	}
	if err := c.Check(); err != nil {
		return Prepared{}, err
	}
	name, err := m.Name(req.Who, req.Flags)
	if err != nil {
		return Prepared{}, err
	}
	if err := m.creations.possible(ctx, req, c); err != nil {
		return Prepared{}, err
	}
	kept := m.creations.viewOf(settingsProvider(m.current(), req.Who, req.Flags))
	turn, err := m.creations.turn(ctx, kept, name)
	if err != nil {
		return Prepared{}, err
	}
	defer turn.Release()
	fresh, err := m.creations.claim(kept, name, c)
	if err != nil {
		return Prepared{}, err
	}
	p, err := m.Ready(ctx, req)
	if err == nil && p.Place != Sandboxed {
		err = &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Message: "this session has no sandbox: " + p.Reason}
	}
	if err != nil {
		if fresh {
			err = errors.Join(err, m.creations.undo(kept, name))
		}
		return p, err
	}
	if c.Timeout > 0 {
		row, err := m.Recorded(ctx, req.Who.Tenant, p.Name, providerNamed(req.Flags))
		if err != nil {
			return p, err
		}
		return p, m.expiry.set(row, time.Duration(c.Timeout)*time.Second, c.OnTimeout)
	}
	return p, nil
}

// turn takes the lock under which what a sandbox is created with changes. A caller
// that needs the ensure lock of the sandbox too takes that after it.
func (cs *creations) turn(ctx context.Context, provider, name string) (*keylock.Lock, error) {
	return cs.m.locksOf(provider).Ensure(ctx, creationLock(name))
}

func creationLock(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "create-" + hex.EncodeToString(sum[:16])
}

// forget deletes what a sandbox was created with that is being removed. The caller
// has the ensure lock of the sandbox, so forget does not wait for the lock of turn:
// whoever has that creates the sandbox at present, and what it was created with stays
// for that one.
func (cs *creations) forget(provider, name string) error {
	turn, err := cs.m.locksOf(provider).TryEnsure(creationLock(name))
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return nil
	}
	if err != nil {
		return err
	}
	defer turn.Release()
	return cs.m.records.Of(provider).DeleteCreation(name)
}

// undo deletes what a sandbox was to be created with that was not made. The caller has
// the lock of turn. Where another call makes the sandbox at present, by what undo
// would delete, that stays.
func (cs *creations) undo(provider, name string) error {
	making, err := cs.m.locksOf(provider).TryEnsure(name)
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return nil
	}
	if err != nil {
		return err
	}
	defer making.Release()
	if there, err := cs.recorded(name); err != nil || there {
		return err
	}
	return cs.m.records.Of(provider).DeleteCreation(name)
}

// providerNamed is the provider that flags name, or "".
func providerNamed(flags *config.SandboxSettings) string {
	if flags == nil || flags.Provider == nil || *flags.Provider == "auto" {
		return ""
	}
	return *flags.Provider
}

// recorded reports whether a sandbox of that name is on record.
func (cs *creations) recorded(name string) (bool, error) {
	_, err := cs.m.records.Look(sandbox.KindSandbox, name)
	if sandbox.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// claim keeps c for the sandbox name, and reports whether nothing was kept before.
// Where the sandbox is there, c must ask for nothing else than it has.
func (cs *creations) claim(provider, name string, c config.Creation) (fresh bool, err error) {
	there, err := cs.recorded(name)
	if err != nil {
		return false, err
	}
	if !there {
		return true, cs.put(provider, name, c)
	}
	had, _, err := cs.read(provider, name)
	if err != nil {
		return false, err
	}
	if field := c.Differs(had); field != "" {
		return false, &sandbox.Error{
			Code: sandbox.CodeBusy, Op: "create", Field: field, Resource: name, Message: "the sandbox of this session is there and was created with another value of " + field,
			Hint: "leave the field out, use another session, or remove the sandbox first",
		}
	}
	return false, nil
}

// CheckCreation says, as the error that Create would return, whether the sandbox of
// who is there and was created with other fields than c.
func (m *Manager) CheckCreation(who config.Who, flags *config.SandboxSettings, c config.Creation) error {
	name, err := m.Name(who, flags)
	if err != nil {
		return err
	}
	if there, err := m.creations.recorded(name); err != nil || !there {
		return err
	}
	_, err = m.creations.claim(settingsProvider(m.current(), who, flags), name, c)
	return err
}

// possible refuses what the settings do not permit, or the provider cannot do.
func (cs *creations) possible(ctx context.Context, req Request, c config.Creation) error {
	m := cs.m
	s := m.current()
	layer, err := cs.layer(s, req.Who, c)
	if err != nil {
		return err
	}
	over := config.Settings{}
	if s != nil {
		over = *s
	}
	over.Request = layer
	res, err := config.Resolve(&over, req.Who, req.Flags)
	if err != nil {
		return err
	}
	if oldest := time.Duration(res.Prune.MaxAge); c.Timeout > 0 && oldest > 0 && time.Duration(c.Timeout)*time.Second > oldest {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "create", Field: "timeout", Message: fmt.Sprintf("no sandbox gets older than %s, which prune.maxAge says", oldest)}
	}
	p, _, err := m.describer.choose(ctx, res)
	if err != nil {
		return err
	}
	refuse := func(field, why string) error {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "create", Field: field, Message: "the provider " + p.Name() + " " + why, Hint: "leave " + field + " out, or use another provider"}
	}
	switch {
	case c.Image != "" && !p.Features().Images:
		return refuse("image", "has no images")
	case c.OnTimeout == config.OnTimeoutPause && !p.Features().Pause:
		return refuse("onTimeout", "cannot pause a sandbox")
	}
	for _, n := range res.NoEffectWith(runtime.GOOS, p.Name()) {
		if setting, mine := strings.CutPrefix(n.Path, "create."); mine {
			return refuse(fieldOf(setting), "does not hold "+setting+": "+n.Why)
		}
	}
	return nil
}

// fieldOf is the field of a Creation that becomes the setting.
func fieldOf(setting string) string {
	for _, f := range [][2]string{
		{"docker.image", "image"}, {"docker.env", "env"}, {"docker.memory", "resources.memory"}, {"docker.cpus", "resources.cpus"},
		{"docker.pidsLimit", "resources.processes"}, {"workspaceQuota", "resources.disk"}, {"network", "network"},
	} {
		if strings.HasPrefix(setting, f[0]) {
			return f[1]
		}
	}
	return setting
}

// SetNetwork replaces the network rules with which a sandbox was created by n, within
// the ceilings of daemon.create; nil leaves the rules to the settings. Running
// commands lose hosts that n takes away within about a second; hosts that it adds are
// reached by the commands that begin from then on.
func (m *Manager) SetNetwork(ctx context.Context, row Row, n *config.NetworkRules) error {
	if err := m.own("network", row); err != nil {
		return err
	}
	if row.Kind != sandbox.KindSandbox {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "network", Resource: row.Name, Message: "this is no sandbox for commands"}
	}
	who := config.Who{Tenant: row.Tenant, Agent: row.Agent, Session: row.Session}
	turn, err := m.creations.turn(ctx, row.Provider, row.Name)
	if err != nil {
		return err
	}
	defer turn.Release()
	making, err := m.locksOf(row.Provider).Ensure(ctx, row.Name) // so that it is not removed meanwhile
	if err != nil {
		return err
	}
	defer making.Release()
	if there, err := m.creations.recorded(row.Name); err != nil || !there {
		return errors.Join(err, unknown(row.Name))
	}
	c, _, err := m.creations.read(row.Provider, row.Name)
	if err != nil {
		return err
	}
	c.Network = n
	if _, err := m.creations.layer(m.current(), who, c); err != nil {
		return err
	}
	return m.creations.put(row.Provider, row.Name, c)
}

// own refuses a sandbox of another instance.
func (m *Manager) own(op string, row Row) error {
	if row.Instance != "" && !m.ours(row.Provider, row.Instance) {
		return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: op, Resource: row.Name, Message: "the sandbox belongs to another instance"}
	}
	return nil
}

// describe fills in what the sandboxes of rows were created with.
func (cs *creations) describe(rows []Row) error {
	names, err := cs.m.records.Creations()
	if err != nil || len(names) == 0 {
		return err
	}
	var errs error
	for i := range rows {
		r := &rows[i]
		data, kept := names[r.Name]
		if r.Kind != sandbox.KindSandbox || !kept {
			continue
		}
		var c config.Creation
		var err error
		if data != nil {
			err = json.Unmarshal(data, &c)
		} else {
			c, _, err = cs.read(r.Provider, r.Name)
		}
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		r.Labels, r.Metadata, r.AutoResume, r.Preset = c.Labels, c.Metadata, c.AutoResume, c.Preset
	}
	return errs
}
