package fake

import (
	"context"
	"io"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
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
	Args  []string
	Env   map[string]string
	Dir   string
	Umask fs.FileMode

	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	tree *tree
	pid  int
	ctx  context.Context // ended when a signal ends the process
	end  context.CancelFunc
	dead <-chan struct{} // of ctx
	done chan struct{}   // closed when its goroutine has ended
	held []*share        // let go of at its end

	files int64 // that it holds beside its streams; guarded by Engine.mu

	// Guarded by Engine.mu.
	signal  string                 // that ended it, or empty
	ignored map[string]bool        // inherited by children
	traps   map[string]chan string // not inherited
	shown   []string               // Args as the process table has them
	code    int                    // valid after done
}

// newProc returns a process with nothing but its arguments.
func (t *tree) newProc(args []string) *Proc {
	ctx, end := context.WithCancel(context.Background())
	return &Proc{
		Args: args, Umask: 0o022, tree: t, shown: slices.Clone(args),
		ctx: ctx, end: end, dead: ctx.Done(), done: make(chan struct{}),
		ignored: map[string]bool{}, traps: map[string]chan string{},
		Stdin: &emptyInput{}, Stdout: io.Discard, Stderr: io.Discard,
	}
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
	for _, s := range p.held {
		s.release()
	}
	e := p.engine()
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
	close(p.done)
	p.tree.removeLocked(p)
}

func (p *Proc) engine() *Engine { return p.tree.handle.e }

// PID returns the process id.
func (p *Proc) PID() int { return p.pid }

// Files returns the file system as the process sees it, which is that of
// sandbox.Files. Paths are absolute; see [Proc.Path].
func (p *Proc) Files() memfsView { return p.tree.handle.boot.files.Free() }

// Path returns the absolute path of a name in the working directory. It does
// not clean it, because ".." is for the file system to resolve.
func (p *Proc) Path(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return p.Dir + "/" + name
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

// Fork starts a child in the background. Its standard input is empty; it
// writes where its parent writes. Who its parent is makes no difference: it
// belongs to its command and ends with it, like one that called setsid.
func (p *Proc) Fork(args []string, program Program) *Proc {
	return p.spawn(args, stdio{&emptyInput{}, p.Stdout, p.Stderr}, program)
}

// stdio is what a child is started with.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

func (p *Proc) stdio() stdio { return stdio{p.Stdin, p.Stdout, p.Stderr} }

// spawn starts a child that shares s with its parent.
func (p *Proc) spawn(args []string, s stdio, program Program) *Proc {
	p.checkpoint()
	child := p.tree.newProc(args)
	child.Env, child.Dir, child.Umask = maps.Clone(p.Env), p.Dir, p.Umask
	child.Stdin, child.Stdout, child.Stderr = inherit(child, s.in), inherit(child, s.out), inherit(child, s.err)
	e := p.engine()
	e.mu.Lock()
	child.ignored = maps.Clone(p.ignored)
	p.tree.addLocked(child)
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

// become changes what the process table shows, as execve does.
func (p *Proc) become(args []string) {
	e := p.engine()
	e.mu.Lock()
	defer e.mu.Unlock()
	p.Args, p.shown = args, slices.Clone(args)
	clear(p.traps)
}

// Peers lists the processes of the whole sandbox, its first one left out.
func (p *Proc) Peers() []ProcessInfo {
	e := p.engine()
	e.mu.Lock()
	defer e.mu.Unlock()
	return p.tree.handle.boot.table()
}

// Program returns the program of a name, or nil.
func (p *Proc) Program(name string) Program { return p.engine().programs[name] }

// Terminal returns the size of the terminal, and false when there is none.
func (p *Proc) Terminal() (sandbox.TTY, bool) {
	e := p.engine()
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.tree.tty == nil {
		return sandbox.TTY{}, false
	}
	return *p.tree.tty, true
}

// Limits returns the limits in force for the command.
func (p *Proc) Limits() sandbox.Limits { return p.tree.limits }

// Note raises a counter that lives until the sandbox stops and returns it.
// With by zero it only looks.
func (p *Proc) Note(key string, by int) int {
	e := p.engine()
	e.mu.Lock()
	defer e.mu.Unlock()
	p.tree.handle.boot.notes[key] += by
	return p.tree.handle.boot.notes[key]
}

// checkpoint waits while the sandbox is paused and ends the goroutine when
// the process was killed.
func (p *Proc) checkpoint() {
	e := p.engine()
	e.mu.Lock()
	thawed := p.tree.handle.boot.thawed
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
