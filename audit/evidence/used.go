package evidence

import (
	"context"
	"maps"
	"slices"
)

// maxUsed bounds the chains that a Store knows the ends of.
const maxUsed = 1024

// chain returns the chain of a tenant for writing, and creates its files on the
// disk. It creates the key before the first folder, and a folder before the
// file that names it, so that a missing file shows what was removed.
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

// use adds a chain to the cache, or returns the one that is in the cache by
// now. It signs a chain that it evicts; when that fails, the last records of
// the chain stay without a signature, which Verify reports, until the next
// write there.
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
