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
	"github.com/bulkhead-dev/sandbox/fsbridge/copy"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

func (a *app) cpCommand() *ucli.Command {
	place := newPlaceFlags()
	var quiet, recursive bool
	return &ucli.Command{
		Name:  "cp",
		Usage: "copy files and trees between this host and the session's sandbox",
		UsageText: "sandbox cp [flags] SOURCE… sandbox:PATH\n" +
			"sandbox cp [flags] sandbox:PATH… TARGET\n" +
			"sandbox cp [flags] - sandbox:FOLDER     (a tar archive from standard input)\n" +
			"sandbox cp [flags] sandbox:PATH -       (a tar archive to standard output)",
		Description: "A path without prefix, or with host:, is one of this host. Folders are copied with all that is in them: into\n" +
			"the target when that is a folder, else to that name. FOLDER/. is the content of a folder. Files are replaced,\n" +
			"folders merged. Each file arrives whole or not at all; modes come along (on this host less the umask), owners\n" +
			"and times do not.\n" +
			"\n" +
			"On this host nothing outside of the named folder is read or written, whatever links lie in it. Links that lead\n" +
			"out of the copied tree, pipes, sockets, devices, and what is removed meanwhile, are left out and named; the exit\n" +
			"status is 1 then.",
		Flags: append([]ucli.Flag{
			quietFlag(&quiet),
			&ucli.BoolFlag{Name: "r", Usage: "accepted for habit: folders are always copied with all that is in them", Destination: &recursive},
		}, place.flags()...),
		Action: func(c *ucli.Context) error {
			plan, err := planCopy(c.Args().Slice())
			if err == nil {
				err = a.checkStreams(plan)
			}
			if err != nil {
				return err
			}
			return a.share(c.Context, &place, "cp", plan.to.side == sandboxSide, func(s manager.Share) error { return a.copy(c.Context, s, plan, quiet) })
		},
	}
}

// A side says where a path of cp lies.
type side int

const (
	hostSide side = iota
	sandboxSide
	streamSide // a tar archive on standard input or output
)

// An operand is one path of cp.
type operand struct {
	side side
	path string
	text string // as it was written
}

func parseOperand(text string) (operand, error) {
	o := operand{side: hostSide, path: text, text: text}
	if text == "-" {
		o.side = streamSide
		return o, nil
	}
	if strings.HasPrefix(text, "sandbox:///") {
		o.side = sandboxSide // the URL of a file in the sandbox, and no path after the side
	} else if rest, ok := strings.CutPrefix(text, "sandbox:"); ok {
		o.side, o.path = sandboxSide, rest
	} else if rest, ok := strings.CutPrefix(text, "host:"); ok {
		o.path = rest
	}
	if o.path == "" {
		o.path = "."
	}
	var err error
	o.path, err = fsbridge.FromURL(o.path)
	return o, err
}

// isContent reports whether the operand means what is in a folder.
func (o operand) isContent() bool {
	last := o.path[strings.LastIndexByte(o.path, '/')+1:]
	return last == "." || last == ".." || strings.Trim(o.path, "/") == ""
}

// isFolder reports whether the operand can only be a folder.
func (o operand) isFolder() bool { return o.isContent() || strings.HasSuffix(o.path, "/") }

// mkdirHint says how to make the folder that the operand names.
func (o operand) mkdirHint() string {
	if o.side == sandboxSide {
		return "make it first: sandbox fs mkdir " + o.path
	}
	return "make it first: mkdir " + o.path
}

// A copyPlan is what to copy where: all sources lie on one side and the
// target on the other, or all in the sandbox.
type copyPlan struct {
	from []operand
	to   operand
}

func planCopy(args []string) (copyPlan, error) {
	if err := countArgs("cp", "SOURCE… TARGET", args, 2, -1); err != nil {
		return copyPlan{}, err
	}
	var p copyPlan
	for _, arg := range args {
		o, err := parseOperand(arg)
		if err != nil {
			return p, operation("cp", err)
		}
		p.from = append(p.from, o)
	}
	p.from, p.to = p.from[:len(args)-1], p.from[len(args)-1]
	source := p.from[0].side
	for _, o := range p.from {
		switch {
		case o.side != source:
			return p, usagef("cp", "%q and %q are not on one side; copy them in two calls", p.from[0].text, o.text)
		case o.side == streamSide && len(p.from) > 1:
			return p, usagef("cp", "a tar archive from standard input is copied alone")
		}
	}
	switch {
	case source == sandboxSide && p.to.side == streamSide && len(p.from) > 1:
		return p, usagef("cp", "a tar archive on standard output has one source; name the folder that holds them all")
	case source != sandboxSide && p.to.side != sandboxSide:
		return p, usagef("cp", "neither %q nor %q is in the sandbox; write sandbox:PATH for the one that is", p.from[0].text, p.to.text)
	}
	return p, nil
}

