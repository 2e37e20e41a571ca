package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/budget"
	"github.com/bulkhead-dev/sandbox/grant"
)

// KeepSession is how long the account of a session stays after its last grant
// was opened. A session that comes back later begins with nothing used; its
// agent and tenant do not.
const KeepSession = 30 * 24 * time.Hour

// Bounds are what settings say about those above a grant.
type Bounds struct {
	Session budget.Amount
	Agent   budget.Amount
	Tenant  budget.Amount
}

// Chain is what a grant draws from: line is the grant and, in order, those that
// it was derived from, up to one that was not. Then come the session, the agent
// and the tenant that this last one was given for, as far as it names them: who
// hands a part of his grant to somebody else pays for it. A session is one of
// its agent's: two agents that use the same key share their tenant's budget
// only.
func Chain(line []grant.Grant, b Bounds, now time.Time) ([]Limit, error) {
	if err := checkLine(line); err != nil {
		return nil, err
	}
	var chain []Limit
	last := now.Add(KeepSession)
	for _, g := range line {
		chain = append(chain, Limit{ID: "grant:" + g.ID, Bound: g.Budget, Expires: g.Expires})
		if g.Expires.After(last) {
			last = g.Expires
		}
	}
	g := line[len(line)-1]
	if g.Session != "" {
		chain = append(chain, Limit{ID: "session:" + url.PathEscape(g.Agent) + "/" + g.Session, Bound: b.Session, Expires: last})
	}
	if g.Agent != "" {
		chain = append(chain, Limit{ID: "agent:" + g.Agent, Bound: b.Agent})
	}
	chain = append(chain, Limit{ID: "tenant:" + g.Tenant, Bound: b.Tenant})
	for i := range chain {
		chain[i].ID = shortened(chain[i].ID)
	}
	return chain, nil
}

// checkLine refuses grants that are no line, so that nobody draws past the
// grant that his was derived from.
func checkLine(line []grant.Grant) error {
	const op = "open budget account"
	if len(line) == 0 || len(line) > MaxDepth-3 {
		return sandbox.Errorf(sandbox.CodeValidation, op, "a grant and those it was derived from are 1 to %d, not %d", MaxDepth-3, len(line))
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
