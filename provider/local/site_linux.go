package local

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// maxWalls bounds the walls of one sandbox in one process. Each handle has
// one for new commands; older ones stay while commands run in them.
const maxWalls = 16

// A site is what this process has of one sandbox: its walls, of which there
// are several when handles were granted different things, or when commands
// run on in one that has been replaced.
type site struct {
	p       *Provider
	def     launch.Definition
	scanner *hostscan.Scanner
	sockets *hostscan.Scanner // of the system's folders, for sockets alone

	begun *early // what the next wall may be made of; belongs to who has the turn

	mu    sync.Mutex
	walls []*wall // that are up, oldest first
	over  bool    // no wall may be added
}

func newSite(p *Provider, def launch.Definition) *site {
	return &site{p: p, def: def, scanner: hostscan.New(hostscan.Limits{}), sockets: hostscan.New(hostscan.Limits{})}
}

// open returns a handle on the wall that s asks for now, which may have been
// begun. The caller has its turn.
func (s *site) open(ctx context.Context, spec sandbox.Spec, e *early) (*handle, error) {
	s.begun = e
	defer func() { s.begun = nil }()
	h := &handle{site: s, spec: spec, planner: newPlanner(s, spec), closing: make(chan struct{})}
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

// wallFor returns the wall of pl with one more user, raised when there is none. The
// caller has its turn.
func (s *site) wallFor(ctx context.Context, spec sandbox.Spec, pl planned) (*wall, error) {
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

// find returns the wall of that key, if it is up, with one more user.
func (s *site) find(key string) (*wall, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, closedProvider(s.def.Name)
	}
	for _, w := range s.walls {
		if w.key == key && !w.retired && w.sound() {
			w.users++
			return w, nil
		}
	}
	if len(s.walls) >= maxWalls {
		return nil, &sandbox.Error{
			Code: sandbox.CodeBusy, Op: "open", Resource: s.def.Name, Retryable: true,
			Message: "commands run on in too many walls that have been replaced", Hint: "end some of them",
		}
	}
	return nil, nil
}

// raise builds the wall that spec asks for now, which may have been begun. The
// caller has its turn.
func (s *site) raise(ctx context.Context, spec sandbox.Spec, slot *launch.Slot, e *early) (w *wall, err error) {
	s.begun = e
	defer func() { s.begun = nil }()
	err = newPlanner(s, spec).retry(ctx, func(pl planned) error {
		w, err = s.build(ctx, spec, pl, slot)
		return err
	})
	return w, err
}

// admit takes a wall that was built, and watches it until it ends. Walls that
// are not in use make way for it.
func (s *site) admit(w *wall) error {
	s.p.mu.Lock()
	closed := s.p.closed
	if !closed {
		s.p.up.Add(1)
	}
	s.p.mu.Unlock()
	s.mu.Lock()
	refused := closed || s.over
	var idle []*wall
	if !refused {
		for _, old := range s.walls {
			if old.idle() {
				old.retired = true
				idle = append(idle, old)
			}
		}
		s.walls = append(s.walls, w)
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
	w.guardSoon()
	for _, old := range idle {
		old.take()
	}
	return nil
}

func closedProvider(name string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "open", Resource: name, Message: "the sandbox is being closed"}
}

// watch waits for the end of a wall, and lets go of what it had.
func (s *site) watch(w *wall) {
	defer s.p.up.Done()
	<-w.Ended()
	s.mu.Lock()
	for i, x := range s.walls {
		if x == w {
			s.walls = append(s.walls[:i], s.walls[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	w.letGo()
	w.slot.Release()
	w.tellEnd()
}

// leave takes one user from w. A wall that others have replaced ends with its
// last user; the newest one stays.
func (s *site) leave(w *wall) {
	s.mu.Lock()
	w.users--
	newest := len(s.walls) > 0 && s.walls[len(s.walls)-1] == w
	end := w.idle() && !newest
	w.retired = w.retired || end
	s.mu.Unlock()
	if end {
		w.take()
	}
}

// end ends every wall and returns when they are gone. Asked to be polite, it
// gives those in which something may run on a moment to end.
func (s *site) end(polite bool) {
	s.mu.Lock()
	s.over = true
	walls := append([]*wall(nil), s.walls...)
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, w := range walls {
		wg.Go(func() {
			if polite && w.busy() {
				w.Close()
			} else {
				w.Kill()
			}
		})
	}
	wg.Wait()
}
