package manager

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
)

// rulesEvery is how often it is looked, while a command reaches hosts, whether the
// settings have changed: within this time and a little more a host that was taken
// away is out of reach, whichever process changed the settings.
const rulesEvery = time.Second

// watchRules has the egress session of l, by which a command of req reaches hosts, lose what
// the settings take away while the command runs. A command that begins later does
// not get that session, also where the settings are as they were again. stop ends
// that; it may be called again.
func (x *executor) watchRules(l *acquired, req *Request) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	who, flags, before := req.Who, req.Flags, l.want.terms()
	go func() {
		defer close(done)
		tick := time.NewTicker(rulesEvery)
		defer tick.Stop()
		for seen := before.from; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			s, err := x.m.currentOf(who, flags)
			if s == seen && err == nil {
				continue
			}
			var now terms
			if err == nil {
				now, err = x.termsBy(ctx, s, who, flags)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil: // the next command gets to see it
				x.m.log.WithError(err).WithField("sandbox", l.name()).Warn("changed settings cannot be applied to what reaches hosts: its connections are closed")
				x.m.handles.forget(l.handle)
				l.egressSessions.close()
				return
			case before.revoked(now):
				x.m.handles.forget(l.handle)
				if !opens(now.rules) || !before.hostsAlone(now) || !l.egressSessions.narrow(now.rules) {
					l.egressSessions.close()
					return
				}
			}
			seen = s
		}
	}()
	return func() { cancel(); <-done }
}

// termsBy returns the terms of a call under settings, and changes nothing.
func (x *executor) termsBy(ctx context.Context, s *config.Settings, who config.Who, flags *config.SandboxSettings) (terms, error) {
	res, err := config.Resolve(s, who, flags)
	if err != nil {
		return terms{}, err
	}
	at, err := x.m.gates.enter(ctx, res, outing{}, observe)
	if err != nil {
		return terms{}, err
	}
	w, err := x.m.describer.resolve(ctx, nil, res, flags, at, observe)
	if err != nil {
		return terms{}, err
	}
	now := w.terms()
	now.from = s
	return now, nil
}
