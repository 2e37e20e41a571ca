package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A CheckpointStore keeps states of sandboxes: those of this machine, or a
// daemon's. Methods with a request are about the sandbox of its session, which
// must exist.
type CheckpointStore interface {
	// Create calls progress, if it is not nil, with how many entries and bytes were
	// copied since the call before, where that is known. Calls overlap.
	Create(ctx context.Context, r manager.Request, name string, progress func(entries, bytes int64)) (api.Checkpoint, error)
	Rollback(ctx context.Context, r manager.Request, ref string) (api.RolledBack, error)
	Fork(ctx context.Context, r manager.Request, f api.Fork) ([]api.Forked, error)

	// List returns what f selects, the oldest first.
	List(ctx context.Context, f manager.CheckpointFilter) ([]api.Checkpoint, error)

	// Get returns the checkpoint of who's tenant with that id or name, Remove
	// removes it, and Export writes it as one file, which Import reads.
	Get(ctx context.Context, who config.Who, ref string) (api.Checkpoint, error)
	Remove(ctx context.Context, who config.Who, ref string) error
	Export(ctx context.Context, who config.Who, ref string, w io.Writer) error
	Import(ctx context.Context, who config.Who, name string, r io.Reader) (api.Checkpoint, error)
}

func (a *app) checkpointCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "checkpoint",
		Usage:     "keep states of the session's sandbox, to go back to and to begin others with",
		UsageText: "sandbox checkpoint (create | list | show | rm | export | import) [flags]",
		Description: "A checkpoint is named by its id or its name. rollback goes back to one; fork and run --from begin with one.\n" +
			"docs/checkpoints.md says what is kept.",
		Subcommands: []*ucli.Command{
			a.checkpointCreateCommand(), a.checkpointListCommand(), a.checkpointShowCommand(), a.checkpointRemoveCommand(),
			a.checkpointExportCommand(), a.checkpointImportCommand(),
		},
	}
}

// ownRequest is the request of a command that is about the session's sandbox,
// which must exist.
func (a *app) ownRequest() manager.Request {
	return manager.Request{Who: a.globals.who(), Flags: a.globals.layer(), MustExist: true}
}

// withCheckpoints calls fn with what keeps checkpoints, and lets go of it
// afterwards.
func (a *app) withCheckpoints(fn func(CheckpointStore) error) error {
	o, err := a.hosted()
	if err != nil {
		return err
	}
	s, release, err := a.Backend.Checkpoints(o)
	if err != nil {
		return err
	}
	defer release()
	return fn(s)
}

// oneCheckpoint reads the only argument of a command, which names a checkpoint.
func oneCheckpoint(c *ucli.Context, command string) (string, error) {
	if c.Args().Len() != 1 || c.Args().First() == "" {
		return "", usagef(command, "exactly one checkpoint is needed, see sandbox checkpoint list")
	}
	return c.Args().First(), nil
}

func (a *app) checkpointCreateCommand() *ucli.Command {
	name := text{check: notEmpty}
	var quiet bool
	return &ucli.Command{
		Name:      "create",
		Usage:     "keep the state of the session's sandbox, and print the id of the checkpoint",
		UsageText: "sandbox checkpoint create [--name NAME] [flags]",
		Description: "The sandbox must exist, and goes on. Kept are its workspace, its home and the folders of checkpoint.folders, and of its\n" +
			"persistent shells the working folder, variables and functions. Programs that run are named, and not kept.",
		Flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "name", Usage: "call it `NAME`; no two of a tenant have the same", Value: &name},
			quietFlag(&quiet),
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.withCheckpoints(func(s CheckpointStore) error {
				w := work{what: "keeping the state of session " + termsafe.Line(a.globals.session.value), one: "entry", many: "entries"}
				b := a.newBar(c.Context, quiet, w.line)
				made, err := s.Create(c.Context, a.ownRequest(), name.value, func(entries, bytes int64) {
					w.done.Add(entries)
					w.besides.Add(bytes)
				})
				b.stop()
				if err != nil {
					return err
				}
				return a.showMadeCheckpoint(made)
			})
		},
	}
}

