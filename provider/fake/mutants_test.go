package fake_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

type mutant struct {
	name, check string
	apply       func(h *providertest.Harness)
}

// with breaks the provider's methods.
func with(b broken) func(*providertest.Harness) {
	return func(h *providertest.Harness) {
		h.New = func(testing.TB) sandbox.Provider {
			b := b
			b.Provider = fake.New(faked.Options())
			return b
		}
	}
}

// without switches abilities of the fake off and changes what it says of them.
func without(off sandbox.Features, claim func(*sandbox.Features)) func(*providertest.Harness) {
	return func(h *providertest.Harness) {
		h.New = func(testing.TB) sandbox.Provider {
			o := faked.Options()
			o.Without = off
			return broken{Provider: fake.New(o), features: func(f sandbox.Features) sandbox.Features { claim(&f); return f }}
		}
	}
}

// mutantGroups returns the mutants, those of one subject together.
func mutantGroups() [][]mutant {
	return [][]mutant{providerMutants(), commandMutants(), useMutants(), shellMutants(), lineMutants(), fileMutants(), networkMutants(), egressMutants(), limitMutants()}
}

func mutants() []mutant { return slices.Concat(mutantGroups()...) }

func providerMutants() []mutant {
	notFound := &sandbox.Error{Code: sandbox.CodeNotFound}
	return []mutant{
		{"inspect invents a sandbox", "inspect of an unknown name is not found", with(broken{
			inspect: func(p *fake.Provider, ctx context.Context, name string) (sandbox.Info, error) {
				info, _ := p.Inspect(ctx, name)
				return info, nil
			}})},
		{"unknown is called unavailable", "inspect of an unknown name is not found", with(broken{
			inspect: func(p *fake.Provider, ctx context.Context, name string) (sandbox.Info, error) {
				return sandbox.Info{}, &sandbox.Error{Code: sandbox.CodeUnavailable}
			}})},
		{"a plain error", "inspect of an unknown name is not found", with(broken{
			inspect: func(p *fake.Provider, ctx context.Context, name string) (sandbox.Info, error) {
				return sandbox.Info{}, errors.New("no such thing")
			}})},
		{"create over an existing one succeeds", "create twice is busy and harms nothing", with(broken{
			create: func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
				p.Remove(ctx, s.Name)
				return p.Create(ctx, s)
			}})},
		{"a losing create removes the winner's", "concurrent creates of one name make one", with(broken{
			create: func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
				info, err := p.Create(ctx, s)
				if err != nil {
					p.Remove(ctx, s.Name)
				}
				return info, err
			}})},
		{"user 0 is let through", "create refuses what no wall may have", with(broken{
			create: func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
				s.UID = max(s.UID, 1)
				return p.Create(ctx, s)
			}})},
		{"a cancelled create leaves its sandbox", "create under an ended context leaves nothing", with(broken{
			create: func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
				info, err := p.Create(context.WithoutCancel(ctx), s)
				if err == nil && ctx.Err() != nil {
					return info, &sandbox.Error{Code: sandbox.CodeTimeout}
				}
				return info, err
			}})},
		{"open asks for no owner", "owner round-trips and guards open", with(broken{
			open: func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
				info, err := p.Inspect(ctx, s.Name)
				if err != nil {
					return nil, err
				}
				s.Owner = info.Owner
				return p.Open(ctx, s)
			}})},
		{"list knows no tenant", "list filters", with(broken{
			list: func(p *fake.Provider, ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
				f.Tenant = ""
				return p.List(ctx, f)
			}})},
		{"removing what is gone is an error", "remove twice is no error", with(broken{
			remove: func(p *fake.Provider, ctx context.Context, name string) error {
				if _, err := p.Inspect(ctx, name); err != nil {
					return err
				}
				return p.Remove(ctx, name)
			}})},
		{"remove does nothing", "remove ends what runs", with(broken{
			remove: func(*fake.Provider, context.Context, string) error { return nil }})},
		{"onStart runs at every open", "onStart lines run once per start", with(broken{
			open: func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
				lines := s.OnStart
				s.OnStart = nil
				sb, err := p.Open(ctx, s)
				for _, line := range lines {
					q, err := sb.Start(ctx, sandbox.Command{Args: strings.Fields(line)})
					if err == nil {
						q.Wait()
					}
				}
				return sb, err
			}})},
		{"features claim shells", "shells are as features say", without(sandbox.Features{Shells: true}, func(f *sandbox.Features) { f.Shells = true })},
		{"features deny shells", "shells are as features say", with(broken{
			features: func(f sandbox.Features) sandbox.Features { f.Shells = false; return f }})},
		{"features deny pausing", "pausing freezes and thaws", with(broken{
			features: func(f sandbox.Features) sandbox.Features { f.Pause = false; return f }})},
		{"features claim files", "optional abilities are as features say", without(sandbox.Features{Files: true}, func(f *sandbox.Features) { f.Files = true })},
		{"features claim dialling", "optional abilities are as features say", without(sandbox.Features{Dial: true}, func(f *sandbox.Features) { f.Dial = true })},
		{"features claim listening", "optional abilities are as features say", without(sandbox.Features{Listen: true}, func(f *sandbox.Features) { f.Listen = true })},
		{"features deny files", "optional abilities are as features say", with(broken{
			features: func(f sandbox.Features) sandbox.Features { f.Files = false; return f }})},
		{"close forgets its commands", "close ends the commands of its handle", with(broken{
			close: func(sandbox.Sandbox) error { return nil }})},
		{"down is called not found", "an engine that is down is unavailable, not empty", func(h *providertest.Harness) {
			h.Down = func(testing.TB) sandbox.Provider { return faked.Faulty(fake.FailAt(fake.StepInspect, notFound)) }
		}},
		{"down is called empty", "an engine that is down is unavailable, not empty", func(h *providertest.Harness) {
			h.Down = func(testing.TB) sandbox.Provider { return fake.New(faked.Options()) }
		}},
		{"hanging has no bound", "an engine that hangs times out", func(h *providertest.Harness) {
			h.Hanging = func(t testing.TB) sandbox.Provider {
				over := make(chan struct{})
				t.Cleanup(func() { close(over) })
				return faked.Faulty(func(ctx context.Context, _ fake.Step, _ string) error {
					<-over // deaf to ctx
					return ctx.Err()
				})
			}
		}},
		{"a hook is missing", "stopped behind our back", func(h *providertest.Harness) { h.Behind.Stop = nil }},
	}
}

