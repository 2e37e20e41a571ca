// Package running keeps what outlives one call of a session: its shells, and
// its commands in the background and on terminals.
//
// A [Supervisor] looks everything up by the caller's session and an id of 128
// random bits, so what belongs to another session is not found, with the same
// error as what never existed. It decides nothing about what may run: the
// manager judges each line and each command anew.
//
// Everything is in memory and bounded: output is kept in rings, whose sizes
// are taken from a tenant's share; so is the number of shells and commands of
// a session and of a tenant. A caller that wants more gets
// [sandbox.CodeBudgetExceeded]. What runs ends with the program; nothing
// survives a restart.
package running

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A Manager judges and runs; [Managed] makes one of a manager.
type Manager interface {
	// Run runs one command, see [manager.Manager.Run].
	Run(ctx context.Context, req manager.Request) (manager.Outcome, error)
	// Shell runs the sandbox's shell with arguments, or an interactive one on
	// a terminal without any, see [manager.Manager.Shell].
	Shell(ctx context.Context, req manager.Request) (manager.Outcome, error)
	// OpenShell opens a shell that stays. The end of ctx ends the opening and
	// not the shell.
	OpenShell(ctx context.Context, req manager.Request, o sandbox.ShellOptions) (Shell, error)
}

// A Shell stays from line to line, see [manager.Shell]. Its methods are safe
// for concurrent use; lines take turns.
type Shell interface {
	Program() string // of the shell inside, "bash" or "sh"
	Name() string    // of the sandbox
	Run(ctx context.Context, l manager.Line) (manager.Outcome, error)
	Close() error
}

// Options are the parts and bounds of a [Supervisor]. Of the bounds zero is usual.
type Options struct {
	Manager Manager            // needed
	Log     logrus.FieldLogger // nil is silent
	Now     func() time.Time   // nil is time.Now

	IdleShell time.Duration // a shell that runs nothing for so long is closed; usually 30 minutes
	Linger    time.Duration // how long a command that has ended can be polled; usually 10 minutes

	ShellsPerSession   int // usually 8
	CommandsPerSession int // that run; usually 16
	EndedPerSession    int // that linger, the last ones; usually 32
	ShellsPerTenant    int // usually 512
	CommandsPerTenant  int // that run; usually 1024

	Keep            int64 // bytes of each output stream of a command; usually 1 MiB
	MemoryPerTenant int64 // bytes for output, and input that waits, of all commands of a tenant; usually 64 MiB
	Memory          int64 // the same of all commands, a quarter of it for such as begin; usually 256 MiB
}

// least is the minimum size of a ring, in bytes; a command that gets no more
// memory keeps less of the output.
const least = 4 << 10

// A Supervisor holds shells and commands. It is safe for concurrent use, and has to
// be closed.
type Supervisor struct {
	o      Options
	life   context.Context
	end    context.CancelCauseFunc
	swept  chan struct{}  // closed when the sweeper has ended
	active sync.WaitGroup // commands that run, lines, and shells that are opened or closed
	closed chan struct{}  // closed by the first Close, when all of active has ended

	mu       sync.Mutex
	over     bool
	sessions map[config.Who]*session
	tenants  map[string]*tenant
	memory   int64 // taken for output and input

	starts keylock.Turns // of kernel hosts, by session
}

// A session is what one of them has. Its fields are guarded by Supervisor.mu.
type session struct {
	shells   map[shellKey]*shell
	commands map[string]*command
}

// A tenant is what all sessions of one have together, guarded by Supervisor.mu.
type tenant struct {
	shells, running int
	memory          int64
}

var errClosing = errors.New("the program ends")

// New returns a Supervisor without shells and commands.
func New(o Options) *Supervisor {
	usual(&o.ShellsPerSession, 8)
	usual(&o.CommandsPerSession, 16)
	usual(&o.EndedPerSession, 32)
	usual(&o.ShellsPerTenant, 512)
	usual(&o.CommandsPerTenant, 1024)
	usual(&o.IdleShell, 30*time.Minute)
	usual(&o.Linger, 10*time.Minute)
	usual(&o.Keep, 1<<20)
	usual(&o.MemoryPerTenant, 64<<20)
	usual(&o.Memory, 256<<20)
	o.Keep = max(o.Keep, least)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		silent := logrus.New()
		silent.SetOutput(io.Discard)
		o.Log = silent
	}
	h := &Supervisor{o: o, swept: make(chan struct{}), closed: make(chan struct{}), sessions: map[config.Who]*session{}, tenants: map[string]*tenant{}}
	h.life, h.end = context.WithCancelCause(context.Background())
	go h.sweeping()
	return h
}

