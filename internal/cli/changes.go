package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// A ChangeStore shows what was changed in workspaces, and carries it over to
// folders of the host; *manager.Manager is one.
type ChangeStore interface {
	Changes(ctx context.Context, r manager.Request, o manager.ChangeOptions, fn func(*manager.Changes) error) error
	Apply(ctx context.Context, r manager.Request, o manager.ApplyOptions) (manager.Applied, error)
	Discard(ctx context.Context, r manager.Request, paths []string) ([]change.Entry, error)
	Undo(ctx context.Context, r manager.Request, id string, partial bool) (manager.Undone, error)
}

// withChanges calls fn with what knows of changes, and lets go of it afterwards.
func (a *app) withChanges(fn func(ChangeStore, manager.Request) error) error {
	o, err := a.hosted()
	if err != nil {
		return err
	}
	s, release, err := a.Backend.Changes(o)
	if err != nil {
		return err
	}
	defer release()
	return fn(s, a.ownRequest())
}

// changedPaths reads the arguments of a command as paths below the workspace.
func changedPaths(c *ucli.Context) []string {
	paths := slices.Clone(c.Args().Slice())
	for i, p := range paths {
		p = strings.TrimPrefix(strings.TrimPrefix(p, sandbox.WorkspaceDir+"/"), "./")
		paths[i] = strings.TrimSuffix(p, "/")
	}
	return paths
}

func (a *app) diffCommand() *ucli.Command {
	var stat, names bool
	since := text{check: notEmpty}
	return &ucli.Command{
		Name:      "diff",
		Usage:     "show what was changed in the session's workspace",
		UsageText: "sandbox diff [--stat | --name-only] [--since CHECKPOINT] [flags] [PATH…]",
		Description: "A private workspace is compared with the folder that it is a view of, another one with its last checkpoint. The output\n" +
			"is that of git diff, and git apply accepts it; docs/changes.md says what is shown.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "stat", Usage: "show a line for each file", Destination: &stat},
			&ucli.BoolFlag{Name: "name-only", Usage: "show the paths alone", Destination: &names},
			&ucli.GenericFlag{Name: "since", Usage: "compare with `CHECKPOINT`", Value: &since},
		},
		Action: func(c *ucli.Context) error {
			o := change.RenderOptions{Terminal: isTerminal(a.Stdout), Color: isTerminal(a.Stdout)}
			switch {
			case stat && names:
				return usagef("diff", "--stat and --name-only exclude each other")
			case stat:
				o.Format = change.Stat
			case names:
				o.Format = change.NameOnly
			}
			return a.withChanges(func(s ChangeStore, r manager.Request) error {
				return s.Changes(c.Context, r, manager.ChangeOptions{Since: since.value, Paths: changedPaths(c)}, func(found *manager.Changes) error {
					if a.globals.json() {
						return writeJSON(a.Stdout, found)
					}
					if err := found.Render(c.Context, a.Stdout, o); err != nil {
						return err
					}
					return change.RenderRisks(a.Stderr, found.Entries)
				})
			})
		},
	}
}

func (a *app) applyCommand() *ucli.Command {
	var dry, interactive, partial bool
	var risks, paths ucli.StringSlice
	return &ucli.Command{
		Name:      "apply",
		Usage:     "carry the changes of a private workspace over to its folder",
		UsageText: "sandbox apply [--dry-run | --interactive] [--allow RISK]… [--allow-path PATH]… [--partial] [flags] [PATH…]",
		Description: "A file that changed in the folder meanwhile is merged, or is a conflict and stays as it is. What can make programs of\n" +
			"this machine run code, such as hooks and settings of editors, needs --allow or --allow-path. Without --partial nothing is\n" +
			"done where there is a conflict or a consent is missing. sandbox undo takes all of it back.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "dry-run", Usage: "show what would be done", Destination: &dry},
			&ucli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "ask about each change, for the consents, and before anything is written", Destination: &interactive},
			&ucli.BoolFlag{Name: "partial", Usage: "leave out what conflicts or has no consent", Destination: &partial},
			&ucli.StringSliceFlag{Name: "allow", Usage: "consent to changes of this `RISK`, such as git, editor or ci", Destination: &risks},
			&ucli.StringSliceFlag{Name: "allow-path", Usage: "consent to the risks of changes at and below `PATH`", Destination: &paths},
		},
		Action: func(c *ucli.Context) error {
			o := manager.ApplyOptions{Paths: changedPaths(c), AllowPaths: paths.Value(), Partial: partial, DryRun: dry}
			for _, r := range risks.Value() {
				if !slices.Contains(change.Risks(), change.Risk(r)) {
					return usagef("apply", "--allow %s is no risk that a consent covers", termsafe.Line(r))
				}
				o.AllowRisks = append(o.AllowRisks, change.Risk(r))
			}
			if interactive && dry {
				return usagef("apply", "--dry-run and --interactive exclude each other")
			}
			if interactive && !isTerminal(a.Stdin) {
				return usagef("apply", "standard input is no terminal to ask on; leave --interactive out")
			}
			return a.withChanges(func(s ChangeStore, r manager.Request) error {
				if interactive {
					if err := a.askToApply(c.Context, s, r, &o); err != nil {
						return err
					}
				}
				done, err := s.Apply(c.Context, r, o)
				if shown := a.showApplied(done); shown != nil {
					return shown
				}
				return err
			})
		},
	}
}

