package local

import (
	"context"
	"os"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// An early is an instance that was begun before it was known whether there is to be
// one, so that bubblewrap has loaded by the time that there is a plan to build
// by. It knows nothing and shows nothing until then. It belongs to who has the
// sandbox's turn. A nil one holds nothing.
type early struct{ begun *launch.Begun }

// early begins the instance that spec will ask for, unless one is up that will
// probably do. Where that cannot be, build starts it, and says what is wrong.
// The caller has its turn, and ends it with [early.end].
func (p *Provider) early(spec sandbox.Spec) *early {
	if p.landlock || p.stands(spec.Name) {
		return nil
	}
	o, ok := p.foreseen(spec)
	if !ok {
		return nil
	}
	b, err := launch.Begin(o)
	if err != nil {
		return nil
	}
	return &early{begun: b}
}

// stands reports whether an instance of the sandbox name is up in this process.
func (p *Provider) stands(name string) bool {
	p.mu.Lock()
	s := p.sites[name]
	p.mu.Unlock()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.instances) > 0
}

// foreseen is what is known of the order for an instance before it is planned. A
// program is started before it is compared with what the plan lets be written
// only when no plan can let anybody write it.
func (p *Provider) foreseen(spec sandbox.Spec) (o launch.Order, ok bool) {
	set, err := parseSettings(spec.Options)
	if err != nil {
		return o, false
	}
	o = launch.Order{Guest: guestInside, Config: []byte{}}
	if !set.withoutSeccomp {
		o.Filters = make([][]byte, 1)
	}
	if o.Limits, err = limits(spec.Resources.Ulimits); err != nil {
		return o, false
	}
	if os.Geteuid() != 0 {
		return o, false // its mounts are made before bubblewrap starts
	}
	o.Down = &launch.Down{UID: spec.UID, GID: spec.GID}
	o.Bwrap, err = p.findBwrap(set.bwrap)
	return o, err == nil && !strings.HasPrefix(o.Bwrap, launch.Stage+"/") && rootsAlone(o.Bwrap)
}

// launch starts the instance of o, with what was begun if that fits.
func (e *early) launch(ctx context.Context, o launch.Order) (*launch.Instance, error) {
	if e == nil || e.begun == nil || !e.begun.Fits(o) {
		e.end()
		return launch.Start(ctx, o)
	}
	b := e.begun
	e.begun = nil
	w, err := b.Finish(ctx, o)
	if o.Tree != nil && launch.Unbuilt(err) {
		o.Tree = nil
		return launch.Start(ctx, o)
	}
	return w, err
}

// end ends what was begun and not needed.
func (e *early) end() {
	if e != nil && e.begun != nil {
		b := e.begun
		e.begun = nil
		b.Drop()
	}
}