// checkStreams refuses archives from and to a terminal.
func (a *app) checkStreams(p copyPlan) error {
	switch {
	case p.from[0].side == streamSide && isTerminal(a.Stdin):
		return usagef("cp", "standard input is a terminal; give it a tar archive, as in: tar c . | sandbox cp - sandbox:FOLDER")
	case p.to.side == streamSide && isTerminal(a.Stdout):
		return usagef("cp", "standard output is a terminal; a tar archive goes to a file or a program, as in: sandbox cp sandbox:PATH - | tar t")
	}
	return nil
}

// copy carries out the plan.
func (a *app) copy(ctx context.Context, s manager.Share, plan copyPlan, quiet bool) error {
	if plan.from[0].side == sandboxSide && plan.to.side == sandboxSide {
		return copyInside(ctx, s, plan)
	}
	var tally copy.Tally
	m := a.newMeter(ctx, &tally, quiet)
	err := a.transfer(ctx, s, plan, &tally, m)
	m.stop(err)
	if err != nil {
		return err
	}
	left := tally.Left()
	for _, l := range left {
		a.say("cp: left out: %s: %s", termsafe.Line(l.Path), termsafe.Line(l.Reason))
	}
	if len(left) > 0 {
		return silentStatus(statusFailed)
	}
	return nil
}

// copyInside copies within the sandbox.
func copyInside(ctx context.Context, s manager.Share, plan copyPlan) error {
	args := []string{}
	for _, o := range append(plan.from, plan.to) {
		args = append(args, o.path)
	}
	return into(ctx, s, args, func(from, to string) error { return fsbridge.Copy(ctx, s, from, to) })
}

// transfer copies between the sides.
func (a *app) transfer(ctx context.Context, s manager.Share, plan copyPlan, t *copy.Tally, m *meter) error {
	if plan.from[0].side == streamSide {
		to, err := inSandbox(s, plan.to)
		if err != nil {
			return err
		}
		in, err := newInput(a.Stdin)
		if err != nil {
			return err
		}
		return copy.Unpack(ctx, in, copy.Target{Files: to.files, Dir: to.path}, t)
	}
	var to end
	if plan.to.side != streamSide {
		var err error
		if to, err = open(s, plan.to); err != nil {
			return err
		}
		defer to.close()
	}
	for _, o := range plan.from {
		from, err := open(s, o)
		if err != nil {
			return err
		}
		err = a.transferOne(ctx, from, to, plan, t, m)
		from.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) transferOne(ctx context.Context, from, to end, plan copyPlan, t *copy.Tally, m *meter) error {
	source := copy.Source{Files: from.files, Path: from.path}
	if err := m.expect(ctx, from); err != nil {
		return err
	}
	if plan.to.side == streamSide {
		return copy.Pack(ctx, source, from.name, lostOutput{a.Stdout}, t)
	}
	target, err := targetOf(ctx, from, to, plan)
	if err != nil {
		return err
	}
	return copy.Copy(ctx, source, target, t)
}

// targetOf decides where the source arrives: in the target when that is a
// folder, else under its name.
func targetOf(ctx context.Context, from, to end, plan copyPlan) (copy.Target, error) {
	info, err := to.files.Stat(ctx, to.path)
	switch {
	case err == nil && info.IsDir():
		return copy.Target{Files: to.files, Dir: to.path, Name: from.name}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return copy.Target{}, err
	case len(plan.from) > 1 || plan.to.isFolder():
		return copy.Target{}, noFolder(plan.to.text, plan.to.mkdirHint())
	}
	source, statErr := from.files.Stat(ctx, from.path)
	switch {
	case statErr != nil:
		return copy.Target{}, statErr
	case source.IsDir() && err == nil:
		return copy.Target{}, noFolder(plan.to.text, "a folder cannot replace a file")
	case source.IsDir() && from.name == "":
		return copy.Target{Files: to.files, Dir: to.path}, nil
	}
	return copy.Target{Files: to.files, Dir: path.Dir(to.path), Name: path.Base(to.path)}, nil
}

// An end is one side's files and a path there.
type end struct {
	files sandbox.Files
	path  string
	name  string // that a copy of it gets; empty when its content is meant
	close func()
}

func open(s manager.Share, o operand) (end, error) {
	if o.side == sandboxSide {
		return inSandbox(s, o)
	}
	return onHost(o, s.Exposed)
}

func inSandbox(s manager.Share, o operand) (end, error) {
	p, err := s.Locate(o.path)
	if err != nil {
		return end{}, err
	}
	e := end{files: s, path: p.Path(), close: func() {}}
	if !o.isContent() {
		e.name = path.Base(p.Path())
	}
	return e, nil
}
