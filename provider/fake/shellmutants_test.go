package fake_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// runLine is the Run of a shell.
type runLine = func(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error)

// rewriting returns a Run that lets change rewrite every line.
func rewriting(change func(line string, c *sandbox.Command) string) runLine {
	return func(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
		return sh.Run(ctx, change(line, &c), c)
	}
}

// resulting returns a Run that lets change rewrite every result.
func resulting(change func(sandbox.Exit, error) (sandbox.Exit, error)) runLine {
	return func(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
		p, err := sh.Run(ctx, line, c)
		if err != nil {
			return nil, err
		}
		return process{p, func() (sandbox.Exit, error) { return change(p.Wait()) }}, nil
	}
}

// uncancelled forgets the context.
func uncancelled(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
	return sh.Run(context.WithoutCancel(ctx), line, c)
}

// opening returns an OpenShell that lets change rewrite the options.
func opening(change func(*sandbox.ShellOptions)) func(sandbox.Sandbox, context.Context, sandbox.ShellOptions) (sandbox.Shell, error) {
	return func(sb sandbox.Sandbox, ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
		change(&o)
		return sb.OpenShell(ctx, o)
	}
}

// A nameless shell forgets what it is called.
type nameless struct{ sandbox.Shell }

func (nameless) ID() string { return "shell" }

// A boastful shell says that it is another program.
type boastful struct{ sandbox.Shell }

func (boastful) Program() string { return "sh" }

// A crowd is a shell that runs every line in a shell of its own.
type crowd struct {
	sandbox.Shell
	sb sandbox.Sandbox
}

func (x crowd) Run(ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
	sh, err := x.sb.OpenShell(ctx, sandbox.ShellOptions{})
	if err != nil {
		return nil, err
	}
	return sh.Run(ctx, line, c)
}

// shellMutants break how shells are opened, keep state and are closed.
func shellMutants() []mutant {
	const gone = "close of a shell twice is harmless and a line after it fails"
	keepOpen := func(sandbox.Shell) error { return nil }
	list := []mutant{
		{"shells have no names", "a shell has its id and names its program", with(broken{
			shell: func(sb sandbox.Sandbox, ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
				sh, err := sb.OpenShell(ctx, o)
				return nameless{sh}, err
			}})},
		{"a shell names another program", "a shell has its id and names its program", with(broken{
			shell: func(sb sandbox.Sandbox, ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
				sh, err := sb.OpenShell(ctx, o)
				return boastful{sh}, err
			}})},
		{"the shell's dir is ignored", "a shell starts in its dir or the workdir", with(broken{
			shell: opening(func(o *sandbox.ShellOptions) { o.Dir = "" })})},
		{"the shell's variables are lost", "a shell has the sandbox's environment and over it its own", with(broken{
			shell: opening(func(o *sandbox.ShellOptions) { o.Env = nil })})},
		{"the handle's limits are lost", "a shell is bound by the limits of its handle", with(broken{
			open: func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
				s.Limits = sandbox.Limits{}
				return p.Open(ctx, s)
			}})},
		{"a missing dir of a shell is ignored", "a shell in a missing dir is an error", with(broken{
			shell: opening(func(o *sandbox.ShellOptions) { o.Dir = "" })})},
		{"the context of a shell is forgotten", "a shell under an ended context is not opened", with(broken{
			shell: func(sb sandbox.Sandbox, ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
				return sb.OpenShell(context.WithoutCancel(ctx), o)
			}})},
		{"there is one shell for all", "shells of one sandbox are apart", oneShell},
		{"a shell begins anew after its end", "a shell that is started again has what it kept", forgetful},
		{"closing a shell does nothing", "close of a shell ends what it has left running", with(broken{endShell: keepOpen})},
		{"closing a shell waits for its line", "close of a shell ends the line that runs", with(broken{endShell: keepOpen})},
		{"a closed shell runs lines", gone, with(broken{endShell: keepOpen})},
		{"closing again is an error", gone, with(broken{endShell: func(sh sandbox.Shell) error {
			_, err := sh.Run(context.Background(), ":", sandbox.Command{})
			sh.Close()
			return err
		}})},
		{"the handle forgets its shells", "close of the handle closes its shells", with(broken{
			close: func(sandbox.Sandbox) error { return nil }})},
		{"a lost line counts as done", "a shell of a destroyed sandbox is lost", with(broken{
			line: resulting(func(e sandbox.Exit, _ error) (sandbox.Exit, error) { return e, nil })})},
		{"only the first line is run", "a line may be many lines", with(broken{
			line: rewriting(func(line string, _ *sandbox.Command) string { first, _, _ := strings.Cut(line, "\n"); return first })})},
	}
	for _, what := range []string{"its directory", "variables", "exported variables", "functions", "aliases", "options"} {
		list = append(list, mutant{"a shell forgets " + what, "a shell keeps " + what, with(broken{
			line: rewriting(func(line string, _ *sandbox.Command) string { return "(" + line + "\n)" })})})
	}
	return list
}

