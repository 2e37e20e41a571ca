package cli

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

func (a *app) fsMkdir() *ucli.Command {
	var perm permission
	var parents bool
	return a.fileCommand(fileCommand{
		name: "mkdir", usage: "make folders", args: "PATH…", least: 1, most: -1, changes: true,
		flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "p", Usage: "make missing parents, and take a folder that exists as made", Destination: &parents},
			&ucli.GenericFlag{Name: "perm", Usage: "`MODE` of new folders, octal; default 0755", Value: &perm},
		},
		do: func(ctx context.Context, s manager.Share, args []string) error {
			return each(args, func(name string) error {
				if parents {
					return fsbridge.MkdirAll(ctx, s, name, perm.value)
				}
				return s.Mkdir(ctx, name, perm.value)
			})
		},
	})
}

func (a *app) fsRemove() *ucli.Command {
	var recursive bool
	return a.fileCommand(fileCommand{
		name: "rm", usage: "remove files, links and empty folders, or whole trees", args: "PATH…", least: 1, most: -1, changes: true,
		flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "r", Usage: "remove folders with all that is in them", Destination: &recursive},
		},
		do: func(ctx context.Context, s manager.Share, args []string) error {
			return each(args, func(name string) error {
				err := s.Remove(ctx, name, recursive)
				if !recursive && errors.Is(err, fs.ErrExist) {
					return hinted(err, "remove it with all that is in it: sandbox fs rm -r")
				}
				return err
			})
		},
	})
}

func (a *app) fsMove() *ucli.Command {
	return a.fileCommand(fileCommand{
		name: "mv", usage: "rename files and folders, or move them into a folder", args: "FROM… TO", least: 2, most: -1, changes: true,
		description: "A folder TO is moved into; a file TO is replaced; missing folders above TO are made. Both must be in one mount.",
		do: func(ctx context.Context, s manager.Share, args []string) error {
			return into(ctx, s, args, func(from, to string) error { return fsbridge.Move(ctx, s, from, to) })
		},
	})
}

func (a *app) fsCopy() *ucli.Command {
	var recursive bool
	return a.fileCommand(fileCommand{
		name: "cp", usage: "copy files and trees within the sandbox", args: "FROM… TO", least: 2, most: -1, changes: true,
		description: "Into TO when that is a folder, else to that name. Modes are kept, and links stay links.\n" +
			"Between the sandbox and this host: sandbox cp.",
		flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "r", Usage: "copy folders with all that is in them", Destination: &recursive},
		},
		do: func(ctx context.Context, s manager.Share, args []string) error {
			return into(ctx, s, args, func(from, to string) error {
				info, err := s.Lstat(ctx, from)
				if err != nil {
					return err
				}
				if info.IsDir() && !recursive {
					return &sandbox.Error{Code: sandbox.CodeValidation, Resource: termsafe.Line(from), Message: from + " is a folder", Hint: "copy it with all that is in it: sandbox fs cp -r"}
				}
				return fsbridge.Copy(ctx, s, from, to)
			})
		},
	})
}

// each calls fn for every argument and joins what failed.
func each(args []string, fn func(string) error) error {
	var errs []error
	for _, arg := range args {
		errs = append(errs, fn(arg))
	}
	return errors.Join(errs...)
}

// into calls fn with each argument but the last and the name that it gets
// there: one below the last argument when that is a folder, else itself.
func into(ctx context.Context, s manager.Share, args []string, fn func(from, to string) error) error {
	sources, to := args[:len(args)-1], args[len(args)-1]
	info, err := s.Stat(ctx, to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	folder := err == nil && info.IsDir()
	if !folder && (len(sources) > 1 || strings.HasSuffix(to, "/")) {
		return noFolder(to, "make it first: sandbox fs mkdir")
	}
	return each(sources, func(from string) error {
		if !folder {
			return fn(from, to)
		}
		p, err := s.Locate(from)
		if err != nil {
			return err
		}
		name := path.Base(p.Path())
		if name == ".." {
			return &sandbox.Error{Code: sandbox.CodeValidation, Resource: termsafe.Line(from), Message: from + " has no name of its own", Hint: "name the folder itself"}
		}
		return fn(from, strings.TrimRight(to, "/")+"/"+name)
	})
}

func noFolder(to, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Resource: termsafe.Line(to), Message: to + " is no folder", Hint: hint}
}

// hinted returns err with another hint.
func hinted(err error, hint string) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return err
	}
	with := *e
	with.Hint = hint
	return &with
}
