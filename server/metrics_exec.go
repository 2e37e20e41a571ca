package server

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// A series is what one counter of sandbox_exec_total is of.
type series struct {
	domain, resource, safety, effect string // from bounded sets
	tenant, tool                     string // as they are called until [execs.count] has made labels of them
}

// execs counts what was begun, in a bounded number of series.
type execs struct {
	vec       *prometheus.CounterVec
	maxSeries int

	mu      sync.RWMutex
	tenants names
	tools   names
	known   map[series]prometheus.Counter
}

// names are those that have a label of their own.
type names struct {
	most int
	has  map[string]struct{} // labels
}

func newExecs(o MetricsOptions) *execs {
	e := &execs{
		vec:       prometheus.NewCounterVec(counter("sandbox_exec_total", "Commands, uses of files and operations under grants that were begun."), []string{"domain", "resource", "tool", "safety", "side_effect", "tenant"}),
		maxSeries: or(o.MaxSeries, 10_000), known: map[series]prometheus.Counter{},
	}
	e.tenants = names{most: or(o.MaxTenants, 200), has: map[string]struct{}{}}
	e.tools = names{most: or(o.MaxTools, 200), has: map[string]struct{}{}}
	return e
}

// or is n, or what holds where n says nothing.
func or(n, usual int) int {
	if n > 0 {
		return n
	}
	return usual
}

// count counts one operation.
func (e *execs) count(s series) {
	s.tenant, s.tool = nameLabel(s.tenant), nameLabel(s.tool)
	e.mu.RLock()
	c := e.known[e.place(s)]
	e.mu.RUnlock()
	if c == nil {
		c = e.admit(s)
	}
	c.Inc()
}

// place is the series with "other" for names that have no label of their own
// and can get none.
func (e *execs) place(s series) series {
	s.tenant, s.tool = e.tenants.label(s.tenant), e.tools.label(s.tool)
	return s
}

// admit makes the counter of a series that there is not yet.
func (e *execs) admit(s series) prometheus.Counter {
	e.mu.Lock()
	defer e.mu.Unlock()
	s = e.place(s)
	if c := e.known[s]; c != nil {
		return c
	}
	if len(e.known) >= e.maxSeries {
		s.tenant, s.tool = other, other
		if c := e.known[s]; c != nil {
			return c
		}
	}
	s.tenant, s.tool = e.tenants.take(s.tenant), e.tools.take(s.tool)
	c := e.vec.WithLabelValues(s.domain, s.resource, s.tool, s.safety, s.effect, s.tenant)
	e.known[s] = c
	return c
}

// label is the name where it has a label of its own or may get one.
func (n *names) label(name string) string {
	if _, ok := n.has[name]; ok || len(n.has) < n.most {
		return name
	}
	return other
}

// take gives the name a label of its own.
func (n *names) take(name string) string {
	if name != other {
		n.has[strings.Clone(name)] = struct{}{}
	}
	return name
}
