package change

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

const opUndo = "undo changes"

// UndoOptions say how changes are taken back.
type UndoOptions struct {
	// Partial takes back the other changes where some conflict. Without it,
	// Undo does nothing then.
	Partial bool

	step func(string) // of tests
}

// Undo takes back what [Plan.Apply] did to the folder, by its journal: replaced
// and removed files are restored with their modes, times and, for root, owners;
// added ones are removed, and folders that were added if they are empty. A path
// that changed after the changes were applied is a conflict and stays as it is.
//
// An interrupted application is taken back as far as it went. A process that is
// killed leaves the phase [Undoing], and a further Undo completes it. Undo of
// what is undone is an error of code CodeBusy.
func Undo(ctx context.Context, folder, journal string, o UndoOptions) (*Report, error) {
	x, phase, done, err := reopen(ctx, folder, journal)
	if err != nil {
		return nil, err
	}
	defer done()
	if o.step != nil {
		x.step = o.step
	}
	if phase == Undone {
		e := sandbox.Errorf(sandbox.CodeBusy, opUndo, "the changes of the journal %s are undone", Quote(journal))
		e.Resource = journal
		return nil, e
	}
	conflicts, err := x.conflicts()
	if err != nil {
		return nil, err
	}
	if len(conflicts) > 0 && !o.Partial {
		return &Report{Conflicts: conflicts}, &sandbox.Error{
			Code: sandbox.CodeBusy, Op: opUndo, Resource: conflicts[0].Path, Message: Quote(conflicts[0].Path) + ": " + conflicts[0].Why,
			Hint: "compare the files with those in the journal by hand, or undo the others",
		}
	}
	if err := x.journal.setPhase(Undoing); err != nil {
		return nil, err
	}
	x.step("undoing")
	report, err := x.backward(o.Partial)
	if err != nil {
		return report, err
	}
	if err := x.journal.setPhase(Undone); err != nil {
		return report, err
	}
	x.step("undone")
	return report, nil
}

// conflicts returns the paths that are in none of the states between which the
// operations lead.
func (x *executor) conflicts() ([]Conflict, error) {
	var out []Conflict
	for i, op := range x.journal.Ops {
		if err := x.ctx.Err(); err != nil {
			return nil, stopped(opUndo, err)
		}
		rel := string(op.Path)
		have, _, err := x.host.state(x.ctx, rel, x.journal.Limit)
		why := ""
		switch {
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			if !x.inside(rel) {
				why = whyLink
			}
		case errors.Is(err, unix.EXDEV):
			why = whyMount
		case err != nil:
			return nil, failed(opUndo, rel, err)
		case have.Kind == absent && x.temporary(i):
		case !have.same(op.Old) && !have.same(op.New) && !x.planned(i, have) && !(have.Kind == absent && x.inside(rel)):
			why = "it changed after the changes were applied"
		}
		if c := (Conflict{rel, why}); why != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out, nil
}

// inside reports whether rel lies in a folder that an operation makes or
// removes, so that it may be absent.
func (x *executor) inside(rel string) bool {
	return slices.ContainsFunc(x.journal.Ops, func(o operation) bool {
		return string(o.Path) != rel && within(rel, string(o.Path)) && (o.Old.Kind == folder) != (o.New.Kind == folder)
	})
}

// temporary reports whether a killed process left the path of an operation
// under its temporary name.
func (x *executor) temporary(i int) bool {
	dir, _, err := x.host.parent(string(x.journal.Ops[i].Path))
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	s, err := x.state(dir, x.journal.temp(i, ""))
	return err == nil && s.Kind != absent
}

// backward takes back the operations, the last one first. Conflicts are
// collected with partial, and end it without.
func (x *executor) backward(partial bool) (*Report, error) {
	report := &Report{}
	touched := map[string]bool{}
	if err := x.clean(); err != nil {
		return report, err
	}
	order := make([]int, len(x.journal.Ops))
	for i := range order {
		order[i] = len(order) - 1 - i
	}
	err := x.run(order, "old", func(i int, did bool, err error) error {
		op := x.journal.Ops[i]
		var c *moveConflict
		switch {
		case errors.As(err, &c) && (partial || errors.Is(err, unix.ENOTEMPTY)):
			report.Conflicts = append(report.Conflicts, Conflict{string(op.Path), c.why})
		case err != nil:
			return explain(opUndo, string(op.Path), err)
		case did:
			report.Done = append(report.Done, stepOf(operation{Path: op.Path}, op.New, op.Old))
			touched[path.Dir(string(op.Path))] = true
		}
		x.step("undid " + string(op.Path))
		return nil
	})
	if err != nil {
		if left := x.clean(); left != nil {
			err = errors.Join(err, left)
		}
		return report, err
	}
	return report, x.sync(touched)
}
