package recorder

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// maxLosers bounds the tenants whose losses are counted apart.
const maxLosers = 256

// dropped counts records that a sink did not get and that have not been reported
// to it yet. The lock of the lane guards it.
type dropped map[loser]loss

type loser struct {
	tenant string
	kind   evidence.Type
}

// A loss is a number of records like one.
type loss struct {
	like         evidence.Record
	n            int64
	since, until time.Time
}

// add counts a record that is lost.
func (l dropped) add(r evidence.Record) {
	if r.Omitted > 0 {
		return // a record of losses, which are given back
	}
	r.Data = nil
	l.join(loss{r, 1, r.Time, r.Time})
}

// join adds lost records. When there are too many tenants, their records are
// counted together without naming the tenants.
func (l dropped) join(more loss) {
	key := loser{more.like.Tenant, more.like.Type}
	if _, ok := l[key]; !ok && len(l) >= maxLosers {
		key.tenant, more.like = "", evidence.Record{Type: more.like.Type, Share: more.like.Share}
	}
	have, ok := l[key]
	if !ok {
		l[key] = more
		return
	}
	for _, name := range []struct{ have, more *string }{
		{&have.like.Agent, &more.like.Agent}, {&have.like.Session, &more.like.Session}, {&have.like.Sandbox, &more.like.Sandbox},
	} {
		if *name.have != *name.more { // other names are not kept
			*name.have = ""
		}
	}
	have.n += more.n
	if more.since.Before(have.since) {
		have.since = more.since
	}
	if more.until.After(have.until) {
		have.until = more.until
	}
	l[key] = have
}

// take returns the losses with records that report them, and clears l.
func (l dropped) take() ([]loss, []evidence.Record) {
	if len(l) == 0 {
		return nil, nil
	}
	all := slices.SortedFunc(maps.Values(l), func(a, b loss) int {
		return cmp.Or(cmp.Compare(a.like.Tenant, b.like.Tenant), cmp.Compare(a.like.Type, b.like.Type))
	})
	clear(l)
	out := make([]evidence.Record, len(all))
	for i, x := range all {
		out[i] = x.like.Omit(x.n, evidence.Omission{Reason: evidence.OmittedLost, Since: x.since, Until: x.until})
	}
	return all, out
}

// giveBack adds losses back that could not be reported.
func (l dropped) giveBack(all []loss) {
	for _, x := range all {
		l.join(x)
	}
}

// waiting returns the number of lost records that have not been reported yet.
func (l dropped) waiting() int64 {
	var n int64
	for _, x := range l {
		n += x.n
	}
	return n
}
