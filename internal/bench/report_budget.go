//go:build linux

package main

import "fmt"

// The outcomes of a Verdict.
const (
	Met         = "met"
	Missed      = "missed"
	NotMeasured = "not measured"
)

// A Verdict says whether one budget holds.
type Verdict struct {
	Budget  string  `json:"budget"`
	Unit    string  `json:"unit"`
	AtLeast bool    `json:"atLeast"` // the limit is a lower one
	Limit   float64 `json:"limit"`
	Value   float64 `json:"value"`
	Outcome string  `json:"outcome"`
}

// Holds reports whether the budget holds when its limit is relaxed by the
// factor slack, at least 1. What was not measured does not hold: a budget
// must not be kept by leaving its operation out.
func (v Verdict) Holds(slack float64) bool {
	switch {
	case v.Outcome == NotMeasured:
		return false
	case v.AtLeast:
		return v.Value*max(slack, 1) >= v.Limit
	}
	return v.Value <= v.Limit*max(slack, 1)
}

// A budget is a promise about one number.
type budget struct {
	name    string
	unit    string
	atLeast bool
	limit   float64
	value   func(r *Report) (float64, bool)
}

// budgets are the promises of the project.
var budgets = []budget{
	{"exec over the socket, p50", "ms", false, 1.5, p50(OpExec, WaySocket)},
	{"exec over the socket, against the engine", "×", true, 25, ratio(OpExec, WaySocket)},
	{"shell builtin over the socket, p50", "ms", false, 0.25, p50(OpBuiltin, WaySocket)},
	{"read of 4 KiB over the socket, p50", "ms", false, 0.15, p50(OpRead4K, WaySocket)},
	{"read of 4 KiB over the socket, against the engine", "×", true, 250, ratio(OpRead4K, WaySocket)},
	{"stat over the socket, p50", "ms", false, 0.15, p50(OpStat, WaySocket)},
	{"stat over the socket, against the engine", "×", true, 250, ratio(OpStat, WaySocket)},
	{"read of 64 MiB over the socket", "MB/s", true, 500, rate(OpRead64M, WaySocket)},
	{"write of 64 MiB over the socket", "MB/s", true, 500, rate(OpWrite64M, WaySocket)},
	{"exec over the relay, against the engine", "×", true, 15, ratio(OpExec, WayRelay)},
	{"read of 4 KiB over the relay, against the engine", "×", true, 80, ratio(OpRead4K, WayRelay)},
	{"local sandbox and first command in a running program, p50", "ms", false, 30, p50(OpSandboxStart, WayLocal)},
	{"exec in a local sandbox, p50", "ms", false, 1.5, p50(OpExec, WayLocal)},
	{"shell builtin in a local sandbox, p50", "ms", false, 0.25, p50(OpBuiltin, WayLocal)},
	{"sandbox --provider local run, in the same bwrap typed by hand", "×", false, 3, against(OpOneShot, WayLocal, WayHand)},
	{"one command, scratch workspace, ordinary user, in bwrap typed by hand", "×", false, 3, against(OpUserOnce, WayLocal, WayHand)},
	{"one command, repository of 300 files, ordinary user, in the same", "×", false, 4, against(OpUserRepo, WayLocal, WayHand)},
	{"one command, scratch workspace, root, in the same", "×", false, 3, against(OpRootOnce, WayLocal, WayHand)},
	{"one command, repository of 300 files, root, in the same", "×", false, 4, against(OpRootRepo, WayLocal, WayHand)},
	{"decision about a typical line, p50", "ms", false, 0.05, p50(opDecide, WayHost)},
	{"decision about 64 KiB, p99", "ms", false, 10, p99(opDecide64K, WayHost)},
	{"profile of a call, p95", "ms", false, 0.1, p95(OpProfile, WayHost)},
	{"operation held against it, p95", "ms", false, 0.02, p95(OpGuard, WayHost)},
	{"evidence, added to an operation, p50", "ms", false, 0.2, more(OpOperate, WaySocket, WaySilent)},
	{"egress of a local sandbox, added to a request, p50", "ms", false, 1, added(OpRequest, WayLocal)},
	{"way out of a container, added to a request, p50", "ms", false, 1, added(OpRequest, WaySocket)},
	{"egress of a local sandbox, added to a new connection, p50", "ms", false, 1, added(OpConnect, WayLocal)},
	{"download through a tunnel out of a local sandbox", "MB/s", true, 400, rate(OpTunnel, WayLocal)},
	{"download through a tunnel out of a container", "MB/s", true, 400, rate(OpTunnel, WaySocket)},
	{"browser ready, p50", "ms", false, 3000, p50(OpBrowser, WaySocket)},
	{"browser ready, worst", "ms", false, 12_000, worst(OpBrowser, WaySocket)},
	{"page of the workspace and its picture, p50", "ms", false, 500, p50(OpPage, WaySocket)},
	{"daemon over its unix socket, added to an exec, p50", "ms", false, 1, more(OpServed, WayHTTP, WayManager)},
	{"daemon over TCP with a token, added to an exec, p50", "ms", false, 1, more(OpServed, WayTCP, WayManager)},
	{"daemon with a stream of events, added to an exec, p50", "ms", false, 1, more(OpServed, WaySSE, WayManager)},
	{"exec, judged and on record, in the same over the guest's socket alone, p50", "×", false, 2, against(OpServed, WayManager, WaySocket)},
	{"shell line by MCP, in the same over HTTP, p50", "×", false, 1.1, against(OpTool, WayMCP, WayHTTP)},
	{"warm stat over HTTP, added to healthz, p50", "ms", false, 0.4, more(OpWarm, WayStatHTTP, WayHealth)},
	{"warm read of 4 KiB over HTTP, added to healthz, p50", "ms", false, 0.4, more(OpWarm, WayReadHTTP, WayHealth)},
	{"warm exec over HTTP, added to healthz, p50", "ms", false, 1, more(OpWarm, WayHTTP, WayHealth)},
	{"GET of a sandbox, added to healthz, p50", "ms", false, 0.2, more(OpWarm, WayGet, WayHealth)},
	{"create out of the pool by E2B's client, added to the floor, p50", "ms", false, 8, more(OpE2BCreate, WayPool, WayFloor)},
	{"commands.run by E2B's client, added to the floor, p50", "ms", false, 2, more(OpE2BRun, WayHTTP, WayFloor)},
	{"files.read by E2B's client, added to the floor, p50", "ms", false, 0.5, more(OpE2BRead, WayHTTP, WayFloor)},
	{"100 creates at once by E2B's client, p95", "ms", false, 300, p95(OpE2BBurst, WayPool)},
	{"forwarded request, added to the same on the host, p50", "ms", false, 0.3, added(OpPort, WayForward)},
	{"request to a port by a daemon, added to the same on the host, p50", "ms", false, 0.3, added(OpPort, WayHTTP)},
	{"download through a forwarded port", "MB/s", true, 800, rate(OpPortLarge, WayForward)},
	{"claim from the pool and first output, p50", "ms", false, 5, p50(OpClaim, WayPool)},
	{"thaw and first output, p50", "ms", false, 20, p50(OpClaim, WayFrozen)},
	{"100 claims at once, p95 of first outputs", "ms", false, 350, p95(OpBurst, WayPool)},
	{"checkpoint of a workspace of 1 GiB in 50,000 files, p50", "ms", false, 20, p50(OpKeep, WayManager)},
	{"copy of it where no means shares files, speed in that of cp -a", "×", true, 0.8, against(OpCopy, WayHost, WayManager)},
	{"rollback of it, p50", "ms", false, 30, p50(OpRollback, WayManager)},
	{"list of 100 changes in it, p50", "ms", false, 100, p50(OpDiff, WayManager)},
	{"fork of it out of the pool and first output, p50", "ms", false, 50, p50(OpFork, WayPool)},
	{"reads of files after 1,000 checkpoints, in the same after none", "×", false, 1.1, against(OpChain, WayManager, WayHost)},
	{"daemon with 500 idle sandboxes (RSS)", "MiB", false, 64, idleRSS(500)},
	{"daemon with idle sandboxes, of one processor", "%", false, 0.1, idleCPU},
	{"64 callers over the socket, p99 in p50 of one caller", "×", false, 20, inFlight(OpCallers64, WaySocket)},
	{"guest and stages, idle, fresh (PSS)", "MiB", false, 6, pss(memoryFresh)},
	{"guest and stages, idle, after 1,000 commands (PSS)", "MiB", false, 6, pss(memoryUsed)},
}

