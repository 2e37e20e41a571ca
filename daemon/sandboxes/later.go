package sandboxes

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/daemon/api"
)

// maxComing is how many sandboxes of one tenant may be coming up at a time with
// nobody waiting for them.
const maxComing = 64

// An ahead is a sandbox that is coming up with nobody waiting for it.
type ahead struct {
	ttl int64 // seconds for which it is yet to be kept, as who asked last says; 0 is nothing
}

// later has the sandbox come up with nobody waiting for it, once however many ask
// for that meanwhile.
func (s *Resource) later(from context.Context, who config.Who, name string, in api.CreateSandbox) (int, api.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, api.Sandbox{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "create", Message: "the server is going down", Retryable: true}
	}
	mine := s.coming[who.Tenant]
	one := mine[name]
	switch {
	case one != nil:
		one.ttl = cmp.Or(in.TTLSeconds, one.ttl)
	case len(mine) >= maxComing:
		return 0, api.Sandbox{}, &sandbox.Error{
			Code: sandbox.CodeBudgetExceeded, Op: "create", Resource: name, Retryable: true,
			Message: strconv.Itoa(maxComing) + " sandboxes of the tenant are coming up already that nobody waits for", Hint: "wait for this one, or until others are up",
		}
	default:
		one = &ahead{ttl: in.TTLSeconds}
		if mine == nil {
			mine = map[string]*ahead{}
			s.coming[who.Tenant] = mine
		}
		mine[name] = one
		s.all.Go(func() {
			ctx, done := context.WithTimeout(context.WithoutCancel(from), startWithin) // it counts for who asked first
			defer done()
			defer context.AfterFunc(s.life, done)()
			if err := s.come(ctx, who, name, one); err != nil {
				s.o.Log.WithError(err).WithField("sandbox", name).Warn("a sandbox that nobody waits for did not come up")
			}
		})
	}
	now := time.Now().UTC()
	return http.StatusAccepted, api.Sandbox{
		Name: name, Kind: sandbox.KindSandbox, Tenant: who.Tenant, Agent: cmp.Or(who.Agent, config.DefaultAgent), Session: who.Session,
		Status: sandbox.StatusMissing, CreatedAt: now, LastUsedAt: now, Note: "it is coming up",
	}, nil
}

// come is the sandbox up, and kept for as long as was asked for last. It counts
// as coming until both is done, so that whoever asks meanwhile is not forgotten.
func (s *Resource) come(ctx context.Context, who config.Who, name string, one *ahead) error {
	p, err := s.ready(ctx, who)
	for {
		ttl := s.wanted(who.Tenant, name, one, err != nil)
		if ttl == 0 {
			return err
		}
		err = s.keep(ctx, who.Tenant, p.Name, ttl)
	}
}

// wanted is how long the sandbox is to be kept, as far as that was not done
// before. Where it is 0, or coming has failed, the sandbox is coming no more.
func (s *Resource) wanted(tenant, name string, one *ahead, failed bool) (ttl int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.ttl > 0 && !failed {
		ttl, one.ttl = one.ttl, 0
		return ttl
	}
	mine := s.coming[tenant]
	if delete(mine, name); len(mine) == 0 {
		delete(s.coming, tenant)
	}
	return 0
}