// askToApply asks which changes are applied, one by one, and for the consents that
// they need. It puts the choice into o, with the digest of the plan, so that what was
// shown is what is done.
func (a *app) askToApply(ctx context.Context, s ChangeStore, r manager.Request, o *manager.ApplyOptions) error {
	ask := *o
	ask.DryRun, ask.Partial = true, true
	offered, err := s.Apply(ctx, r, ask)
	if err != nil {
		return err
	}
	chosen, all, err := a.chooseChanges(ctx, s, r, offered.Plan.Entries)
	switch {
	case err != nil:
		return err
	case !all && len(chosen) == 0:
		a.say("nothing was changed")
		return silentStatus(statusFailed)
	case !all:
		o.Paths = chosen
	}
	if err := a.askForConsents(ctx, offered.Plan.Refused, o, chosen, all); err != nil {
		return err
	}
	ask.Paths, ask.AllowPaths = o.Paths, o.AllowPaths
	plan, err := s.Apply(ctx, r, ask)
	if err != nil {
		return err
	}
	asked := map[string]change.Entry{}
	for _, e := range offered.Plan.Entries {
		asked[e.Path] = e
	}
	for _, e := range plan.Plan.Entries {
		if err := unchanged(asked[e.Path], e); err != nil {
			return err
		}
	}
	o.Partial, o.Digest = true, plan.Plan.Digest
	if err := a.showPlan(a.Stderr, plan.Plan); err != nil {
		return err
	}
	return a.agreed(ctx, fmt.Sprintf("Apply %s to %s? [y/N] ", count(len(plan.Plan.Steps), "change", "changes"), termsafe.Line(plan.Folder)), "nothing was changed")
}

// unchanged returns an error unless now is the change that the answers are about: code
// in the sandbox may run meanwhile.
func unchanged(asked, now change.Entry) error {
	if asked.Path == now.Path && asked.Mode == now.Mode && asked.Digest == now.Digest && asked.Link == now.Link {
		return nil
	}
	return &sandbox.Error{Code: sandbox.CodeBusy, Op: "apply", Resource: change.Quote(now.Path), Retryable: true,
		Message: "it has changed in the sandbox since it was asked about, so nothing was applied", Hint: "look at it with: sandbox diff, and repeat the command"}
}

// askForConsents asks about each chosen change that needs a consent. The answer about a
// folder holds for what lies below it, of which the risks are shown with it.
func (a *app) askForConsents(ctx context.Context, refused []change.Entry, o *manager.ApplyOptions, chosen []string, all bool) error {
	var answered []string
	for _, e := range refused {
		below := func(p string) bool { return p == e.Path || strings.HasPrefix(p, e.Path+"/") }
		above := func(p string) bool { return strings.HasPrefix(e.Path, p+"/") }
		if e.Level() != change.Own || slices.ContainsFunc(answered, above) || !all && !slices.ContainsFunc(chosen, below) {
			continue
		}
		concerned := slices.DeleteFunc(slices.Clone(refused), func(other change.Entry) bool { return !below(other.Path) })
		var why bytes.Buffer
		if err := change.RenderRisks(&why, concerned); err != nil {
			return err
		}
		answer, err := a.answer(ctx, why.String()+"Apply "+change.Quote(e.Path)+" all the same? [y/N] ")
		if err != nil {
			return err
		}
		if isYes(answer) {
			o.AllowPaths = append(o.AllowPaths, e.Path)
		}
		answered = append(answered, e.Path)
	}
	return nil
}

// chooseChanges asks about each change and returns the paths of those that are
// wanted; all is true where every one is. It does not ask about a folder with changes
// below it: the path of such a folder stands for all of them, so it is chosen where
// they all are, and a new one comes along with what is chosen below it.
func (a *app) chooseChanges(ctx context.Context, s ChangeStore, r manager.Request, entries []change.Entry) (chosen []string, all bool, err error) {
	holding, leaving := map[string]bool{}, map[string]bool{} // folders above any change, and above one that is not wanted
	mark := func(above map[string]bool, p string) {
		for d := path.Dir(p); d != "." && !above[d]; d = path.Dir(d) {
			above[d] = true
		}
	}
	for _, e := range entries {
		mark(holding, e.Path)
	}
	rest := false
	for _, e := range entries {
		if holding[e.Path] {
			continue
		}
		if !rest {
			answer, err := a.askAboutChange(ctx, s, r, e)
			if err != nil || answer == 'q' {
				return nil, false, err
			}
			rest = answer == 'a'
			if answer == 'n' {
				mark(leaving, e.Path)
				continue
			}
		}
		chosen = append(chosen, e.Path)
	}
	for _, e := range entries {
		if holding[e.Path] && !leaving[e.Path] {
			chosen = append(chosen, e.Path)
		}
	}
	return chosen, len(chosen) == len(entries), nil
}

