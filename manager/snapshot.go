package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/registry"
)

// A snapshot answers what many recorded sandboxes would be if they were made
// now. It asks for each image once.
type snapshot struct {
	m *Manager // with images that are asked for once
}

type answer struct {
	id  string
	err error
}

func newSnapshot(m *Manager) *snapshot {
	m.current()
	asking := *m
	asking.images = &remembered{Images: m.images, seen: map[string]answer{}}
	return &snapshot{m: &asking}
}

// want describes the sandbox that rec's owner would get now.
func (s *snapshot) want(ctx context.Context, rec registry.Record) (*want, error) {
	who := config.Who{Tenant: rec.Tenant, Agent: rec.Agent, Session: rec.Session}
	settings, err := s.m.creations.over(s.m.settings.Load(), who, flagged(rec.Provider))
	if err != nil {
		return nil, err
	}
	res, err := s.m.describer.resolved(settings, who, nil)
	if err != nil {
		return nil, err
	}
	p, err := s.m.providers.Get(rec.Provider)
	if err != nil {
		return nil, err
	}
	return s.m.describer.describeAgain(ctx, settings, of(rec.Kind, res), nil, p, observe)
}

// remembered asks for each image once. It is for one goroutine.
type remembered struct {
	Images
	seen map[string]answer
}

func (r *remembered) Current(ctx context.Context, ref string, setup []string) (string, error) {
	key := ref
	for _, line := range setup {
		key += "\x00" + line
	}
	a, ok := r.seen[key]
	if !ok {
		a.id, a.err = r.Images.Current(ctx, ref, setup)
		r.seen[key] = a
	}
	return a.id, a.err
}