func p50(op, way string) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		res, ok := r.find(op, way)
		return milliseconds(res.P50), ok
	}
}

func p95(op, way string) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		res, ok := r.find(op, way)
		return milliseconds(res.P95), ok
	}
}

func p99(op, way string) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		res, ok := r.find(op, way)
		return milliseconds(res.P99), ok
	}
}

func worst(op, way string) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		res, ok := r.find(op, way)
		return milliseconds(res.Max), ok
	}
}

func ratio(op, way string) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		res, ok := r.find(op, way)
		return res.Ratio, ok && res.Ratio > 0
	}
}

func rate(op, way string) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		res, ok := r.find(op, way)
		return res.Rate, ok && res.Rate > 0
	}
}

// against is the median of one way in medians of another.
func against(op, way, yardstick string) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		ours, ok := r.find(op, way)
		theirs, ok1 := r.find(op, yardstick)
		if !ok || !ok1 || theirs.P50 <= 0 {
			return 0, false
		}
		return float64(ours.P50) / float64(theirs.P50), true
	}
}

// added is by how much the median of a way is above that of the same work on
// the host.
func added(op, way string) func(*Report) (float64, bool) { return more(op, way, WayHost) }

// more is by how much the median of a way is above that of another.
func more(op, way, other string) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		ours, ok := r.find(op, way)
		theirs, ok1 := r.find(op, other)
		return milliseconds(ours.P50 - theirs.P50), ok && ok1
	}
}

