// Package today answers what the policy of some settings says to questions of
// package replay: with the gate and with the guard of a grant that asks for
// just what is judged, so that only the policy can be against it.
package today

import (
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/evidence/replay"
	"github.com/bulkhead-dev/sandbox/gate"
	"github.com/bulkhead-dev/sandbox/grant"
)

// Bounds of what is kept. Beyond them it is made anew.
const (
	maxKept    = 256  // judges
	maxAnswers = 1024 // of one judge
)

// Settings answer for all tenants, agents and sessions. They are for one
// goroutine.
type Settings struct {
	settings *config.Settings
	inside   func(config.Resolved) (config.Inside, error)
	kept     map[config.Who]*judge
}

var _ replay.Today = (*judge)(nil)

// New returns the answers of the settings, which may be nil. inside tells what
// policies have to know of the place where commands run.
func New(s *config.Settings, inside func(config.Resolved) (config.Inside, error)) *Settings {
	return &Settings{settings: s, inside: inside, kept: map[config.Who]*judge{}}
}

// For returns the answers for one session. An error means that there is no
// policy for it: the names are none, or the settings do not hold for it.
func (s *Settings) For(tenant, agent, session string) (replay.Today, error) {
	who := config.Who{Tenant: tenant, Agent: agent, Session: session}
	if j := s.kept[who]; j != nil {
		return j, nil
	}
	j, err := s.judge(who)
	if err != nil {
		return nil, err
	}
	if len(s.kept) >= maxKept {
		clear(s.kept)
	}
	s.kept[who] = j
	return j, nil
}

func (s *Settings) judge(who config.Who) (*judge, error) {
	res, err := config.Resolve(s.settings, who, nil)
	if err != nil {
		return nil, err
	}
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
	return &judge{res: res, in: in, gate: g, policy: p, requests: map[replay.Request]replay.Answer{}, programs: map[string]replay.Answer{}}, nil
}
