package provider

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

// A Machine is what a guest was started in: a container, a virtual machine, a
// process. It is safe for concurrent use.
type Machine interface {
	// Connect opens one more session with the guest. What is started over a
	// session ends with it and spares what others have started. It must not
	// wait longer than ctx.
	Connect(ctx context.Context, o client.Options) (*client.Client, error)
	// Ended returns a channel that is closed when the machine has ended.
	Ended() <-chan struct{}
	// Kill ends the machine with everything in it and removes it. It returns
	// when that is done, within a bound of its own, and false when it could not
	// be. It may be called again, also of a machine that has ended.
	Kill() bool
}

// Options are what a [Provider] is made from. Name and Start are required.
type WithinOptions struct {
	Name string // as settings name the provider

	// Start makes the machine that s describes and starts the guest in it. When
	// it returns an error, or ctx ends before, nothing is left. An error that is
	// no [*sandbox.Error] becomes the cause of one with
	// [sandbox.CodeUnavailable].
	Start func(ctx context.Context, s sandbox.Spec) (Machine, error)

	// Holds are the settings that the machines of Start enforce, see
	// [provider.Holder]. Those that the guest enforces, docker.onStart and
	// limits, need not be named.
	Holds []Setting

	// CheckOptions judges providerOptions, see [provider.OptionChecker]; nil is a
	// provider without options.
	CheckOptions func(options map[string]any) error

	World func() hardening.World // facts about the host for [hardening.Check]; nil is none
	Ready time.Duration          // bounds how long a guest may take to answer, the start included; zero is 30 s
	Now   func() time.Time       // the clock; nil is time.Now
}

// A Provider has a guest in each sandbox and so needs only one thing of its own:
// how to start one. It knows its sandboxes as long as the program runs, and ends
// them when it is closed; a provider whose sandboxes outlive the program has to
// find them again in List, and is no Provider. It is safe for concurrent use.
type Within struct {
	o     WithinOptions
	turns keylock.Turns // by sandbox name

	mu    sync.Mutex
	boxes map[string]*box // by sandbox name
	over  bool
}

// A box is one sandbox.
type box struct {
	info    sandbox.Info // as of a running one
	machine Machine      // guarded by Provider.mu
}

var (
	_ sandbox.Provider = (*Within)(nil)
	_ Holder           = (*Within)(nil)
	_ OptionChecker    = (*Within)(nil)
)

