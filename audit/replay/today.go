// This file answers the questions of package replay by the policy of some
// settings. It uses the gate, and the guard of a grant that requests exactly
// what is judged, so that only the policy can refuse it.

package replay

import (
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// Bounds of what is kept. Beyond them it is made anew.
const (
	maxJudges   = 64   // compiled policies, which take a megabyte or two
	maxSessions = 4096 // that are known to have one
	maxAnswers  = 1024 // of one judge
)

// A policyKey is what policies of the same settings depend on.
type policyKey struct {
	agent     string
	sandboxed bool
}

// Settings answer for all tenants, agents and sessions. They are for one
// goroutine.
type Settings struct {
	settings *config.Settings
	inside   func(config.Resolved) (config.Inside, error)
	judges   map[policyKey]*judge
	sessions map[config.Who]*judge
}

var _ Today = (*judge)(nil)

// New returns the answers of the settings, which may be nil. inside returns
// what policies have to know about the environment in which commands run.
func New(s *config.Settings, inside func(config.Resolved) (config.Inside, error)) *Settings {
	return &Settings{settings: s, inside: inside, judges: map[policyKey]*judge{}, sessions: map[config.Who]*judge{}}
}

// For returns the answers for one session. An error means that there is no
// policy for the session: the names are invalid, or the settings are invalid
// for it.
func (s *Settings) For(tenant, agent, session string) (Today, error) {
	who := config.Who{Tenant: tenant, Agent: agent, Session: session}
	if j := s.sessions[who]; j != nil {
		return j, nil
	}
	res, err := config.Resolve(s.settings, who, nil)
	if err != nil {
		return nil, err
	}
	key := policyKey{res.Agent, res.Sandboxed}
	j := s.judges[key]
	if j == nil {
		if j, err = s.judge(res); err != nil {
			return nil, err
		}
		if len(s.judges) >= maxJudges {
			clear(s.judges)
			clear(s.sessions) // or they would keep all that there ever was
		}
		s.judges[key] = j
	}
	if len(s.sessions) >= maxSessions {
		clear(s.sessions)
	}
	s.sessions[who] = j
	return j, nil
}

func (s *Settings) judge(res config.Resolved) (*judge, error) {
	in, err := s.inside(res)
	if err != nil {
		return nil, err
	}
	g, err := gate.New(res, in)
	if err != nil {
		return nil, err
	}
	p, err := config.GrantPolicy(res, in, grant.Manifest{})
	if err != nil {
		return nil, err
	}
	return &judge{res: res, in: in, gate: g, policy: p, requests: map[Request]Answer{}, programs: map[string]Answer{}}, nil
}
