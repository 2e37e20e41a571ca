package local

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// maxInstances bounds the instances of one sandbox in one process. Each handle has
// one for new commands; older ones stay while commands run in them.
const maxInstances = 16

// A site is what this process has of one sandbox: its instances, of which there
// are several when handles were granted different things, or when commands
// run on in one that has been replaced.
type site struct {
	p       *Provider
	def     launch.Definition
	scanner *hostscan.Scanner
	sockets *hostscan.Scanner // of the system's folders, for sockets alone

	begun *early // what the next instance may be made of; belongs to who has the turn

	mu        sync.Mutex
	instances []*instance // that are up, oldest first
	over      bool        // no instance may be added
}

func newSite(p *Provider, def launch.Definition) *site {
	return &site{p: p, def: def, scanner: hostscan.New(hostscan.Limits{}), sockets: hostscan.New(hostscan.Limits{})}
}

// open returns a handle on the instance that s asks for now, which may have been
// begun. The caller has its turn.
func (s *site) open(ctx context.Context, spec sandbox.Spec, at places, e *early) (*handle, error) {
	s.begun = e
	defer func() { s.begun = nil }()
	h := &handle{site: s, spec: spec, places: at, planner: newPlanner(s, spec), closing: make(chan struct{})}
	seat, err := h.sit(ctx)
	if err != nil {
		return nil, err
	}
	if len(spec.OnStart) > 0 {
		h.planner.used() // by those commands
	}
	h.seat = seat
	return h, nil
}

// instanceFor returns the instance of pl with one more user, raised when there is none. The
// caller has its turn.
func (s *site) instanceFor(ctx context.Context, spec sandbox.Spec, pl planned) (*instance, error) {
	if w, err := s.find(pl.key); w != nil || err != nil {
		return w, err
	}
	defs, err := s.p.defs()
	if err != nil {
		return nil, err
	}
	slot, err := defs.Slot(ctx, s.def.Name, s.def.ID)
	if err != nil {
		return nil, err
	}
	w, err := s.build(ctx, spec, pl, slot)
	if err == nil && slot.Gone() {
		w.discard()
		err = launch.NotFound("open", s.def.Name)
	}
	if err != nil {
		slot.Release()
		return nil, err
	}
	w.users = 1
	return w, s.admit(w)
}

// find returns the instance of that key, if it is up, with one more user.
func (s *site) find(key string) (*instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, closedProvider(s.def.Name)
	}
	for _, w := range s.instances {
		if w.key == key && !w.retired && w.sound() {
			w.users++
			return w, nil
		}
	}
	if len(s.instances) >= maxInstances {
		return nil, &sandbox.Error{
			Code: sandbox.CodeBusy, Op: "open", Resource: s.def.Name, Retryable: true,
			Message: "commands run on in too many sandboxes that have been replaced", Hint: "end some of them",
		}
	}
	return nil, nil
}

// raise builds the instance that spec asks for now, which may have been begun. The
// caller has its turn.
func (s *site) raise(ctx context.Context, spec sandbox.Spec, slot *launch.Slot, e *early) (w *instance, err error) {
	s.begun = e
	defer func() { s.begun = nil }()
	err = newPlanner(s, spec).retry(ctx, func(pl planned) error {
		w, err = s.build(ctx, spec, pl, slot)
		return err
	})
	return w, err
}

// admit takes an instance that was built, and watches it until it ends. Instances that
// are not in use make way for it.
func (s *site) admit(w *instance) error {
	s.p.mu.Lock()
	closed := s.p.closed
	if !closed {
		s.p.up.Add(1)
	}
	s.p.mu.Unlock()
	s.mu.Lock()
	refused := closed || s.over
	var idle []*instance
	if !refused {
		for _, old := range s.instances {
			if old.idle() {
				old.retired = true
				idle = append(idle, old)
			}
		}
		s.instances = append(s.instances, w)
	}
	s.mu.Unlock()
	if refused {
		if !closed {
			s.p.up.Done()
		}
		w.discard()
		w.slot.Release()
		return closedProvider(s.def.Name)
	}
	go s.watch(w)
	if !s.p.landlock { // nothing lies over what is closed
		w.guardSoon()
	}
	for _, old := range idle {
		old.take()
	}
	return nil
}

func closedProvider(name string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "open", Resource: name, Message: "the sandbox is being closed"}
}

// watch waits for the end of an instance, and lets go of what it had.
func (s *site) watch(w *instance) {
	defer s.p.up.Done()
	<-w.Ended()
	s.mu.Lock()
	for i, x := range s.instances {
		if x == w {
			s.instances = append(s.instances[:i], s.instances[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	w.letGo()
	w.slot.Release()
	w.tellEnd()
}

// leave takes one user from w. An instance that others have replaced ends with its
// last user; the newest one stays.
func (s *site) leave(w *instance) {
	s.mu.Lock()
	w.users--
	newest := len(s.instances) > 0 && s.instances[len(s.instances)-1] == w
	end := w.idle() && !newest
	w.retired = w.retired || end
	s.mu.Unlock()
	if end {
		w.take()
	}
}

// end ends every instance and returns when they are gone. Asked to be polite, it
// gives those in which something may run on a moment to end.
func (s *site) end(polite bool) {
	s.mu.Lock()
	s.over = true
	instances := append([]*instance(nil), s.instances...)
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, w := range instances {
		wg.Go(func() {
			// What is paused cannot end by itself.
			if stopped, _ := w.noted.Paused(); polite && w.busy() && !stopped {
				w.Close()
			} else {
				w.Kill()
			}
		})
	}
	wg.Wait()
}