// New returns a Provider without sandboxes.
func NewWithin(o WithinOptions) *Within {
	o.Ready = cmp.Or(o.Ready, 30*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.World == nil {
		o.World = func() hardening.World { return hardening.World{} }
	}
	return &Within{o: o, boxes: map[string]*box{}}
}

// Name implements [sandbox.Provider].
func (p *Within) Name() string { return p.o.Name }

// Features says what a guest can do.
func (p *Within) Features() sandbox.Features {
	return sandbox.Features{TTY: true, Shells: true, Files: true, Dial: true, Listen: true}
}

// Holds implements [provider.Holder].
func (p *Within) Holds() []Setting {
	return append(slices.Clone(p.o.Holds), HoldsOnStart, HoldsLimits)
}

// CheckOptions implements [provider.OptionChecker].
func (p *Within) CheckOptions(options map[string]any) error {
	if p.o.CheckOptions == nil {
		return NoOptions(p.o.Name, options)
	}
	return p.o.CheckOptions(options)
}

// Inspect implements [sandbox.Provider].
func (p *Within) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	if err := timedOut(ctx, "inspect", name); err != nil {
		return sandbox.Info{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.boxes[name]
	if b == nil {
		return sandbox.Info{}, notFound("inspect", name)
	}
	return b.now(), nil
}

// List implements [sandbox.Provider].
func (p *Within) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	if err := timedOut(ctx, "list", ""); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []sandbox.Info
	for _, name := range slices.Sorted(maps.Keys(p.boxes)) {
		i := p.boxes[name].now()
		if (f.Instance == "" || f.Instance == i.Owner.Instance) && (f.Tenant == "" || f.Tenant == i.Owner.Tenant) &&
			(f.Kind == "" || f.Kind == i.Kind) && (f.Name == "" || f.Name == i.Name) {
			out = append(out, i)
		}
	}
	return out, nil
}

// Create implements [sandbox.Provider].
func (p *Within) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	release, err := p.enter(ctx, "create", s.Name)
	if err != nil {
		return sandbox.Info{}, err
	}
	defer release()
	if err := p.check(s); err != nil {
		return sandbox.Info{}, err
	}
	if _, err := p.Inspect(ctx, s.Name); err == nil {
		return sandbox.Info{}, &sandbox.Error{Code: sandbox.CodeBusy, Op: "create", Resource: s.Name, Message: "a sandbox of that name exists"}
	}
	hash, err := confighash.Sum(s)
	if err != nil {
		return sandbox.Info{}, err
	}
	m, c, err := p.boot(ctx, "create", s)
	if err != nil {
		return sandbox.Info{}, err
	}
	c.Close()
	var id [16]byte
	rand.Read(id[:]) // never fails
	at := p.o.Now().UTC().Round(0)
	b := &box{machine: m, info: sandbox.Info{
		Name: s.Name, ID: hex.EncodeToString(id[:]), Kind: s.Kind, Provider: p.o.Name, Owner: s.Owner, Status: sandbox.StatusRunning,
		ConfigHash: hash, Format: "1", CreatedAt: at, StartedAt: at,
	}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		go m.Kill()
		return sandbox.Info{}, closed("create", s.Name)
	}
	p.boxes[s.Name] = b
	return b.now(), nil
}

// Open implements [sandbox.Provider].
func (p *Within) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	release, err := p.enter(ctx, "open", s.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	p.mu.Lock()
	b := p.boxes[s.Name]
	var m Machine
	if b != nil {
		m = b.machine
	}
	p.mu.Unlock()
	switch {
	case b == nil:
		return nil, notFound("open", s.Name)
	case !b.info.Owner.Same(s.Owner):
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "open", Resource: s.Name, Message: "the sandbox of that name belongs to another tenant or scope"}
	}
	c, err := p.reach(ctx, m, s)
	if err != nil && ctx.Err() == nil && fell(ctx, m) {
		c, err = p.reboot(ctx, b, m, s)
	}
	if err != nil {
		return nil, err
	}
	if err := MakeReady(ctx, c, s); err != nil {
		c.Close()
		return nil, err
	}
	return &withinHandle{p: p, spec: s, guest: c}, nil
}

// Remove implements [sandbox.Provider].
func (p *Within) Remove(ctx context.Context, name string) error {
	release, err := p.enter(ctx, "remove", name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	b := p.boxes[name]
	p.mu.Unlock()
	if b == nil {
		release()
		return nil
	}
	gone := make(chan error, 1)
	go func() { // to its end, also when the caller does not wait for it
		defer release()
		if !b.machine.Kill() {
			gone <- &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "remove", Resource: name, Message: "the sandbox does not end", Retryable: true}
			return
		}
		p.mu.Lock()
		delete(p.boxes, name)
		p.mu.Unlock()
		gone <- nil
	}()
	select {
	case err := <-gone:
		return err
	case <-ctx.Done():
		return timedOut(ctx, "remove", name)
	}
}

// Close ends all sandboxes. Nothing can be made afterwards.
func (p *Within) Close() error {
	p.mu.Lock()
	p.over = true
	all := slices.Collect(maps.Values(p.boxes))
	clear(p.boxes)
	p.mu.Unlock()
	var wg sync.WaitGroup
	left := make([]error, len(all))
	for i, b := range all {
		wg.Go(func() {
			if !b.machine.Kill() {
				left[i] = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "close", Resource: b.info.Name, Message: "the sandbox does not end"}
			}
		})
	}
	wg.Wait()
	return errors.Join(left...)
}