func usual[T int | int64 | time.Duration](n *T, value T) {
	if *n <= 0 {
		*n = value
	}
}

// sweeping forgets what has ended, until h is closed.
func (h *Supervisor) sweeping() {
	defer close(h.swept)
	every := min(max(min(h.o.IdleShell, h.o.Linger)/4, 10*time.Millisecond), time.Minute)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-h.life.Done():
			return
		case <-ticks.C:
			h.sweep(h.o.Now())
		}
	}
}

// sweep closes shells that are idle and forgets commands that ended long ago.
func (h *Supervisor) sweep(now time.Time) {
	h.mu.Lock()
	var idle []*shell
	for who, s := range h.sessions {
		for _, sh := range s.shells {
			if sh.opened() && sh.lines == 0 && now.Sub(sh.used) >= h.o.IdleShell {
				h.dropShell(sh)
				idle = append(idle, sh)
			}
		}
		for _, c := range s.commands {
			if c.over() && now.Sub(c.ended) >= h.o.Linger {
				h.forget(c)
			}
		}
		h.tidy(who)
	}
	h.mu.Unlock()
	for _, sh := range idle {
		h.o.Log.WithField("shell", sh.info.ID).Debug("a shell that was idle is closed")
		h.shut(sh)
	}
}

// of returns what a session and its tenant have, made when there is nothing.
// The lock is held.
func (h *Supervisor) of(who config.Who) (*session, *tenant) {
	s := h.sessions[who]
	if s == nil {
		s = &session{shells: map[shellKey]*shell{}, commands: map[string]*command{}}
		h.sessions[who] = s
	}
	t := h.tenants[who.Tenant]
	if t == nil {
		t = &tenant{}
		h.tenants[who.Tenant] = t
	}
	return s, t
}

// tidy forgets a session and a tenant without anything. The lock is held.
func (h *Supervisor) tidy(who config.Who) {
	if s := h.sessions[who]; s != nil && len(s.shells) == 0 && len(s.commands) == 0 {
		delete(h.sessions, who)
	}
	if t := h.tenants[who.Tenant]; t != nil && *t == (tenant{}) {
		delete(h.tenants, who.Tenant)
	}
}

// EndSession ends everything of a session and forgets it. It returns when that
// has happened; an error says what could not be closed. What the session begins
// meanwhile is not concerned.
func (h *Supervisor) EndSession(who config.Who) error { return h.endSession(who, errSessionEnded) }

func (h *Supervisor) endSession(who config.Who, cause error) error {
	h.mu.Lock()
	var shells []*shell
	var commands []*command
	if s := h.sessions[who]; s != nil {
		for _, sh := range s.shells {
			h.dropShell(sh)
			shells = append(shells, sh)
		}
		for _, c := range s.commands {
			commands = append(commands, c)
		}
	}
	h.mu.Unlock()
	for _, c := range commands {
		c.stop(cause)
	}
	var errs []error
	for _, sh := range shells {
		errs = append(errs, h.shut(sh))
	}
	for _, c := range commands {
		<-c.done
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range commands {
		h.forget(c)
	}
	h.tidy(who)
	return errors.Join(errs...)
}

// Close takes nothing new, ends everything, and waits for that until ctx ends,
// which is an error: something may run on then for a moment. It may be called
// many times.
func (h *Supervisor) Close(ctx context.Context) error {
	h.mu.Lock()
	first := !h.over
	h.over = true
	h.mu.Unlock()
	if first {
		h.end(errClosing)
		go h.clear()
	}
	select {
	case <-h.closed:
		return nil
	case <-ctx.Done():
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "close", Message: "not everything that runs has ended in time", Err: context.Cause(ctx)}
	}
}

// clear ends what there is.
func (h *Supervisor) clear() {
	<-h.swept
	h.mu.Lock()
	var whos []config.Who
	for who := range h.sessions {
		whos = append(whos, who)
	}
	h.mu.Unlock()
	var ending sync.WaitGroup
	for _, who := range whos { // all at one time: a guest may take its time
		ending.Go(func() {
			if err := h.endSession(who, errClosing); err != nil {
				h.o.Log.WithError(err).Warn("a shell is not closed in order")
			}
		})
	}
	ending.Wait()
	h.active.Wait()
	close(h.closed)
}

func notFound(op, kind, id string) error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: op, Resource: id, Message: "there is no such " + kind}
}

func noMemory(op, what string) error {
	return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: op, Retryable: true, Message: "there is no memory left for " + what, Hint: "end commands that are not needed"}
}

func tooMany(op, what string, most int) error {
	return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: op, Retryable: true,
		Message: what + " has reached its bound", Hint: "end some of them first: there may be " + strconv.Itoa(most)}
}