// oneShell hands the same shell out to everybody.
func oneShell(h *providertest.Harness) {
	var mu sync.Mutex
	shells := map[sandbox.Sandbox]sandbox.Shell{}
	with(broken{shell: func(sb sandbox.Sandbox, ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
		mu.Lock()
		defer mu.Unlock()
		if shells[sb] == nil {
			sh, err := sb.OpenShell(ctx, o)
			if err != nil {
				return nil, err
			}
			shells[sb] = sh
		}
		return shells[sb], nil
	}})(h)
}

// forgetful loses the directory when the shell has ended.
func forgetful(h *providertest.Harness) {
	var ended atomic.Bool
	with(broken{line: func(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
		if ended.Load() {
			line = "cd /\n" + line
		}
		p, err := sh.Run(ctx, line, c)
		if err != nil {
			return nil, err
		}
		return process{p, func() (sandbox.Exit, error) {
			exit, err := p.Wait()
			ended.Store(exit.Restarted)
			return exit, err
		}}, nil
	}})(h)
}

// lineMutants break single lines.
func lineMutants() []mutant {
	unsaid := resulting(func(e sandbox.Exit, err error) (sandbox.Exit, error) { e.Restarted = false; return e, err })
	return []mutant{
		{"a line's outputs are mixed", "outputs of a line are separate and exact", with(broken{
			line: rewriting(func(line string, c *sandbox.Command) string { c.Stderr = c.Stdout; return line })})},
		{"a line's output is cleaned to UTF-8", "outputs of a line are separate and exact", with(broken{
			line: rewriting(func(line string, c *sandbox.Command) string {
				if out := c.Stdout; out != nil {
					c.Stdout = writerFunc(func(p []byte) (int, error) {
						io.WriteString(out, strings.ToValidUTF8(string(p), "?"))
						return len(p), nil
					})
				}
				return line
			})})},
		{"exec >/dev/null lasts", "every line has outputs of its own", deafened},
		{"a line has no input", "a line reads its own stdin and nothing else", with(broken{
			line: rewriting(func(line string, c *sandbox.Command) string { c.Stdin = nil; return line })})},
		{"a line's status is seven bits", "a line's status comes through", with(broken{
			line: resulting(func(e sandbox.Exit, err error) (sandbox.Exit, error) { e.Code &= 0x7f; return e, err })})},
		{"nonsense counts as done", "a line that makes no sense ends with a status", with(broken{
			line: resulting(func(e sandbox.Exit, err error) (sandbox.Exit, error) { e.Code = 0; return e, err })})},
		{"nonsense ends the shell for good", "a line that makes no sense ends with a status", with(broken{
			line: func(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
				if strings.Contains(line, "unclosed") {
					defer sh.Close()
				}
				return sh.Run(ctx, line, c)
			}})},
		{"a corrupted shell stays so", "a line that corrupts the shell costs at most one more", corrupted},
		{"a line ends what it has left running", "what a line leaves running lives on unheard", with(broken{
			line: rewriting(func(line string, _ *sandbox.Command) string { return line + "\nkill -9 $!\n:" })})},
		{"a line waits for what it has left running", "what a line leaves running lives on unheard", with(broken{
			line: rewriting(func(line string, _ *sandbox.Command) string { return line + "\nwait" })})},
		{"late output arrives", "what a line leaves running lives on unheard", late},
		{"a line's output is kept in memory", "large output of a line needs little memory", with(broken{line: hoardingLine})},
		{"the end of a shell is not told", "a line with which the shell ends says so", with(broken{line: unsaid})},
		{"an ended shell is told twice", "a line with which the shell ends says so", with(broken{
			line: resulting(func(e sandbox.Exit, err error) (sandbox.Exit, error) { e.Restarted = true; return e, err })})},
		{"a gone shell is not told", "a line that finds the shell gone says so", with(broken{line: unsaid})},
		{"cancel of a line ends only the client", "the end of a line's context ends the whole shell", with(broken{line: uncancelled})},
		{"a killed shell is not told", "the end of a line's context ends the whole shell", with(broken{line: unsaid})},
		{"a deadline of a line is forgotten", "a line's deadline ends the whole shell", with(broken{line: uncancelled})},
		{"kill of a line does nothing", "kill of a line ends the whole shell", with(broken{line: numbLine})},
		{"a line's grace is forgotten", "grace of a line sends TERM first", with(broken{
			line: rewriting(func(line string, c *sandbox.Command) string { c.Grace = 0; return line })})},
		{"a line's grace has no end", "grace of a line sends TERM first", with(broken{
			line: rewriting(func(line string, c *sandbox.Command) string { c.Grace *= 1000; return line })})},
		{"signals get lost", "signal reaches what a line runs", with(broken{line: numbLine})},
		{"lines run side by side", "lines of one shell take turns", with(broken{
			shell: func(sb sandbox.Sandbox, ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
				sh, err := sb.OpenShell(ctx, o)
				return crowd{sh, sb}, err
			}})},
		{"shells wait for each other", "lines of two shells do not wait for each other", queued},
		{"a line waits for ever", "a line waits for its turn until its context ends", with(broken{line: uncancelled})},
		{"what a line cannot have is ignored", "a line cannot have what it can say itself", with(broken{
			line: rewriting(func(line string, c *sandbox.Command) string {
				*c = sandbox.Command{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, Grace: c.Grace}
				return line
			})})},
	}
}

