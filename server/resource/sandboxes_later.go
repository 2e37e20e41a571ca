package resource

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// maxComing is how many sandboxes of one tenant may start at a time without a
// waiting request.
const maxComing = 64

// An ahead is a sandbox that starts without a waiting request.
type ahead struct {
	ttl  int64  // seconds for which it is yet to be kept, by the last request; 0 is nothing
	by   string // for whom it is coming up; see asker
	next *asker // the last other caller that asked for it; nil is none
}

// An asker is a caller that asks for a sandbox: the sandbox counts for that
// caller, and starts with its rights.
type asker struct {
	ctx context.Context // of a request, whose end does not end the start
	id  string          // of a token or a user
	who config.Who

	settings *config.SandboxSettings // of the request; nil is none
}

// later starts the sandbox in the background, once for all requests that ask for
// it meanwhile. It starts with the rights of the first caller, and where that
// fails with those of the last of the other callers, which got the same answer.
func (s *sandboxesResource) later(by asker, name string, in api.CreateSandbox) (int, api.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, api.Sandbox{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "create", Message: "the server is going down", Retryable: true}
	}
	who := by.who
	mine := s.coming[who.Tenant]
	one := mine[name]
	switch {
	case one != nil:
		one.ttl = cmp.Or(in.TTLSeconds, one.ttl)
		if by.id != one.by {
			one.next = &by
		}
	case len(mine) >= maxComing:
		return 0, api.Sandbox{}, &sandbox.Error{
			Code: sandbox.CodeBudgetExceeded, Op: "create", Resource: name, Retryable: true,
			Message: strconv.Itoa(maxComing) + " sandboxes of the tenant are coming up already without a caller that waits", Hint: "wait for this one, or until others are up",
		}
	default:
		one = &ahead{ttl: in.TTLSeconds, by: by.id}
		if mine == nil {
			mine = map[string]*ahead{}
			s.coming[who.Tenant] = mine
		}
		mine[name] = one
		s.all.Go(func() {
			for next := &by; next != nil; {
				var err error
				if next, err = s.come(*next, name, one); err != nil {
					s.failed(who.Tenant, name, err)
				}
			}
		})
	}
	now := time.Now().UTC()
	return http.StatusAccepted, api.Sandbox{
		Name: name, Kind: sandbox.KindSandbox, Tenant: who.Tenant, Agent: cmp.Or(who.Agent, config.DefaultAgent), Session: who.Session,
		Status: sandbox.StatusMissing, CreatedAt: now, LastUsedAt: now, Note: "it is coming up",
	}, nil
}

// reportEvery is the least time between two log entries about failures of one
// tenant.
const reportEvery = time.Minute

// maxReported is how many tenants are recorded for that.
const maxReported = 4096

// A reported holds the time of the last logged failure of a tenant, and how many
// failures were not logged since.
type reported struct {
	at   time.Time
	more int
}

// failed logs that a sandbox did not start, at most once in reportEvery for one
// tenant, so that a caller that repeats the request does not fill the log.
func (s *sandboxesResource) failed(tenant, name string, err error) {
	s.mu.Lock()
	now := time.Now()
	last, had := s.reported[tenant]
	if had && now.Sub(last.at) < reportEvery {
		last.more++
		s.reported[tenant] = last
		s.mu.Unlock()
		return
	}
	if len(s.reported) >= maxReported || s.reported == nil {
		s.reported = map[string]reported{}
	}
	s.reported[tenant] = reported{at: now}
	s.mu.Unlock()
	l := s.o.Log.WithError(err).WithField("sandbox", name)
	if last.more > 0 {
		l = l.WithField("unlogged", last.more)
	}
	l.Warn("a sandbox that was asked for without waiting did not come up")
}

// come starts the sandbox, and has it kept for as long as the last request asked
// for. The sandbox counts as starting until both are done, so that requests that
// arrive meanwhile are not forgotten. Where the start has failed next is the
// caller for which it is to be tried again.
func (s *sandboxesResource) come(by asker, name string, one *ahead) (next *asker, err error) {
	ctx, done := context.WithTimeout(context.WithoutCancel(by.ctx), startWithin)
	defer done()
	defer context.AfterFunc(s.life, done)()
	p, err := s.ready(ctx, manager.Request{Who: by.who, Flags: by.settings})
	for {
		ttl, next := s.wanted(by.who.Tenant, name, one, err != nil)
		if ttl == 0 {
			return next, err
		}
		err = s.keep(ctx, by.who.Tenant, p.Name, providerIn(by.settings), ttl)
	}
}

// wanted returns how long the sandbox is to be kept, unless that was done
// before, and where the start has failed, the caller for which it is tried
// again. Where it returns neither the sandbox no longer counts as starting.
func (s *sandboxesResource) wanted(tenant, name string, one *ahead, failed bool) (ttl int64, next *asker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case failed && one.next != nil && !s.closed:
		next, one.next = one.next, nil
		one.by = next.id
		return 0, next
	case one.ttl > 0 && !failed:
		ttl, one.ttl = one.ttl, 0
		return ttl, nil
	}
	mine := s.coming[tenant]
	if delete(mine, name); len(mine) == 0 {
		delete(s.coming, tenant)
	}
	return 0, nil
}
