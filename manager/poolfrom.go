package manager

import (
	"context"
	"errors"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/registry/pool"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// fromMark is between the shape of slots and the id of the checkpoint that they
// begin with.
const fromMark = "-from-"

// filledShape returns the shape of slots that begin with the checkpoint. Slots of
// one checkpoint become no sandbox that begins with another one or with none, and
// so none of another tenant.
func filledShape(shape, id string) string { return shape + fromMark + id }

// filledFrom returns the id of the checkpoint that slots of the shape begin with, or
// nothing.
func filledFrom(shape string) string {
	_, id, _ := strings.Cut(shape, fromMark)
	return id
}

// names reports whether pool.from of res names the checkpoint.
func names(res config.Resolved, rec *checkpoint.Record) bool {
	return rec != nil && res.Pool.From != "" && (res.Pool.From == rec.ID || res.Pool.From == rec.Name)
}

// template returns the checkpoint that pool.from names, for slots, which are made
// for no tenant: one of no tenant, or the only one of all tenants.
func (c *checkpoints) template(ctx context.Context, ref string) (checkpoint.Record, error) {
	rec, _, err := c.find(ctx, "", ref)
	if !sandbox.IsNotFound(err) {
		return rec, err
	}
	missing, found := err, 0
	err = c.each(func(s *checkpoint.Store) error {
		r, err := s.Find(ctx, ref, nil)
		switch {
		case err == nil:
			rec, found = r, found+1
		case !sandbox.IsNotFound(err):
			return err
		}
		return nil
	})
	switch {
	case err != nil:
		return rec, err
	case found == 0:
		return rec, missing
	case found > 1:
		return rec, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "fill pool", Field: "pool.from", Resource: ref, Message: "several folders of workspaces have a checkpoint of that name",
			Hint: "name it by its id",
		}
	}
	return rec, nil
}

// fill makes from a want of slots that begin with the checkpoint of pool.from, if it
// names one, and returns their shape. Where there is no such checkpoint, no slot is
// wanted, and lacks says why.
func (k *poolKeeper) fill(ctx context.Context, from *poolWant) error {
	ref := from.res.Pool.From
	if ref == "" {
		return nil
	}
	rec, err := k.m.checkpoints.template(ctx, ref)
	if err == nil {
		for _, t := range rec.Trees {
			if t.Name == checkpoint.WorkspaceTree && t.Base != "" {
				err = &sandbox.Error{
					Code: sandbox.CodeValidation, Op: "fill pool", Field: "pool.from", Resource: ref, Message: "the checkpoint is of a private view of a folder, and a slot of the pool has a workspace of its own",
					Hint: "name a checkpoint of a sandbox without a private view",
				}
			}
		}
	}
	switch code := sandbox.CodeOf(err); {
	case err == nil:
		from.from = &rec
	case code == sandbox.CodeNotFound, code == sandbox.CodeValidation, code == sandbox.CodeBusy:
		k.report(k.m.log, "from "+ref, err, "pool.from names no checkpoint that sandboxes can be kept ready of")
		from.lacks = err.Error()
		from.demand.Size, from.demand.Max = 0, 0
	default:
		return err
	}
	from.shape = filledShape(from.shape, rec.ID)
	return nil
}

// stillFilled reports whether the checkpoints that slots begin with are those that
// pool.from of their settings names now.
func (k *poolKeeper) stillFilled(ctx context.Context, wants map[string]poolWant) bool {
	for _, w := range wants {
		if w.res.Pool.From == "" {
			continue
		}
		rec, err := k.m.checkpoints.template(ctx, w.res.Pool.From)
		if err != nil && w.from != nil || err == nil && (w.from == nil || w.from.ID != rec.ID) {
			return false
		}
	}
	return true
}

// fillSlot gives a slot that was opened just now what its checkpoint keeps beside
// the workspace.
func (k *poolKeeper) fillSlot(ctx context.Context, w *want, sb sandbox.Sandbox) error {
	if w.from == nil {
		return nil
	}
	return k.m.checkpoints.restore(ctx, &acquired{Sandbox: sb, provider: w.provider, spec: w.spec, want: w}, *w.from)
}

// beginWith has a sandbox that was never made before begin with the checkpoint of
// its tenant that pool.from names, unless it begins with another one. It begins so
// whether or not a slot is ready. Where the tenant has no such checkpoint, it
// begins with nothing.
func (k *poolKeeper) beginWith(ctx context.Context, w *want) error {
	ref := w.res.Pool.From
	if ref == "" || w.from != nil || !w.scratch() {
		return nil
	}
	rec, _, err := k.m.checkpoints.find(ctx, w.res.Tenant, ref)
	if sandbox.IsNotFound(err) {
		k.report(k.m.log, "begin "+w.res.Tenant+" "+ref, err, "pool.from names no checkpoint of the tenant; its sandboxes begin without")
		return nil
	}
	if err == nil {
		w.from = &rec
	}
	return err
}

// shapesFor returns the shapes of slots that can become the sandbox of w, the best
// first: those that begin with its checkpoint, and those whose workspace can be
// exchanged for that of its checkpoint.
func (k *poolKeeper) shapesFor(ctx context.Context, w *want) ([]string, error) {
	shape, err := shapeOf(w)
	switch {
	case err != nil, w.from == nil:
		return []string{shape}, err
	case names(w.res, w.from):
		shapes := []string{filledShape(shape, w.from.ID)}
		if k.m.checkpoints.exchanges(ctx, w) {
			shapes = append(shapes, shape)
		}
		return shapes, nil
	case k.m.checkpoints.exchanges(ctx, w):
		return []string{shape}, nil
	}
	return nil, nil
}

// differsBeside says why a slot that differs from w in nothing of its Spec has
// another shape than shape.
func differsBeside(slot, shape string) pool.Miss {
	if filledFrom(slot) != filledFrom(shape) {
		return pool.NewMiss(pool.Differs, "", "pool.from")
	}
	return pool.NewMiss(pool.Differs, "", "workspaceQuota")
}

// fills returns the ids of the checkpoints that slots begin with.
func (k *poolKeeper) fills() (map[string]bool, error) {
	records, _, err := k.m.records.List(sandbox.KindPool)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, r := range records {
		if id := filledFrom(r.Shape); id != "" {
			ids[id] = true
		}
	}
	return ids, nil
}

// removeFilled removes the slots that begin with a checkpoint which is removed. A
// program that keeps the pool, this or another one, removes what is in use now.
func (k *poolKeeper) removeFilled(ctx context.Context, id string) error {
	records, _, err := k.m.records.List(sandbox.KindPool)
	if err != nil {
		return err
	}
	var errs error
	for _, r := range records {
		if filledFrom(r.Shape) != id {
			continue
		}
		_, err := k.retire(ctx, pool.Action{Kind: pool.Remove, Slot: r.Name, Shape: r.Shape, Why: "its checkpoint is removed"})
		errs = errors.Join(errs, err)
	}
	return errs
}
