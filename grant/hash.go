package grant

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// hashFormat is counted along, so that a profile of another meaning has
// another hash.
const hashFormat = 1

// Sum returns the SHA-256, in hex, of what the profile allows and to whom, in
// canonical JSON. It excludes the fields that belong to one call alone: the ids
// of grant, call and session, the decision key, expiry and consent; and the
// sources, which allow nothing. Two calls of one tool under the same grants,
// manifest and policy have the same hash. It depends neither on the order of
// lists nor on the platform.
func (p *Profile) Sum() string {
	c := *p
	c.Grant, c.Call, c.Session, c.DecisionKey, c.Hash = "", "", "", "", ""
	c.Expires, c.Consent, c.Sources = time.Time{}, nil, Sources{}
	text, err := json.Marshal(struct {
		Format  int      `json:"format"`
		Profile *Profile `json:"profile"`
	}{hashFormat, &c})
	if err != nil {
		return "" // a Profile is plain data, which can always be written; and no profile has this hash
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ordered returns templates in an order that does not depend on theirs. Each is
// an alternative, so that it has no meaning; that of arguments has.
func ordered(list []Template) []Template {
	if len(list) == 0 {
		return nil
	}
	type keyed struct {
		key string
		t   Template
	}
	all := make([]keyed, len(list))
	for i := range list {
		t := list[i].clone()
		text, _ := json.Marshal(t) // plain data
		all[i] = keyed{string(text), t}
	}
	slices.SortFunc(all, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	all = slices.CompactFunc(all, func(a, b keyed) bool { return a.key == b.key })
	out := make([]Template, len(all))
	for i := range all {
		out[i] = all[i].t
	}
	return out
}

// clone returns a copy that shares nothing, the words sorted.
func (t Template) clone() Template {
	t.Args = slices.Clone(t.Args)
	for i := range t.Args {
		t.Args[i].OneOf = sorted(t.Args[i].OneOf)
	}
	if t.Rest != nil {
		rest := *t.Rest
		rest.OneOf = sorted(rest.OneOf)
		t.Rest = &rest
	}
	return t
}
