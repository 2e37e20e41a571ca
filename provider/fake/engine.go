// Package fake is a small provider in memory, for tests of what uses a provider.
//
// An [Engine] is the world: it holds the sandboxes, their processes and the
// faults that a test injects. A [Provider] is one program's connection to it,
// so a test that lets its program "die" makes a second Provider of the same
// Engine and sees what the first one left. Programs inside a sandbox are Go
// functions (see [Program]); a handful of usual ones is built in, and a test
// registers its own by name. Shells speak the language of mvdan.cc/sh; files
// lie in memory.
//
// It is no emulation of a machine: it has one user, no limits but that of
// processor time, no traps, no job control and no network. Tests that need
// those use a real provider. It isolates nothing: programs are functions of
// the test itself.
package fake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// Options are the knobs of an engine. The zero value is usual.
type Options struct {
	// Name is what Provider.Name answers; empty is "fake".
	Name string
	// Programs are added to the built-in ones and win over them.
	Programs map[string]Program
	// Deadline bounds every call of a Provider; zero is 10 seconds.
	Deadline time.Duration
	// CheckOptions judges the options of the provider, see
	// [provider.OptionChecker]; nil refuses all of them.
	CheckOptions func(options map[string]any) error
	// Rules judge paths; nil allows everything.
	Rules Rules
}

// An Engine holds sandboxes. It is safe for concurrent use.
type Engine struct {
	name     string
	deadline time.Duration
	programs map[string]Program // not written after NewEngine
	rules    Rules              // or nil
	options  func(map[string]any) error
	disk     sync.RWMutex // guards all nodes

	mu      sync.Mutex
	boxes   map[string]*box
	folders map[string]*node // of the host, by the source of mounts
	nextID  int
	nextPID int
	faults  []*injection
}

// NewEngine returns an engine without sandboxes.
func NewEngine(o Options) *Engine {
	e := &Engine{
		name: cmp.Or(o.Name, "fake"), deadline: cmp.Or(o.Deadline, 10*time.Second), programs: builtins(),
		rules: o.Rules, options: o.CheckOptions, boxes: map[string]*box{}, folders: map[string]*node{}, nextPID: 1,
	}
	maps.Copy(e.programs, o.Programs)
	return e
}

// New returns a provider of an engine of its own.
func New(o Options) *Provider { return NewEngine(o).Provider() }

// A box is one sandbox. Its fields are guarded by Engine.mu.
type box struct {
	spec sandbox.Spec
	root *node        // what lies outside of mounts, from creation to removal
	info sandbox.Info // as reported while the container does not run
	boot *boot        // nil when it does not run
}

// A boot is one run of a sandbox, from its start to its end.
type boot struct {
	ended   chan struct{}  // closed by Engine.stopLocked
	onStart chan struct{}  // holds one token: the caller that has it runs the OnStart lines
	started time.Time      // fixed
	thawed  chan struct{}  // closed unless paused; guarded by Engine.mu
	paused  bool           // guarded by Engine.mu
	lines   bool           // OnStart lines were run; guarded by the token
	procs   map[*Proc]bool // guarded by Engine.mu
	trees   map[*tree]bool // guarded by Engine.mu
	files   view           // fixed
}

// reserve makes a stopped box for s. A name that is taken is CodeBusy.
func (e *Engine) reserve(s sandbox.Spec, hash string) (*box, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.boxes[s.Name] != nil {
		return nil, failure(sandbox.CodeBusy, "create", s.Name, "a sandbox of that name exists")
	}
	e.nextID++
	b := &box{spec: s, root: image(s), info: sandbox.Info{
		Name: s.Name, ID: fmt.Sprintf("fake-%d", e.nextID), Kind: s.Kind, Provider: e.name,
		Owner: s.Owner, Status: sandbox.StatusStopped, Image: s.Image, ImageID: s.ImageID,
		ConfigHash: hash, Format: fmt.Sprint(s.Format), CreatedAt: time.Now(),
	}}
	e.boxes[s.Name] = b
	return b, nil
}

// start runs b unless it runs already. A box that was removed meanwhile is
// CodeNotFound.
func (e *Engine) start(b *box) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.boxes[b.spec.Name] != b {
		return failure(sandbox.CodeNotFound, "start", b.spec.Name, "the sandbox was removed meanwhile")
	}
	return e.startLocked(b)
}

func (e *Engine) startLocked(b *box) error {
	if b.boot != nil {
		return nil
	}
	t := &boot{
		ended: make(chan struct{}), onStart: make(chan struct{}, 1), started: time.Now(), thawed: make(chan struct{}),
		procs: map[*Proc]bool{}, trees: map[*tree]bool{}, files: e.mountLocked(b),
	}
	close(t.thawed)
	t.onStart <- struct{}{}
	b.boot = t
	return nil
}

// stopLocked ends everything in b. The commands report that their sandbox
// failed.
func (e *Engine) stopLocked(b *box) {
	if b.boot == nil {
		return
	}
	close(b.boot.ended)
	for t := range b.boot.trees {
		t.lost = true
		t.kill()
	}
	b.boot = nil
}

// discard removes b, and only b: a later box of the same name stays.
func (e *Engine) discard(b *box) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.boxes[b.spec.Name] == b {
		e.stopLocked(b)
		delete(e.boxes, b.spec.Name)
	}
}

func (e *Engine) infoLocked(b *box) sandbox.Info {
	info := b.info
	if b.boot != nil {
		info.Status = sandbox.StatusRunning
		if b.boot.paused {
			info.Status = sandbox.StatusPaused
		}
		info.StartedAt = b.boot.started
		info.PID = 1
	}
	return info
}

// find returns the box name, or CodeNotFound.
func (e *Engine) find(op, name string) (*box, sandbox.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.boxes[name]
	if b == nil {
		return nil, sandbox.Info{}, failure(sandbox.CodeNotFound, op, name, "no such sandbox")
	}
	return b, e.infoLocked(b), nil
}

// Destroy removes the sandbox with everything in it, as a user does with the
// engine's own tools: no fault applies. An unknown name is CodeNotFound.
func (e *Engine) Destroy(name string) error {
	b, _, err := e.find("destroy", name)
	if err == nil {
		e.discard(b)
	}
	return err
}

func (e *Engine) pauseLocked(b *box) {
	if t := b.boot; t != nil && !t.paused {
		t.paused = true
		t.thawed = make(chan struct{})
	}
}

func (e *Engine) thawLocked(b *box) {
	if t := b.boot; t != nil && t.paused {
		t.paused = false
		close(t.thawed)
	}
}

// Names returns the names of all sandboxes, sorted.
func (e *Engine) Names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := make([]string, 0, len(e.boxes))
	for name := range e.boxes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A ProcessInfo is one line of the process table.
type ProcessInfo struct {
	PID  int
	Args []string
}

// Processes returns what runs in the sandbox name, by process id, the first
// process of the sandbox left out. An unknown or stopped sandbox has none.
func (e *Engine) Processes(name string) []ProcessInfo {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b := e.boxes[name]; b != nil && b.boot != nil {
		return b.boot.table()
	}
	return nil
}

// table lists the live processes. The caller holds Engine.mu.
func (t *boot) table() []ProcessInfo {
	list := make([]ProcessInfo, 0, len(t.procs))
	for p := range t.procs {
		list = append(list, ProcessInfo{PID: p.pid, Args: slices.Clone(p.Args)})
	}
	slices.SortFunc(list, func(a, b ProcessInfo) int { return a.PID - b.PID })
	return list
}
