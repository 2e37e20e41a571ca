package cli

import (
	"context"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/manager"
)

func (a *app) fsCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "fs",
		Usage:     "read and change files in the session's sandbox, which is made when missing",
		UsageText: "sandbox fs COMMAND [flags] [arguments]",
		Description: "A path is one inside the sandbox; a relative one starts at /workspace. The path of the host folder that is\n" +
			"mounted there is understood, too, and so is the URL of a file, as file:///workspace/a.txt. Operations stay inside the mounts: what leads out, by a link or by \"..\",\n" +
			"is refused, and a read-only mount is read-only here as well. A path that begins with a dash goes behind --.\n" +
			"\n" +
			"1: the operation failed. 125: the sandbox failed. 2: wrong usage.",
		Subcommands: []*ucli.Command{
			a.fsRead(), a.fsWrite(), a.fsList(), a.fsStat(), a.fsMkdir(), a.fsRemove(), a.fsMove(), a.fsCopy(), a.fsGlob(),
		},
	}
}

// A fileCommand describes one command on files.
type fileCommand struct {
	name, usage string
	args        string // how its arguments are written
	description string
	least, most int  // of arguments; most < 0 is any number
	changes     bool // it changes files
	flags       []ucli.Flag
	check       func() error // of the flags, before anything is done; may be nil
	do          func(ctx context.Context, s manager.Share, args []string) error
}

// fileCommand makes the command that f describes.
func (a *app) fileCommand(f fileCommand) *ucli.Command {
	place := newPlaceFlags()
	return &ucli.Command{
		Name:        f.name,
		Usage:       f.usage,
		UsageText:   "sandbox fs " + f.name + " [flags] " + f.args,
		Description: f.description,
		Flags:       append(f.flags, place.flags()...),
		Action: func(c *ucli.Context) error {
			args := c.Args().Slice()
			op := "fs " + f.name
			if err := countArgs(op, f.args, args, f.least, f.most); err != nil {
				return err
			}
			if err := plainPaths(op, f.name == "glob", args); err != nil {
				return err
			}
			if f.check != nil {
				if err := f.check(); err != nil {
					return err
				}
			}
			return a.share(c.Context, &place, op, f.changes, func(s manager.Share) error { return f.do(c.Context, s, args) })
		},
	}
}

// plainPaths replaces arguments that are URLs of files by the paths that they
// mean.
func plainPaths(op string, patterns bool, args []string) error {
	named := fsbridge.FromURL
	if patterns {
		named = fsbridge.PatternFromURL
	}
	for i, arg := range args {
		plain, err := named(arg)
		if err != nil {
			return operation(op, err)
		}
		args[i] = plain
	}
	return nil
}

// share brings the session's sandbox up and calls fn with its files, which it
// changes or only reads. What fn returns is the failure of the command op, and so
// is the refusal of every change.
func (a *app) share(ctx context.Context, place *placeFlags, op string, changes bool, fn func(manager.Share) error) error {
	layer, err := place.layer(a.globals)
	if err != nil {
		return err
	}
	return a.useManager(a.options(), func(m Manager) error {
		err := m.Files(ctx, manager.Request{Who: a.globals.who(), Flags: layer, Changes: changes}, func(s manager.Share) error {
			return operation(op, fn(s))
		})
		if changes && sandbox.CodeOf(err) == sandbox.CodeDenyTool && !operationsOnly(err) {
			err = operation(op, err)
		}
		return err
	})
}

// countArgs refuses a wrong number of arguments and empty ones.
func countArgs(op, form string, args []string, least, most int) error {
	if len(args) < least || most >= 0 && len(args) > most {
		return usagef(op, "write: sandbox %s %s", op, form)
	}
	for _, arg := range args {
		if arg == "" {
			return usagef(op, "a path must not be empty")
		}
		if strings.IndexByte(arg, 0) >= 0 {
			return usagef(op, "a path must not have a NUL byte")
		}
	}
	return nil
}
