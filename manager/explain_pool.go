package manager

import (
	"context"
	"fmt"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// A PoolPlan says what the pool holds for a session's sandbox.
type PoolPlan struct {
	Size  int64 `json:"size"`  // pool.size
	Max   int64 `json:"max"`   // to how many demand raises it
	Ready int   `json:"ready"` // slots that the sandbox could become

	From string `json:"from,omitempty"` // id of the checkpoint that a new sandbox begins with, by pool.from

	// Claims says that the next run claims one. Otherwise, where the next run
	// makes a sandbox, Miss says why.
	Claims bool       `json:"claims"`
	Miss   *pool.Miss `json:"miss,omitempty"`
}

// explainPool says what the pool holds for the sandbox that is to be made, and
// adds it to what is next. It says nothing where settings keep no pool.
func (k *poolKeeper) explainPool(ctx context.Context, w *want, e *Explanation) error {
	e.Pool = PoolPlan{Size: w.res.Pool.Size, Max: w.res.Pool.Most()}
	if w.res.Pool.Most() <= 0 || !w.res.Poolable() || w.spec.Kind != sandbox.KindSandbox {
		return nil
	}
	ok, miss := k.mayClaim(w.res, w.provider)
	if ok {
		begun := *w
		w = &begun
		if err := k.beginWith(ctx, w); err != nil {
			return err
		}
		if w.from != nil {
			e.Pool.From = w.from.ID
			e.Next += "; it begins with the checkpoint " + w.from.ID
		}
		shapes, err := k.shapesFor(ctx, w)
		if err != nil || len(shapes) == 0 {
			return err
		}
		shape := shapes[0]
		found, err := k.slotsFor(w, shape)
		if err != nil {
			return err
		}
		if e.Pool.Ready = found.fit; found.fit > 0 {
			e.Pool.Claims = true
			e.Next += fmt.Sprintf("; a slot of the pool becomes it, of which %d are there", found.fit)
			return nil
		}
		miss = k.whyMiss(w, shape, "")
	}
	e.Pool.Miss = miss
	e.Next += "; no slot of the pool becomes it: " + miss.Detail
	return nil
}

// slotsFound are the slots that there are, as a sandbox sees them.
type slotsFound struct {
	fit      int        // can become it, and are in use by no call
	starting int        // can become it, and are being made or claimed
	damaged  int        // can become it, and have a claim that cannot be read
	nearest  *pool.Miss // of the others, why the one that differs least cannot
}

// slotsFor looks at the recorded slots for the sandbox of w, which has this
// shape.
func (k *poolKeeper) slotsFor(w *want, shape string) (out slotsFound, err error) {
	records, problems, err := k.m.records.List(sandbox.KindPool)
	if err != nil {
		return out, err
	}
	for _, p := range problems {
		k.m.log.Warn(p.Err.Error())
	}
	own := false // the nearest one is of the same agent
	for _, r := range records {
		if r.Kind != sandbox.KindPool || r.Provider != w.provider.Name() {
			continue
		}
		_, claimed, err := k.m.records.Of(r.Provider).ClaimOn(r.Name)
		switch same := r.Shape == shape; {
		case err != nil && same:
			out.damaged++
			continue
		case err != nil, claimed:
			continue
		case same && k.busySlot(r.Provider, r.Name):
			out.starting++
			continue
		}
		whole, err := k.m.records.Of(r.Provider).Get(r.Kind, r.Name)
		if err != nil || whole.Spec == nil {
			continue
		}
		miss, differs := pool.Differ(*whole.Spec, w.asOn(r.Name, *whole.Spec))
		switch {
		case !differs && r.Shape == shape:
			out.fit++
			continue
		case !differs:
			miss = differsBeside(r.Shape, shape)
		}
		mine := r.Agent == w.res.Agent
		if !mine && w.settingsHash == nil { // slots of its own agent are kept, which those of others say nothing of
			continue
		}
		if out.nearest == nil || mine && !own || mine == own && len(miss.Fields) < len(out.nearest.Fields) {
			out.nearest, own = &miss, mine
		}
	}
	return out, nil
}

// whyMiss says why no slot is there for w; lost is why the last one that was
// tried is not its own, or empty.
func (k *poolKeeper) whyMiss(w *want, shape string, lost pool.Reason) *pool.Miss {
	if k.ends() {
		return missed(pool.Draining)
	}
	found, err := k.slotsFor(w, shape)
	if err != nil {
		k.m.log.WithError(err).Warn("cannot tell why no slot of the pool is there")
		return missed(pool.Empty)
	}
	switch {
	case found.starting > 0:
		return missed(pool.BeingMade)
	case lost != "":
		return missed(lost)
	case found.fit > 0:
		return missed(pool.Unresponsive)
	case found.damaged > 0:
		return missed(pool.DamagedClaim)
	case k.holds(shape, k.m.now()):
		return missed(pool.CannotMake)
	case found.nearest != nil:
		return found.nearest
	}
	return missed(pool.Empty)
}