func numbLine(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
	p, err := sh.Run(ctx, line, c)
	if err != nil {
		return nil, err
	}
	return numb{p}, nil
}

// hoardingLine hands output over only when all of it is there.
func hoardingLine(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
	out := c.Stdout
	var kept []byte
	c.Stdout = writerFunc(func(p []byte) (int, error) { kept = append(kept, p...); return len(p), nil })
	p, err := sh.Run(ctx, line, c)
	if err != nil {
		return nil, err
	}
	return process{p, sync.OnceValues(func() (sandbox.Exit, error) {
		exit, err := p.Wait()
		out.Write(kept)
		return exit, err
	})}, nil
}

// deafened loses all output once a line has sent its own away.
func deafened(h *providertest.Harness) {
	var deaf atomic.Bool
	with(broken{line: rewriting(func(line string, c *sandbox.Command) string {
		if deaf.Load() {
			c.Stdout = nil
		}
		deaf.Store(deaf.Load() || strings.Contains(line, "exec >/dev/null"))
		return line
	})})(h)
}

// corrupted loses every line after one that makes no sense.
func corrupted(h *providertest.Harness) {
	var hurt atomic.Bool
	with(broken{line: rewriting(func(line string, _ *sandbox.Command) string {
		if hurt.Load() {
			line = "kill -9 $$"
		}
		hurt.Store(hurt.Load() || line == "echo $(")
		return line
	})})(h)
}

// late writes to the first line's output when the third is run.
func late(h *providertest.Harness) {
	var mu sync.Mutex
	var outputs []io.Writer
	with(broken{line: rewriting(func(line string, c *sandbox.Command) string {
		mu.Lock()
		defer mu.Unlock()
		if outputs = append(outputs, c.Stdout); len(outputs) == 3 {
			io.WriteString(outputs[0], "late\n")
		}
		return line
	})})(h)
}

// queued lets only one line run at a time, whichever its shell.
func queued(h *providertest.Harness) {
	turn := make(chan struct{}, 1)
	with(broken{line: func(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		p, err := sh.Run(ctx, line, c)
		if err != nil {
			<-turn
			return nil, err
		}
		go func() { p.Wait(); <-turn }()
		return p, nil
	}})(h)
}

// TestEveryCheckHasAMutant holds that no check of shells, files and connections
// is without a mutant that it catches.
func TestEveryCheckHasAMutant(t *testing.T) {
	caught := map[string]bool{}
	for _, m := range mutants() {
		caught[m.check] = true
	}
	begun := false
	for _, c := range providertest.Checks() {
		begun = begun || c.Name == "a shell has its id and names its program"
		if begun && !caught[c.Name] && !older(c.Name) {
			t.Errorf("nothing shows that the check %q can fail", c.Name)
		}
	}
}

// older are checks that come after those of shells, files and connections.
func older(name string) bool {
	for _, part := range []string{"onStart", "behind our back", "an engine that"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
