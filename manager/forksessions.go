package manager

import (
	"cmp"
	"context"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// maxForkNumber is the highest number that ForkSessions tries, so that a tenant
// with very many sandboxes does not have it search for long.
const maxForkNumber = 10000

// ForkSessions returns names of count sessions for forks of the session of who:
// SESSION-fork-1 and the numbers that follow, without those that have a sandbox.
// A session whose scope has one sandbox for all of them is
// [sandbox.CodeUnsupported].
func (m *Manager) ForkSessions(ctx context.Context, who config.Who, flags *config.SandboxSettings, count int) ([]string, error) {
	session := cmp.Or(who.Session, config.DefaultSession)
	own, err := m.Name(who, flags)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for n := 1; len(out) < count; n++ {
		next := who
		next.Session = session + "-fork-" + strconv.Itoa(n)
		name, err := m.Name(next, flags)
		switch {
		case err != nil:
			return nil, err
		case name == own:
			return nil, &sandbox.Error{
				Code: sandbox.CodeUnsupported, Op: "fork", Resource: own, Field: "scope", Message: "sessions of this scope share one sandbox, so a fork has no session of its own",
				Hint: `set "scope" to "session"`,
			}
		case n > maxForkNumber:
			return nil, &sandbox.Error{
				Code: sandbox.CodeBudgetExceeded, Op: "fork", Resource: own, Message: "sessions " + session + "-fork-1 to -" + strconv.Itoa(maxForkNumber) + " have a sandbox",
				Hint: "remove some, or name the sessions of the forks",
			}
		}
		_, err = m.Recorded(ctx, who.Tenant, name, "")
		switch {
		case sandbox.IsNotFound(err):
			out = append(out, next.Session)
		case err != nil && sandbox.CodeOf(err) != sandbox.CodeValidation: // one of two providers
			return nil, err
		}
	}
	return out, nil
}
