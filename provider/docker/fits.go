package docker

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
)

// guard is what a handle knows of the protection of its container.
type guard struct {
	mu       sync.Mutex
	now      *protection
	mounted  map[string]bool
	at       time.Time
	reported map[string]bool // of what was found after commands
	none     bool            // the Spec mounts no folder of people for writing
}

// freshFor is how long a look at host and container counts: a call of a manager
// looks before it starts something, and the start of it looks too.
const freshFor = 50 * time.Millisecond

// Fits reports why the container does not close what has to be closed in the
// folders of people that it can write, or "": a repository or a settings folder
// has come since it was made, or a mount was lost because what it lies on was
// replaced on the host. With grave nothing may run in it; else it is a
// repository that has appeared below such a folder, and what code inside makes
// of that is looked through after each command.
func (h *handle) Fits(ctx context.Context) (why string, grave bool, err error) {
	if h.p == nil {
		return "", false, nil
	}
	h.guard.mu.Lock()
	defer h.guard.mu.Unlock()
	if h.guard.none {
		return "", false, nil
	}
	masked, err := h.p.closedIn(h.info.Name)
	if err != nil {
		return "", true, err
	}
	c, err := h.p.protection(ctx, h.spec, masked)
	if err != nil {
		return "", true, err
	}
	h.guard.now, h.guard.at, h.guard.none = c, time.Now(), c == nil
	if c == nil || len(c.mounts) == 0 && len(c.masks) == 0 {
		return "", false, nil
	}
	if h.guard.mounted, err = h.mounts(ctx); err != nil {
		return "", true, err
	}
	place, rule, grave := c.lost(h.guard.mounted)
	if place == "" {
		return "", false, nil
	}
	what := " has to be closed since the sandbox was made ("
	if slices.Contains(c.added, place) {
		what = " has to be shown since the sandbox was made ("
	}
	return strconv.Quote(place) + what + rule + ")", grave, nil
}

// mounts returns what is mounted in the container, and whether it is read-only.
func (h *handle) mounts(ctx context.Context) (map[string]bool, error) {
	if text, err := os.ReadFile("/proc/" + strconv.Itoa(h.info.PID) + "/mountinfo"); err == nil && h.info.PID > 0 {
		m, err := mountsOf(string(text))
		if _, ours := m[sandbox.GuestDir+"/bin"]; err == nil && ours {
			return m, nil
		}
	}
	// The engine's processes are another machine's or another user's.
	var out bytes.Buffer
	p, err := h.guest.Start(ctx, sandbox.Command{Args: []string{"/bin/cat", "/proc/self/mountinfo"}, Stdout: &out, Stderr: io.Discard, Bare: true, Dir: "/"})
	if err != nil {
		return nil, err
	}
	exit, err := p.Wait()
	if err == nil && exit.Code != 0 {
		err = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "protect", Resource: h.info.Name, Message: "it cannot be seen what is mounted in the sandbox"}
	}
	if err != nil {
		return nil, err
	}
	return mountsOf(out.String())
}

// ready is Fits for a start through the handle: an error where nothing may run.
func (h *handle) ready(ctx context.Context) (*protection, hostscan.Facts, error) {
	h.guard.mu.Lock()
	fresh := h.guard.none || time.Since(h.guard.at) < freshFor
	h.guard.mu.Unlock()
	if !fresh {
		why, grave, err := h.Fits(ctx)
		if err == nil && grave && why != "" {
			err = &sandbox.Error{Code: sandbox.CodeBusy, Op: "start", Resource: h.info.Name, Message: why, Hint: "apply it with: sandbox recreate " + h.info.Name}
		}
		if err != nil {
			return nil, hostscan.Facts{}, err
		}
	}
	h.guard.mu.Lock()
	defer h.guard.mu.Unlock()
	if h.guard.now == nil {
		return nil, hostscan.Facts{}, nil
	}
	return h.guard.now, h.guard.now.before(h.guard.mounted), nil
}

// Judge implements [sandbox.Judge] for what is closed in folders of people. All
// else is allowed: the mounts of the Spec decide.
func (h *handle) Judge(op sandbox.Operation, path string) sandbox.Verdict {
	h.guard.mu.Lock()
	defer h.guard.mu.Unlock()
	return h.guard.now.judge(op, path)
}

// holdWithin bounds the look for git repositories that ends a command.
const holdWithin = 2 * time.Minute

// watched returns p, after whose end it is looked for what it has made for git
// on the host.
func (h *handle) watched(p sandbox.Process, c *protection, before hostscan.Facts) sandbox.Process {
	if c == nil {
		return p
	}
	return &process{Process: p, h: h, c: c, before: before}
}

// A process is a command in a container that can write in a folder of people.
type process struct {
	sandbox.Process
	h      *handle
	c      *protection
	before hostscan.Facts
	once   sync.Once
	mu     sync.Mutex
	found  []sandbox.Violation
}

// Wait implements [sandbox.Process].
func (p *process) Wait() (sandbox.Exit, error) {
	exit, err := p.Process.Wait()
	p.once.Do(func() {
		ctx, done := context.WithTimeout(context.Background(), holdWithin)
		defer done()
		list, failed := p.c.hold(ctx, p.h.p, p.h.info.Name, p.before)
		list = p.h.guard.fresh(list)
		for _, v := range list {
			p.h.p.opts.Warn(p.h.info.Name, v.Resource+": "+v.Rule)
		}
		if failed != nil {
			p.h.p.opts.Warn(p.h.info.Name, failed.Error())
		}
		p.mu.Lock()
		p.found = list
		p.mu.Unlock()
	})
	return exit, err
}

// fresh leaves out the violations that were reported before.
func (g *guard) fresh(list []sandbox.Violation) []sandbox.Violation {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []sandbox.Violation
	for _, v := range list {
		if key := v.Resource + "\x00" + v.Rule; !g.reported[key] {
			if g.reported == nil {
				g.reported = map[string]bool{}
			}
			g.reported[key] = true
			out = append(out, v)
		}
	}
	return out
}

// Violations implements [sandbox.ViolationObserver].
func (p *process) Violations() []sandbox.Violation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found
}

// PID implements [sandbox.Identified].
func (p *process) PID() int {
	if i, ok := p.Process.(sandbox.Identified); ok {
		return i.PID()
	}
	return 0
}

// Used implements [sandbox.Metered].
func (p *process) Used(ctx context.Context) (sandbox.Rusage, error) {
	if m, ok := p.Process.(sandbox.Metered); ok {
		return m.Used(ctx)
	}
	return sandbox.Rusage{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "measure", Message: "the sandbox does not say what the command has used"}
}

// Attempts implements [client.Observed].
func (p *process) Attempts() []client.Attempt {
	if o, ok := p.Process.(client.Observed); ok {
		return o.Attempts()
	}
	return nil
}

// shell is a shell after whose lines it is looked as after commands.
type shell struct {
	sandbox.Shell
	h *handle
}

// Run implements [sandbox.Shell].
func (s *shell) Run(ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
	rules, before, err := s.h.ready(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.Shell.Run(ctx, line, c)
	if err != nil {
		return nil, err
	}
	return s.h.watched(p, rules, before), nil
}

var (
	_ sandbox.Judge             = (*handle)(nil)
	_ sandbox.ViolationObserver = (*process)(nil)
	_ sandbox.Metered           = (*process)(nil)
	_ sandbox.Identified        = (*process)(nil)
)