// showMadeCheckpoint prints the id of a checkpoint for programs, and what people
// have to know of it.
func (a *app) showMadeCheckpoint(made api.Checkpoint) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, made)
	}
	if _, err := io.WriteString(a.Stdout, termsafe.Line(made.ID)+"\n"); err != nil {
		return err
	}
	if made.Busy {
		a.say("warning: commands ran meanwhile, so files may be of different moments")
	}
	if n := len(made.Running); n > 0 {
		a.say("not kept: %s that ran, see sandbox checkpoint show", count(n, "program", "programs"))
	}
	if l := made.LeftOut; l != nil {
		a.say("%s", leftOutOf(*l))
	}
	return nil
}

// leftOutOf says in words what a checkpoint does not keep.
func leftOutOf(l api.CheckpointLeftOut) string {
	var parts []string
	for _, p := range []struct {
		n         int
		one, many string
	}{
		{l.Special, "pipe, socket or device", "pipes, sockets and devices"}, {l.Unreadable, "file that cannot be read", "files that cannot be read"},
		{l.Vanished, "file that was removed meanwhile", "files that were removed meanwhile"},
	} {
		if p.n > 0 {
			parts = append(parts, count(p.n, p.one, p.many))
		}
	}
	out := ""
	if len(parts) > 0 {
		out = "left out: " + strings.Join(parts, ", ")
	}
	if l.Changed > 0 {
		out += strings.Repeat("; ", min(1, len(parts))) + count(l.Changed, "file was", "files were") + " written to while being copied"
	}
	return out
}

func (a *app) checkpointListCommand() *ucli.Command {
	var all bool
	return &ucli.Command{
		Name:        "list",
		Usage:       "show the checkpoints of the session, the oldest first",
		UsageText:   "sandbox checkpoint list [--all] [flags]",
		Description: "SIZE is what each added to the one before on the disk.",
		Aliases:     []string{"ls"},
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "all", Usage: "those of every session of the tenant; of one agent with --agent", Destination: &all},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			f := manager.CheckpointFilter{Tenant: a.globals.tenant.value, Agent: a.globals.agent.value, Session: a.globals.session.value}
			if all {
				if a.globals.session.given {
					return usagef("checkpoint list", "--all and --session exclude each other")
				}
				f.Session = ""
				if !a.globals.agent.given {
					f.Agent = ""
				}
			}
			return a.withCheckpoints(func(s CheckpointStore) error {
				list, err := s.List(c.Context, f)
				if err != nil {
					return err
				}
				return a.showCheckpoints(list)
			})
		},
	}
}

func (a *app) showCheckpoints(list []api.Checkpoint) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, struct {
			Checkpoints []api.Checkpoint `json:"checkpoints"`
		}{notNil(list)})
	}
	t := a.newTable([]string{"ID", "NAME", "AGENT", "SESSION", "CREATED", "FILES", "SIZE", "PARENT"}, "PARENT", "AGENT", "FILES")
	for _, one := range list {
		t.add(one.ID, one.Name, one.Agent, one.Session, shownTime(one.CreatedAt), strconv.FormatInt(one.Files, 10), bytesOf(one.Bytes), one.Parent)
	}
	return t.write(a.Stdout)
}

func (a *app) checkpointShowCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "show",
		Usage:     "show what a checkpoint keeps, and what it does not",
		UsageText: "sandbox checkpoint show CHECKPOINT",
		Action: func(c *ucli.Context) error {
			ref, err := oneCheckpoint(c, "checkpoint show")
			if err != nil {
				return err
			}
			return a.withCheckpoints(func(s CheckpointStore) error {
				one, err := s.Get(c.Context, a.globals.who(), ref)
				if err != nil {
					return err
				}
				return a.showCheckpoint(one)
			})
		},
	}
}