func commandMutants() []mutant {
	return []mutant{
		{"streams are mixed", "stdout and stderr are separate", with(broken{
			start: changing(func(c *sandbox.Command) { c.Stderr = c.Stdout })})},
		{"output is cleaned to UTF-8", "streams carry every byte unchanged", with(broken{
			start: changing(func(c *sandbox.Command) {
				out := c.Stdout
				c.Stdout = writerFunc(func(p []byte) (int, error) {
					io.WriteString(out, strings.ToValidUTF8(string(p), "?"))
					return len(p), nil
				})
			})})},
		{"a newline is added", "streams carry every byte unchanged", with(broken{
			start: func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
				p, err := sb.Start(ctx, c)
				if err != nil {
					return nil, err
				}
				return process{p, func() (sandbox.Exit, error) {
					exit, err := p.Wait()
					io.WriteString(c.Stdout, "\n")
					return exit, err
				}}, nil
			}})},
		{"wait waits for the input", "a command that does not read its stdin ends", with(broken{
			start: func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
				if c.Stdin == nil {
					return sb.Start(ctx, c)
				}
				p, err := sb.Start(ctx, c)
				if err != nil {
					return nil, err
				}
				return process{p, func() (sandbox.Exit, error) {
					io.Copy(io.Discard, io.LimitReader(c.Stdin, 1<<30))
					return p.Wait()
				}}, nil
			}})},
		{"status is seven bits", "every exit status comes through", with(broken{
			start: waiting(func(e sandbox.Exit, err error) (sandbox.Exit, error) { e.Code &= 0x7f; return e, err })})},
		{"a failing program is an error", "every exit status comes through", with(broken{
			start: waiting(func(e sandbox.Exit, err error) (sandbox.Exit, error) {
				if e.Code != 0 {
					err = errors.New("exit status")
				}
				return e, err
			})})},
		{"signals have no name", "a signal ends with 128+n and its name", with(broken{
			start: waiting(func(e sandbox.Exit, err error) (sandbox.Exit, error) { e.Signal = ""; return e, err })})},
		{"a missing program is status 127", "a missing program is an error that is fs.ErrNotExist", with(broken{
			start: func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
				p, err := sb.Start(ctx, c)
				if err != nil {
					return sb.Start(ctx, sandbox.Command{Args: []string{"exit", "127"}})
				}
				return p, nil
			}})},
		{"the command's variables are lost", "environment of the spec and over it the command's", with(broken{
			start: changing(func(c *sandbox.Command) { c.Env = nil })})},
		{"bare commands get the sandbox's variables", "a bare command has its own environment and nothing else", with(broken{
			start: changing(func(c *sandbox.Command) { c.Bare = false })})},
		{"the directory is ignored", "commands start in workdir or their own dir", with(broken{
			start: changing(func(c *sandbox.Command) { c.Dir = "" })})},
		{"a missing directory is ignored", "a missing dir is an error", with(broken{
			start: changing(func(c *sandbox.Command) { c.Dir = "" })})},
		{"limits are ignored", "limits of the handle bound the command's", with(broken{
			start: changing(func(c *sandbox.Command) { c.Limits = sandbox.Limits{} })})},
		{"cancel ends only the client", "the end of the context kills the whole tree", with(broken{start: clientOnly})},
		{"a deadline ends only the client", "a deadline kills the whole tree", with(broken{start: clientOnly})},
		{"escapees live on", "kill ends the whole tree", func(h *providertest.Harness) {
			h.New = func(testing.TB) sandbox.Provider { return escaping() }
		}},
		{"the context of start is forgotten", "start under an ended context runs nothing", with(broken{start: clientOnly})},
		{"grace is forgotten", "grace sends TERM first", with(broken{
			start: changing(func(c *sandbox.Command) { c.Grace = 0 })})},
		{"grace has no end", "grace ends with KILL", with(broken{
			start: changing(func(c *sandbox.Command) { c.Grace *= 1000 })})},
		{"output is kept in memory", "100 MB of output need little memory", with(broken{start: hoarding})},
		{"unread output holds up the kill", "what nobody reads can be cancelled", with(broken{
			start: func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
				if _, unread := c.Stdout.(interface{ String() string }); !unread {
					ctx = context.WithoutCancel(ctx)
				}
				return sb.Start(ctx, c)
			}})},
		{"there is no terminal", "a terminal has its size and can be resized", with(broken{
			start: changing(func(c *sandbox.Command) { c.TTY = nil })})},
		{"detached commands die with the handle", "close spares detached commands", with(broken{
			start: changing(func(c *sandbox.Command) { c.Detach = false })})},
		{"a lost command counts as done", "destroyed behind our back", with(broken{
			start: waiting(func(e sandbox.Exit, _ error) (sandbox.Exit, error) { return e, nil })})},
		{"goroutines are left", "many commands run at once", func(h *providertest.Harness) {
			release := make(chan struct{})
			with(broken{start: func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
				go func() { <-release }()
				return sb.Start(ctx, c)
			}})(h)
			// Registered on the test itself, so it runs after the check has looked.
			h.Leaks = func(t testing.TB) { t.(*recorder).TB.Cleanup(func() { close(release) }) }
		}},
	}
}