// askAboutChange returns the answer to whether a change is applied: y, n, a or q.
func (a *app) askAboutChange(ctx context.Context, s ChangeStore, r manager.Request, e change.Entry) (rune, error) {
	for {
		answer, err := a.answer(ctx, fmt.Sprintf("%-8s %s: apply? [y,n,d,a,q,?] ", e.Kind, change.Quote(e.Path)))
		if err != nil {
			return 0, err
		}
		switch answer {
		case "y", "yes":
			return 'y', nil
		case "n", "no":
			return 'n', nil
		case "a", "all":
			return 'a', nil
		case "q", "quit", "":
			return 'q', nil
		case "d", "diff":
			err := s.Changes(ctx, r, manager.ChangeOptions{Paths: []string{e.Path}}, func(found *manager.Changes) error {
				for _, now := range found.Entries {
					if now.Path != e.Path {
						continue
					}
					if err := unchanged(e, now); err != nil {
						return err
					}
				}
				return found.Render(ctx, a.Stderr, change.RenderOptions{Terminal: true, Color: isTerminal(a.Stderr)})
			})
			if err != nil {
				return 0, err
			}
		default:
			a.say("y applies it, n leaves it out, d shows it, a applies it and all that follow, q changes nothing at all")
		}
	}
}

// showPlan writes what a plan does and does not do.
func (a *app) showPlan(w io.Writer, plan *change.Plan) error {
	var text strings.Builder
	for _, s := range plan.Steps {
		fmt.Fprintf(&text, "%-8s %s\n", s.Action, change.Quote(s.Path))
	}
	for _, s := range plan.Conflicts {
		fmt.Fprintf(&text, "%-8s %s: %s\n", "conflict", change.Quote(s.Path), termsafe.Line(s.Why))
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	return change.RenderRisks(w, plan.Refused)
}

func (a *app) showApplied(done manager.Applied) error {
	if done.Plan == nil {
		return nil
	}
	if a.globals.json() {
		return writeJSON(a.Stdout, done)
	}
	if err := a.showPlan(a.Stdout, done.Plan); err != nil {
		return err
	}
	if done.Report == nil {
		return nil
	}
	_, err := fmt.Fprintf(a.Stderr, "applied %s to %s\n", count(len(done.Report.Done), "change", "changes"), termsafe.Line(done.Folder))
	return err
}

func (a *app) discardCommand() *ucli.Command {
	var force bool
	return &ucli.Command{
		Name:        "discard",
		Usage:       "take back what was changed in the session's workspace",
		UsageText:   "sandbox discard [--force] [flags] [PATH…]",
		Description: "A private workspace becomes what its folder is, another one what its last checkpoint kept. The folder stays as it is.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "force", Usage: "do not ask", Destination: &force},
		},
		Action: func(c *ucli.Context) error {
			if !force && !isTerminal(a.Stdin) {
				return usagef("discard", "standard input is no terminal to ask on; add --force")
			}
			return a.withChanges(func(s ChangeStore, r manager.Request) error {
				if !force {
					if err := a.agreed(c.Context, fmt.Sprintf("Discard the changes in the workspace of session %s? [y/N] ", termsafe.Line(a.globals.session.value)), "nothing was changed"); err != nil {
						return err
					}
				}
				list, err := s.Discard(c.Context, r, changedPaths(c))
				if err != nil {
					return err
				}
				if a.globals.json() {
					return writeJSON(a.Stdout, map[string]any{"discarded": slices.Concat([]change.Entry{}, list)})
				}
				for _, e := range list {
					if _, err := fmt.Fprintln(a.Stdout, change.Quote(e.Path)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func (a *app) undoCommand() *ucli.Command {
	var partial bool
	return &ucli.Command{
		Name:        "undo",
		Usage:       "take back what sandbox apply did to a folder",
		UsageText:   "sandbox undo [--partial] [flags] [ID]",
		Description: "Without an ID it is the last application of the session that was not taken back. A file that changed since is a conflict.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "partial", Usage: "take back the others where some conflict", Destination: &partial},
		},
		Action: func(c *ucli.Context) error {
			if c.Args().Len() > 1 {
				return usagef("undo", "at most one id is taken")
			}
			return a.withChanges(func(s ChangeStore, r manager.Request) error {
				done, err := s.Undo(c.Context, r, c.Args().First(), partial)
				if done.Report != nil && a.globals.json() {
					if shown := writeJSON(a.Stdout, done); shown != nil {
						return shown
					}
				} else if done.Report != nil {
					for _, step := range done.Report.Done {
						fmt.Fprintf(a.Stdout, "%-8s %s\n", step.Action, change.Quote(step.Path))
					}
					for _, s := range done.Report.Conflicts {
						fmt.Fprintf(a.Stdout, "%-8s %s: %s\n", "conflict", change.Quote(s.Path), termsafe.Line(s.Why))
					}
				}
				return err
			})
		},
	}
}