func (a *app) showCheckpoint(one api.Checkpoint) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, one)
	}
	t := newTable("id", one.ID)
	row := func(name, value string) {
		if value != "" {
			t.add(name, value)
		}
	}
	row("name", one.Name)
	row("sandbox", cmp.Or(one.Sandbox, "imported"))
	row("tenant", one.Tenant)
	row("agent", one.Agent)
	row("session", one.Session)
	row("parent", one.Parent)
	row("created", shownTime(one.CreatedAt))
	if one.Auto {
		row("made by", "checkpoint.auto")
	}
	if one.Busy {
		row("busy", "commands ran meanwhile, so files may be of different moments")
	}
	row("image", one.Image)
	row("means", string(one.Means))
	row("size", fmt.Sprintf("%s, %s", bytesOf(one.Bytes), count(int(one.Files), "entry", "entries")))
	for _, f := range one.Folders {
		row("folder", f.Target+" ("+f.Name+")")
	}
	for _, s := range one.Shells {
		state := "with its variables and functions"
		if s.Stale {
			state = "without its variables and functions"
		}
		row("shell", fmt.Sprintf("%s, in %s, %s", s.Program, s.Cwd, state))
	}
	for _, p := range one.Running {
		row("not kept", fmt.Sprintf("%s (process %d)", strings.Join(p.Args, " "), p.PID))
	}
	if l := one.LeftOut; l != nil {
		row("files", leftOutOf(*l))
		for _, p := range l.Paths {
			row("file", p)
		}
	}
	return t.write(a.Stdout)
}

func (a *app) checkpointRemoveCommand() *ucli.Command {
	return &ucli.Command{
		Name:        "rm",
		Usage:       "remove checkpoints",
		UsageText:   "sandbox checkpoint rm CHECKPOINT…",
		Description: "Sandboxes that began with one keep their files. What is shared with others stays on the disk until the last is removed.",
		Action: func(c *ucli.Context) error {
			refs := c.Args().Slice()
			if len(refs) == 0 {
				return usagef("checkpoint rm", "name at least one checkpoint, see sandbox checkpoint list")
			}
			return a.withCheckpoints(func(s CheckpointStore) error { return a.removeCheckpoints(c.Context, s, refs) })
		},
	}
}

// removeCheckpoints removes them in their order, up to the first that cannot be
// removed.
func (a *app) removeCheckpoints(ctx context.Context, s CheckpointStore, refs []string) error {
	removed := []string{}
	var failed error
	for _, ref := range refs {
		if failed = s.Remove(ctx, a.globals.who(), ref); failed != nil {
			break
		}
		removed = append(removed, ref)
	}
	var err error
	if a.globals.json() {
		err = writeJSON(a.Stdout, struct {
			Removed []string `json:"removed"`
		}{removed})
	} else {
		for _, ref := range removed {
			if _, err = fmt.Fprintf(a.Stdout, "removed %s\n", termsafe.Line(ref)); err != nil {
				break
			}
		}
	}
	if failed != nil {
		return failed
	}
	return err
}