// check refuses what no sandbox may have, and what this provider cannot do.
func (p *Within) check(s sandbox.Spec) error {
	if err := p.CheckOptions(s.Options); err != nil {
		return err
	}
	if err := hardening.Check(s, p.o.World()); err != nil {
		return err
	}
	if s.Network == "none" && slices.Contains(NotHeld(p, s), HoldsNetwork) {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "create", Field: string(HoldsNetwork), Resource: s.Name,
			Message: fmt.Sprintf("the provider %s does not say that its sandboxes have no network", p.o.Name)}
	}
	return nil
}

// boot starts a machine for s and waits until its guest answers.
func (p *Within) boot(ctx context.Context, op string, s sandbox.Spec) (Machine, *client.Client, error) {
	within, done := context.WithTimeout(ctx, p.o.Ready)
	defer done()
	m, err := p.o.Start(within, s)
	if err != nil {
		return nil, nil, p.explain(ctx, op, s.Name, err)
	}
	c, err := p.reach(within, m, s)
	if err != nil {
		m.Kill()
		return nil, nil, p.explain(ctx, op, s.Name, err)
	}
	return m, c, nil
}

// reboot starts the sandbox b anew, whose machine has ended.
func (p *Within) reboot(ctx context.Context, b *box, ended Machine, s sandbox.Spec) (*client.Client, error) {
	if err := p.check(s); err != nil {
		return nil, err
	}
	ended.Kill() // what is left of it
	m, c, err := p.boot(ctx, "open", s)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		c.Close()
		go m.Kill()
		return nil, closed("open", s.Name)
	}
	b.machine, b.info.StartedAt = m, p.o.Now().UTC().Round(0)
	return c, nil
}

// reach opens a session with the guest in m.
func (p *Within) reach(ctx context.Context, m Machine, s sandbox.Spec) (*client.Client, error) {
	within, done := context.WithTimeout(ctx, p.o.Ready)
	defer done()
	c, err := m.Connect(within, client.Options{Name: s.Name})
	return c, p.explain(ctx, "open", s.Name, err)
}

// explain makes err one of ours.
func (p *Within) explain(ctx context.Context, op, name string, err error) error {
	if err == nil {
		return nil
	}
	if ended := timedOut(ctx, op, name); ended != nil {
		return ended
	}
	if _, ours := errors.AsType[*sandbox.Error](err); ours {
		return err
	}
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: name, Message: "the provider " + p.o.Name + " cannot start or reach the sandbox", Err: err, Retryable: true}
}

// enter waits for the turn of the caller with the sandbox name.
func (p *Within) enter(ctx context.Context, op, name string) (release func(), err error) {
	if err := timedOut(ctx, op, name); err != nil {
		return nil, err
	}
	return p.turns.Enter(ctx, name)
}

// now is the Info of b as it is. The caller holds the mutex of the provider.
func (b *box) now() sandbox.Info {
	i := b.info
	select {
	case <-b.machine.Ended():
		i.Status = sandbox.StatusStopped
	default:
	}
	return i
}

// noticeWithin is how long it may take until the end of a machine is noticed
// whose guest does not answer any more.
const noticeWithin = 4 * time.Second

// fell reports whether m has ended, or does so in a moment.
func fell(ctx context.Context, m Machine) bool {
	select {
	case <-m.Ended():
		return true
	case <-time.After(noticeWithin):
	case <-ctx.Done():
	}
	return false
}

func timedOut(ctx context.Context, op, name string) error {
	if err := ctx.Err(); err != nil {
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: op, Resource: name, Message: "the call ended before its answer", Retryable: true, Err: err}
	}
	return nil
}

func notFound(op, name string) error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: op, Resource: name, Message: "there is no such sandbox"}
}

func closed(op, name string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: name, Message: "the provider was closed"}
}
