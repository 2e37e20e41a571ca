//go:build linux || darwin

package sandboxexec

import (
	"bytes"
	"context"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A handle is an open sandbox.
type handle struct {
	p    *Provider
	info sandbox.Info
	spec sandbox.Spec

	mu      sync.Mutex
	running map[*process]bool
	shells  map[*shell]bool
	ports   map[int]int // that listeners have, and how many
	over    bool

	judging sync.Mutex
	judge   *plan.Judge // of the last command
	last    profiled
}

// Info implements [sandbox.Sandbox].
func (h *handle) Info() sandbox.Info { return h.info }

// defaultPath is where programs are looked for.
const defaultPath = "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// A confinement is what one command runs under.
type confinement struct {
	pl    profiled
	text  string
	judge *plan.Judge
	seen  *sighting
}

// confine makes the profile for what comes next. The caller has seen come to an
// end, or drops it.
func (h *handle) confine(ctx context.Context) (confinement, error) {
	if _, err := h.p.Inspect(ctx, h.spec.Name); err != nil {
		return confinement{}, err
	}
	pl, err := h.p.profile(ctx, h.spec)
	if err != nil {
		return confinement{}, err
	}
	h.mu.Lock()
	ports := slices.Sorted(maps.Keys(h.ports))
	h.mu.Unlock()
	c := confinement{pl: pl, seen: h.p.watch.sighting()}
	rules := pl.tagged(c.seen.tag, ports...)
	if c.text, err = plan.Profile(rules); err == nil {
		c.judge, err = plan.NewJudge(rules)
	}
	if err != nil {
		c.seen.drop()
		return confinement{}, err
	}
	h.judging.Lock()
	h.judge, h.last = c.judge, pl
	h.judging.Unlock()
	return c, nil
}

// command is argv under the profile.
func (h *handle) command(c confinement, dir string, env map[string]string, argv []string) (*exec.Cmd, error) {
	args, err := plan.SeatbeltArgs(c.text, argv)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: h.p.o.Exec, Args: args, Dir: c.pl.place(dir), Env: []string{}}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, k+"="+env[k])
	}
	return cmd, nil
}

// environment is what commands find, with own laid over it.
func (h *handle) environment(own map[string]string, bare bool) map[string]string {
	env := map[string]string{}
	if !bare {
		env["PATH"] = defaultPath
		maps.Copy(env, h.spec.Env)
	}
	maps.Copy(env, own)
	if !bare {
		env["HOME"], env["TMPDIR"] = h.p.tmp(h.spec.Name), h.p.tmp(h.spec.Name)
	}
	return env
}

// dir is the folder that a command begins in, as it is called inside.
func (h *handle) dir(own string) string {
	return h.spec.DirOf(own)
}

// Start implements [sandbox.Sandbox]. The whole process group of the command
// is ended with it.
func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if err := unsupported(c); err != nil {
		return nil, err
	}
	if err := ended(ctx, "start"); err != nil {
		return nil, err
	}
	under, err := h.confine(ctx)
	if err != nil {
		return nil, err
	}
	cmd, err := h.command(under, h.dir(c.Dir), h.environment(c.Env, c.Bare), append([]string{"/usr/bin/env"}, c.Args...))
	if err != nil {
		under.seen.drop()
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		under.seen.drop()
		return nil, h.closed("start")
	}
	g, err := newGroup()
	if err != nil {
		under.seen.drop()
		return nil, sandbox.Errorf(sandbox.CodeExecution, "start", "no process group can be made: %w", err)
	}
	p, err := begin(cmd, g, c)
	if err != nil {
		g.end()
		under.seen.drop()
		return nil, err
	}
	p.seen, p.judge = under.seen, under.judge
	h.running[p] = true
	go p.watch(ctx, c.Grace)
	go func() {
		p.wait()
		h.mu.Lock()
		delete(h.running, p)
		h.mu.Unlock()
	}()
	return p, nil
}

func (h *handle) closed(op string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: h.spec.Name, Message: "the handle was closed"}
}

// unsupported refuses what cannot be done without a guest.
func unsupported(c sandbox.Command) error {
	switch {
	case len(c.Args) == 0 || strings.ContainsRune(c.Args[0], '=') || strings.HasPrefix(c.Args[0], "-"):
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "start", Field: "args", Message: "it does not begin with the name of a program"}
	case c.TTY != nil, c.Detach:
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "start", Message: "a local sandbox of macOS has no terminals and no detached commands",
			Hint: "run the command without a terminal, or use the docker provider"}
	}
	return unbounded(c.Limits)
}

// unbounded refuses limits that nothing would hold: those of a command are held
// by the guest, and there is none. Instance time and output are the caller's.
func unbounded(l sandbox.Limits) error {
	for _, b := range []struct {
		limit string
		n     int64
	}{
		{sandbox.LimitMemory, l.Memory}, {sandbox.LimitCPUSeconds, l.CPUSeconds}, {sandbox.LimitFileSize, l.FileSize},
		{sandbox.LimitOpenFiles, l.OpenFiles}, {sandbox.LimitProcesses, l.Processes},
	} {
		if b.n > 0 {
			return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "start", Field: b.limit, Message: "a local sandbox of macOS cannot hold this limit",
				Hint: "leave the setting out, or use the docker provider"}
		}
	}
	return nil
}

// Judge implements [sandbox.Judge] by the profile of the last command, and
// before the first one by that of the trial.
func (h *handle) Judge(op sandbox.Operation, path string) sandbox.Verdict {
	h.judging.Lock()
	j, pl := h.judge, h.last
	h.judging.Unlock()
	if j == nil || !strings.HasPrefix(path, "/") || strings.IndexByte(path, 0) >= 0 {
		return sandbox.Verdict{Rule: "not an absolute path", Builtin: true}
	}
	return j.Judge(op, pl.place(path))
}

// Usage implements [sandbox.Sandbox].
func (h *handle) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "usage", Resource: h.spec.Name, Message: "what a local sandbox of macOS uses is not counted"}
}

// Close implements [sandbox.Sandbox].
func (h *handle) Close() error {
	h.mu.Lock()
	h.over = true
	processes, shells := slices.Collect(maps.Keys(h.running)), slices.Collect(maps.Keys(h.shells))
	h.mu.Unlock()
	for _, s := range shells {
		_ = s.Close() // its error is always nil
	}
	for _, p := range processes {
		p.kill()
		<-p.done
	}
	return nil
}

// runTrial runs argv under the profile and returns what it says.
func (p *Provider) runTrial(ctx context.Context, profile string, argv []string) (stdout, stderr string, err error) {
	args, err := plan.SeatbeltArgs(profile, argv)
	if err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, p.o.Exec)
	var out, said bytes.Buffer
	cmd.Args, cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = args, []string{"PATH=/usr/bin:/bin"}, "/", &out, &said, time.Second
	err = cmd.Run()
	return out.String(), termsafe.Line(strings.TrimSpace(said.String())), err
}

var (
	_ sandbox.Sandbox  = (*handle)(nil)
	_ sandbox.Judge    = (*handle)(nil)
	_ sandbox.Listener = (*handle)(nil)
)
