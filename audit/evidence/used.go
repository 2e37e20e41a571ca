package evidence

import (
	"context"
	"maps"
	"slices"
)

// maxUsed bounds the chains that a Store knows the ends of.
const maxUsed = 1024

// chain returns the chain of a tenant for writing; what it needs on the disk
// is made. The key comes before the first folder, and a folder before the file
// that names it, so that what is missing tells what was taken away.
func (s *Store) chain(ctx context.Context, tenant string) (*chain, error) {
	s.chainsMu.Lock()
	c := s.chains[tenant]
	s.chainsMu.Unlock()
	if c != nil {
		return c, nil
	}
	key, err := s.secret()
	if err != nil {
		return nil, err
	}
	j, err := s.journal(folderOf(tenant))
	if err != nil {
		return nil, err
	}
	if err := s.writeName(tenant); err != nil {
		return nil, err
	}
	return s.use(ctx, &chain{
		tenant: tenant, journal: j, key: key, every: uint64(s.o.CheckpointEvery), sync: s.o.Sync, now: s.o.Now,
	}), nil
}

// use adds a chain to those that are known, or returns the one that is by now.
// One that has to go for it is signed; where that fails its last records stay
// without a signature, which Verify tells, until somebody writes there again.
func (s *Store) use(ctx context.Context, c *chain) *chain {
	s.chainsMu.Lock()
	if known := s.chains[c.tenant]; known != nil {
		s.chainsMu.Unlock()
		return known
	}
	var goes *chain
	if len(s.chains) >= s.most {
		for tenant, old := range s.chains {
			goes = old
			delete(s.chains, tenant)
			break
		}
	}
	s.chains[c.tenant] = c
	s.chainsMu.Unlock()
	if goes != nil && goes.open.Load() {
		_ = goes.finish(ctx)
	}
	return c
}

// used returns the chains that are known.
func (s *Store) used() []*chain {
	s.chainsMu.Lock()
	defer s.chainsMu.Unlock()
	return slices.Collect(maps.Values(s.chains))
}
