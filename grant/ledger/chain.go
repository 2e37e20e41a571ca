package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// KeepSession is how long the account of a session stays after its last grant
// was opened. A session that comes back later begins with nothing used; its
// agent and tenant do not.
const KeepSession = 30 * 24 * time.Hour

// Bounds are what settings say about those above a grant.
type Bounds struct {
	Session budget.Amount
	Agents  map[string]budget.Amount // of each agent that one of the grants was given to
	Tenant  budget.Amount
}

// Chain returns the accounts that a grant draws from: line is the grant and, in
// order, those that it was derived from, up to one that was not derived. Then
// follow the session that this last grant was given for, which is that of its
// agent, all agents of the line, and the tenant, as far as they are named: an
// agent that passes on a part of its grant pays for it, too.
func Chain(line []grant.Grant, b Bounds, now time.Time) ([]Limit, error) {
	if err := checkLine(line); err != nil {
		return nil, err
	}
	var chain, agents []Limit
	last := now.Add(KeepSession)
	seen := map[string]bool{"": true}
	for _, g := range line {
		chain = append(chain, Limit{ID: "grant:" + g.ID, Bound: g.Budget, Expires: g.Expires})
		if g.Expires.After(last) {
			last = g.Expires
		}
		if !seen[g.Agent] {
			bound, ok := b.Agents[g.Agent]
			if !ok {
				return nil, sandbox.Errorf(sandbox.CodeInternal, "open budget account", "no profile says what the agent %s may use", g.Agent)
			}
			agents = append(agents, Limit{ID: "agent:" + g.Agent, Bound: bound, Apart: true})
			seen[g.Agent] = true
		}
	}
	g := line[len(line)-1]
	if g.Session != "" {
		chain = append(chain, Limit{ID: "session:" + sandbox.SessionKey(g.Agent, g.Session), Bound: b.Session, Expires: last, Apart: true})
	}
	chain = append(chain, agents...)
	chain = append(chain, Limit{ID: "tenant:" + g.Tenant, Bound: b.Tenant})
	for i := range chain {
		chain[i].ID = shortened(chain[i].ID)
	}
	return chain, nil
}

// checkLine refuses grants that are not a line of derivation, so that a grant
// cannot bypass the account of its parent.
func checkLine(line []grant.Grant) error {
	const op = "open budget account"
	if most := MaxDepth - 3; len(line) == 0 || len(line) > most {
		return sandbox.Errorf(sandbox.CodeValidation, op, "a grant and those it was derived from are 1 to %d, not %d", most, len(line))
	}
	for i, g := range line {
		parent := grant.Grant{Tenant: g.Tenant} // of the last one: none
		if i+1 < len(line) {
			parent = line[i+1]
		}
		switch {
		case g.ID == "":
			return sandbox.Errorf(sandbox.CodeValidation, op, "a grant has no id")
		case g.Expires.IsZero():
			return sandbox.Errorf(sandbox.CodeValidation, op, "a grant has no expiry")
		case g.Parent != parent.ID:
			return sandbox.Errorf(sandbox.CodePermissionDeny, op, "a grant was derived from another one than it is presented with")
		case g.Tenant != parent.Tenant:
			return sandbox.Errorf(sandbox.CodePermissionDeny, op, "a grant was derived for another tenant")
		}
	}
	return nil
}

// shortened makes an id of any length one that an account can have.
func shortened(id string) string {
	if len(id) <= MaxID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	digest := hex.EncodeToString(sum[:])
	return id[:MaxID-len(digest)-1] + "#" + digest
}
