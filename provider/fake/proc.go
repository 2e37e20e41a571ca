package fake

import (
	"io"
	"maps"
	"runtime"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A Program is what a name in PATH runs. It returns the exit status. It must
// do its waiting, reading and writing through p: these end the goroutine when
// the process is killed, as a real one ends wherever it stands. It must not
// start goroutines that outlive it; [Proc.Fork] starts processes.
type Program func(p *Proc) int

// A Proc is one process inside a sandbox, as its program sees it.
type Proc struct {
	Args []string
	Env  map[string]string
	Dir  string

	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	cmd  *command
	pid  int
	dead chan struct{} // closed when a signal ends it
	done chan struct{} // closed when its goroutine has ended

	// Guarded by Engine.mu.
	signal  string                 // that ended it, or empty
	ignored map[string]bool        // inherited by children
	traps   map[string]chan string // not inherited
	code    int                    // valid after done
}

// newProcLocked enters a process in the tables. A process born into a tree
// that is being killed is born dead, so that forking cannot outrun the killer.
func (c *command) newProcLocked(args []string, parent *Proc) *Proc {
	e := c.handle.e
	e.nextPID++
	p := &Proc{
		Args: args, Env: c.env, Dir: c.dir, cmd: c, pid: e.nextPID,
		dead: make(chan struct{}), done: make(chan struct{}),
		ignored: map[string]bool{}, traps: map[string]chan string{},
	}
	p.Stdin = &emptyInput{}
	p.Stdout, p.Stderr = &output{p, c.stdout}, &output{p, c.stderr}
	if parent != nil {
		p.Env = maps.Clone(parent.Env)
		p.Dir = parent.Dir
		p.ignored = maps.Clone(parent.ignored)
	}
	c.procs[p] = true
	c.handle.boot.procs[p] = true
	if c.killed {
		p.endLocked("KILL")
	}
	return p
}

// run starts the goroutine of p.
func (p *Proc) run(program Program) {
	go func() {
		code, returned := 0, false
		defer func() { p.finish(code, returned) }()
		p.checkpoint()
		code = program(p)
		returned = true
	}()
}

func (p *Proc) finish(code int, returned bool) {
	e := p.cmd.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	p.code = code & 0xff
	if returned && p.signal != "KILL" {
		p.signal = ""
	}
	if p.signal != "" {
		n, _ := signalNumber(p.signal)
		p.code = 128 + n
	}
	delete(p.cmd.procs, p)
	delete(p.cmd.handle.boot.procs, p)
	close(p.done)
	if len(p.cmd.procs) == 0 {
		p.cmd.emptyLocked()
	}
}

// endLocked ends p by a signal unless one has already.
func (p *Proc) endLocked(signal string) {
	if p.signal == "" {
		p.signal = signal
		close(p.dead)
	}
}

// deliverLocked is what the kernel does with a signal.
func (p *Proc) deliverLocked(signal string) {
	switch {
	case signal == "KILL":
		p.endLocked(signal)
	case p.ignored[signal]:
	case p.traps[signal] != nil:
		select {
		case p.traps[signal] <- signal:
		default: // pending already
		}
	case harmless(signal):
	default:
		p.endLocked(signal)
	}
}

// checkpoint waits while the sandbox is paused and ends the goroutine when
// the process was killed.
func (p *Proc) checkpoint() {
	e := p.cmd.handle.e
	e.mu.Lock()
	thawed := p.cmd.handle.boot.thawed
	e.mu.Unlock()
	select {
	case <-p.dead:
		runtime.Goexit()
	case <-thawed:
	}
	select {
	case <-p.dead:
		runtime.Goexit()
	default:
	}
}

// Sleep waits for d.
func (p *Proc) Sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.dead:
	}
	p.checkpoint()
}

// Await waits for a signal that was trapped before and returns its name.
func (p *Proc) Await(trapped <-chan string) string {
	select {
	case s := <-trapped:
		p.checkpoint()
		return s
	case <-p.dead:
		runtime.Goexit()
	}
	return ""
}

// Trap makes the process survive the named signals; they arrive on the channel.
func (p *Proc) Trap(signals ...string) <-chan string {
	e := p.cmd.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	ch := make(chan string, 1)
	for _, s := range signals {
		p.traps[s] = ch
	}
	return ch
}

// Ignore makes the process and its later children deaf to the named signals.
// KILL cannot be ignored.
func (p *Proc) Ignore(signals ...string) {
	e := p.cmd.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range signals {
		p.ignored[s] = true
	}
}

// Raise sends the process a signal of its own; it returns if it survives.
func (p *Proc) Raise(signal string) {
	e := p.cmd.handle.e
	e.mu.Lock()
	p.deliverLocked(signal)
	e.mu.Unlock()
	p.checkpoint()
}

// Fork starts a child in the background. Its standard input is empty; it
// writes where its parent writes. Who its parent is makes no difference: it
// belongs to its command and ends with it, like one that called setsid.
func (p *Proc) Fork(args []string, program Program) *Proc {
	p.checkpoint()
	e := p.cmd.handle.e
	e.mu.Lock()
	child := p.cmd.newProcLocked(args, p)
	e.mu.Unlock()
	child.run(program)
	return child
}

// Join waits for a child and returns its exit status.
func (p *Proc) Join(child *Proc) int {
	select {
	case <-child.done:
	case <-p.dead:
	}
	p.checkpoint()
	return child.code
}

// Peers lists the processes of the whole sandbox, its first one left out.
func (p *Proc) Peers() []ProcessInfo {
	e := p.cmd.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.cmd.handle.boot.table()
}

// Program returns the program of a name, or nil.
func (p *Proc) Program(name string) Program { return p.cmd.handle.e.programs[name] }

// Terminal returns the size of the terminal, and false when there is none.
func (p *Proc) Terminal() (sandbox.TTY, bool) {
	e := p.cmd.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.cmd.tty == nil {
		return sandbox.TTY{}, false
	}
	return *p.cmd.tty, true
}

// Limits returns the limits in force for the command.
func (p *Proc) Limits() sandbox.Limits { return p.cmd.limits }

// Note raises a counter that lives until the sandbox stops and returns it.
// With by zero it only looks.
func (p *Proc) Note(key string, by int) int {
	e := p.cmd.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	p.cmd.handle.boot.notes[key] += by
	return p.cmd.handle.boot.notes[key]
}