func (a *app) checkpointExportCommand() *ucli.Command {
	out := text{check: notEmpty}
	var quiet bool
	return &ucli.Command{
		Name:      "export",
		Usage:     "write a checkpoint as one file, for import on another machine",
		UsageText: "sandbox checkpoint export CHECKPOINT [-o FILE]",
		Description: "The file is a tar archive with digests, compressed with zstd. It is written whole or not at all; without -o it goes to\n" +
			"standard output, which must not be a terminal. Here -o names it, and --format json is written out.",
		Flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` to write; - is standard output", Value: &out},
			quietFlag(&quiet),
		},
		Action: func(c *ucli.Context) error {
			ref, err := oneCheckpoint(c, "checkpoint export")
			if err != nil {
				return err
			}
			stream := !out.given || out.value == "-"
			if stream && isTerminal(a.Stdout) {
				return usagef("checkpoint export", "the file is not for a terminal; name one with -o, or redirect standard output")
			}
			return a.withCheckpoints(func(s CheckpointStore) error {
				w := work{what: "writing checkpoint " + termsafe.Line(ref)}
				b := a.newBar(c.Context, quiet, w.line)
				defer b.stop()
				if stream {
					return s.Export(c.Context, a.globals.who(), ref, countedWriter{a.Stdout, &w.done})
				}
				return a.exportFile(c.Context, s, ref, out.value, &w, b)
			})
		},
	}
}

// exportFile writes a checkpoint to a file, which is there when all of it is.
func (a *app) exportFile(ctx context.Context, s CheckpointStore, ref, path string, done *work, b *bar) error {
	f, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o600), renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return unwritable(path, err)
	}
	defer f.Cleanup() // has no effect on a file that has its name
	w := &fileWriter{to: f}
	if err := s.Export(ctx, a.globals.who(), ref, countedWriter{w, &done.done}); err != nil {
		if w.err != nil {
			return unwritable(path, w.err)
		}
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return unwritable(path, err)
	}
	if a.globals.json() {
		return writeJSON(a.Stdout, struct {
			File  string `json:"file"`
			Bytes int64  `json:"bytes"`
		}{path, w.n})
	}
	b.stop()
	a.say("wrote %s, %s", termsafe.Line(path), bytesOf(w.n))
	return nil
}

// A fileWriter counts what is written, and records why no more could be.
type fileWriter struct {
	to  io.Writer
	n   int64
	err error
}

// Write implements io.Writer.
func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.n += int64(n)
	if err != nil {
		w.err = err
	}
	return n, err
}

func unwritable(path string, err error) error {
	return &sandbox.Error{Code: sandbox.CodeExecution, Op: "export checkpoint", Resource: path, Message: "the file cannot be written", Err: err}
}

func (a *app) checkpointImportCommand() *ucli.Command {
	name := text{check: notEmpty}
	var quiet bool
	return &ucli.Command{
		Name:        "import",
		Usage:       "keep a checkpoint that export has written, and print its id",
		UsageText:   "sandbox checkpoint import [--name NAME] [FILE]",
		Description: "It belongs to the session. Without FILE, or with -, it comes from standard input. A file that is damaged is refused.",
		Flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "name", Usage: "call it `NAME`; no two of a tenant have the same", Value: &name},
			quietFlag(&quiet),
		},
		Action: func(c *ucli.Context) error {
			if c.Args().Len() > 1 {
				return usagef("checkpoint import", "at most one file is needed")
			}
			path := c.Args().First()
			if (path == "" || path == "-") && isTerminal(a.Stdin) {
				return usagef("checkpoint import", "standard input is a terminal; name a file, or redirect it")
			}
			return a.withCheckpoints(func(s CheckpointStore) error {
				return a.importCheckpoint(c.Context, s, path, name.value, quiet)
			})
		},
	}
}

func (a *app) importCheckpoint(ctx context.Context, s CheckpointStore, path, name string, quiet bool) error {
	w := work{what: "reading the checkpoint"}
	var from io.Reader
	if path == "" || path == "-" {
		in, err := newInput(a.Stdin)
		if err != nil {
			return err
		}
		defer in.Close()
		defer context.AfterFunc(ctx, func() { in.Close() })()
		from = in
	} else {
		f, err := os.Open(path)
		if err != nil {
			code := sandbox.CodeValidation
			if errors.Is(err, os.ErrNotExist) {
				code = sandbox.CodeNotFound
			}
			return &sandbox.Error{Code: code, Op: "import checkpoint", Field: "file", Resource: path, Message: "the file cannot be read", Err: err}
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			w.total.Store(info.Size())
		}
		from = f
	}
	b := a.newBar(ctx, quiet, w.line)
	made, err := s.Import(ctx, a.globals.who(), name, countedReader{from, &w.done})
	b.stop()
	if err != nil {
		return err
	}
	return a.showMadeCheckpoint(made)
}

func (a *app) rollbackCommand() *ucli.Command {
	var force bool
	return &ucli.Command{
		Name:      "rollback",
		Usage:     "give the session's sandbox the state of a checkpoint",
		UsageText: "sandbox rollback CHECKPOINT [flags]",
		Description: "What the sandbox holds now is given up, and what runs in it is ended: keep it with sandbox checkpoint create first.\n" +
			"Persistent shells begin again with the working folder, variables and functions that they had.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "force", Usage: "do not ask", Destination: &force},
		},
		Action: func(c *ucli.Context) error {
			ref, err := oneCheckpoint(c, "rollback")
			if err != nil {
				return err
			}
			if !force && !isTerminal(a.Stdin) {
				return usagef("rollback", "standard input is no terminal to ask on; add --force")
			}
			return a.withCheckpoints(func(s CheckpointStore) error {
				if !force {
					to, err := s.Get(c.Context, a.globals.who(), ref)
					if err != nil {
						return err
					}
					if err := a.agreed(c.Context, rollbackQuestion(a.globals.session.value, to), "nothing was changed"); err != nil {
						return err
					}
					ref = to.ID // the name may be another's by now
				}
				out, err := s.Rollback(c.Context, a.ownRequest(), ref)
				if err != nil {
					return err
				}
				return a.showRolledBack(out)
			})
		},
	}
}

func rollbackQuestion(session string, to api.Checkpoint) string {
	what := termsafe.Line(to.ID)
	if to.Name != "" {
		what += " (" + termsafe.Line(to.Name) + ")"
	}
	return fmt.Sprintf("Roll the sandbox of session %s back to checkpoint %s of %s?\nWhat it holds now is given up, and what runs in it is ended. [y/N] ",
		termsafe.Line(session), what, shownTime(to.CreatedAt))
}

func (a *app) showRolledBack(out api.RolledBack) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, out)
	}
	if _, err := fmt.Fprintf(a.Stdout, "rolled back to %s\n", termsafe.Line(out.Checkpoint.ID)); err != nil {
		return err
	}
	for _, p := range out.Ended {
		a.say("ended: %s (process %d)", termsafe.Line(strings.Join(p.Args, " ")), p.PID)
	}
	if out.Recreated {
		a.say("the sandbox was started again, because its provider cannot exchange the files of a running one")
	}
	return nil
}

func (a *app) forkCommand() *ucli.Command {
	from, to := text{check: notEmpty}, texts{check: notEmpty}
	forks := 1
	return &ucli.Command{
		Name:      "fork",
		Usage:     "make sandboxes that begin with the state of the session's, which goes on",
		UsageText: "sandbox fork [--count N | --to SESSION…] [--from CHECKPOINT] [flags]",
		Description: "Each fork belongs to a session of its own, and has secrets, tokens and evidence of its own. Without --to these are\n" +
			"SESSION-fork-1 and so on, without those that have a sandbox. Without --from a checkpoint of the session's sandbox is made.\n" +
			"A fork that cannot be made does not keep others from being made; the exit status is 1 then.",
		Flags: []ucli.Flag{
			&ucli.IntFlag{Name: "count", Usage: "make `N` forks, at most " + strconv.Itoa(api.MaxForks), Value: 1, Destination: &forks},
			&ucli.GenericFlag{Name: "from", Usage: "begin with this `CHECKPOINT`", Value: &from},
			&ucli.GenericFlag{Name: "to", Usage: "make a fork for this `SESSION`; may be repeated", Value: &to},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			f := api.Fork{Count: int64(forks), From: from.value, Sessions: to.values}
			switch {
			case len(to.values) > 0 && c.IsSet("count"):
				return usagef("fork", "--count and --to exclude each other")
			case forks < 1 || forks > api.MaxForks || len(to.values) > api.MaxForks:
				return usagef("fork", "there must be from 1 to %d forks", api.MaxForks)
			case len(to.values) > 0:
				f.Count = 0
			}
			return a.withCheckpoints(func(s CheckpointStore) error {
				made, err := s.Fork(c.Context, a.ownRequest(), f)
				if err != nil {
					return err
				}
				return a.showForks(made)
			})
		},
	}
}

func (a *app) showForks(made []api.Forked) error {
	if a.globals.json() {
		if err := writeJSON(a.Stdout, struct {
			Forks []api.Forked `json:"forks"`
		}{notNil(made)}); err != nil {
			return err
		}
	} else {
		t := a.newTable([]string{"SESSION", "NAME", "CHECKPOINT"})
		for _, f := range made {
			if f.Problem == nil {
				t.add(f.Session, f.Name, f.Checkpoint)
			}
		}
		if err := t.write(a.Stdout); err != nil {
			return err
		}
	}
	failed := false
	for _, f := range made {
		if p := f.Problem; p != nil {
			failed = true
			if a.globals.json() {
				continue // the list has it
			}
			err := p.Err("fork")
			err.Message = "session " + f.Session + ": " + err.Message
			a.report(err)
		}
	}
	if failed {
		return silentStatus(statusFailed)
	}
	return nil
}