// inFlight returns the 99th percentile among many callers as a multiple of one
// caller's median.
func inFlight(op, way string) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		many, ok := r.find(op, way)
		one, ok1 := r.find(OpExec, way)
		if !ok || !ok1 || one.P50 <= 0 {
			return 0, false
		}
		return float64(many.P99) / float64(one.P50), true
	}
}

func pss(state string) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		m, ok := r.memory(state)
		return mib(m.PSS), ok && m.PSS > 0
	}
}

// idleRSS is what a daemon holds with so many idle sandboxes. Where fewer came
// to be, each of those that are missing counts as the others do.
func idleRSS(n int) func(*Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		if r.Idle == nil || r.Idle.Sandboxes == 0 {
			return 0, false
		}
		missing := max(0, n-r.Idle.Sandboxes)
		return mib(r.Idle.RSS) + float64(missing)*mib(r.Idle.each()), true
	}
}

// idleCPU is how much of one processor a daemon takes whose sandboxes do nothing.
func idleCPU(r *Report) (float64, bool) {
	if r.Idle == nil || r.Idle.Sandboxes == 0 || r.Idle.Rest <= 0 {
		return 0, false
	}
	return 100 * float64(r.Idle.CPU) / float64(r.Idle.Rest), true
}

// judge compares r with every budget.
func judge(r *Report) []Verdict {
	out := make([]Verdict, 0, len(budgets))
	for _, b := range budgets {
		v := Verdict{Budget: b.name, Unit: b.unit, AtLeast: b.atLeast, Limit: b.limit, Outcome: NotMeasured}
		if value, ok := b.value(r); ok {
			v.Value, v.Outcome = value, Missed
			if v.Holds(1) {
				v.Outcome = Met
			}
		}
		out = append(out, v)
	}
	return out
}

// LimitText writes the limit for people.
func (v Verdict) LimitText() string {
	word := "at most"
	if v.AtLeast {
		word = "at least"
	}
	return fmt.Sprintf("%s %g %s", word, v.Limit, v.Unit)
}

// ValueText writes the measured value for people.
func (v Verdict) ValueText() string {
	if v.Outcome == NotMeasured {
		return "–"
	}
	return digits(v.Value) + " " + v.Unit
}
