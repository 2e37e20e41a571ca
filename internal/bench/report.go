//go:build linux

// Report: this part of the package turns measured times into a table, a judgement of each
// budget, and the text that the documentation holds. It is pure: it measures
// nothing and touches no file.

package main

import "time"

// The ways by which an operation is done, in the order of the table.
const (
	WayEngine   = "engine"  // the plain engine API: what everything is compared with
	WaySocket   = "socket"  // the guest, over its socket
	WayRelay    = "relay"   // the guest, over one exec stream of the engine
	WayLocal    = "local"   // the guest in a local sandbox, over an inherited connection
	WayHand     = "bwrap"   // bubblewrap alone, typed by hand, with the local provider's namespaces and mounts
	WaySilent   = "silent"  // over the guest's socket, with nothing put on record
	WayExec     = "exec"    // the plain engine's exec in a container that runs already
	WayManager  = "manager" // a manager in the program itself, in a sandbox that runs already
	WayPool     = "pool"    // the same, in a sandbox that is claimed from the pool for it
	WayFrozen   = "frozen"  // the same, in a sandbox that was frozen
	WayHTTP     = "http"    // the daemon, over its unix socket on a kept connection
	WaySSE      = "sse"     // the same, with the output as a stream of events
	WayTCP      = "tcp"     // the daemon, over loopback with a token on a kept connection
	WayMCP      = "mcp"     // the daemon's Model Context Protocol, over its unix socket
	WayHealth   = "healthz" // the daemon's answer to /healthz, over its unix socket on a kept connection
	WayStatHTTP = "stat"    // the same connection: the size of a file
	WayReadHTTP = "read"    // the same connection: the content of a file of 4 KiB
	WayGet      = "get"     // the same connection: a sandbox
	WayFloor    = "floor"   // a server on loopback that answers at once what the daemon has answered before
	WayForward  = "forward" // sandbox port forward, on a kept connection
	WayRun      = "run"     // sandbox run, with a container made for it
	WayHost     = "host"    // the same work on the host without a sandbox: the floor
)

// The operations. Budgets refer to them by these names.
const (
	OpPing         = "round trip"
	OpExec         = "exec /bin/true"
	OpRested       = "exec, 50 ms after the last"
	OpBuiltin      = "shell builtin"
	OpAssign       = "shell assignment"
	OpStat         = "stat"
	OpList         = "list 10,000 entries"
	OpRead4K       = "read 4 KiB"
	OpRead1M       = "read 1 MiB"
	OpRead64M      = "read 64 MiB"
	OpWrite4K      = "write 4 KiB"
	OpWrite1M      = "write 1 MiB"
	OpWrite64M     = "write 64 MiB"
	OpCallers16    = "exec, 16 callers"
	OpCallers64    = "exec, 64 callers"
	OpStart        = "start of a sandbox"
	OpSandboxStart = "local sandbox and first command"
	OpOneShot      = "one command, all in all"
	OpNode         = "npm ci && npm test"
	OpPython       = "pip install && pytest"
	OpGo           = "go test ./..."
	OpRust         = "cargo test"
	OpJava         = "mvn -q test"
	OpUserOnce     = "one command, scratch, ordinary user"
	OpUserRepo     = "one command, repository, ordinary user"
	OpRootOnce     = "one command, scratch, root"
	OpRootRepo     = "one command, repository, root"
	OpProgram      = "start of sandbox(1)"
	opDecide       = "decide about a line"
	opDecide64K    = "decide about 64 KiB"
	OpProfile      = "build a profile"
	OpGuard        = "hold an operation against it"
	OpOperate      = "read 4 KiB under a grant"
	OpServed       = "exec /bin/true, judged and on record"
	OpTool         = "shell line, by a tool"
	OpWarm         = "warm request to a daemon"
	OpServed1M     = "read 1 MiB from a daemon"
	OpE2BBurst     = "100 creates at once, by E2B's client"
	OpE2BCreate    = "create, by E2B's client"
	OpE2BRun       = "commands.run, by E2B's client"
	OpE2BRead      = "files.read of 4 KiB, by E2B's client"
	OpPort         = "request to a server inside"
	OpPortLarge    = "download from a server inside"
	OpClaim        = "first output of a session"
	OpBurst        = "first output, 100 sessions at once"
	OpKeep         = "checkpoint of 50,000 files"
	OpCopy         = "copy of 50,000 files"
	OpRollback     = "rollback of 50,000 files"
	OpDiff         = "100 changes among 50,000 files"
	OpFork         = "fork and first output"
	OpChain        = "10,000 files read after 1,000 checkpoints"
	opIdle         = "idle sandboxes of a daemon"
	OpRequest      = "request, kept connection"
	OpConnect      = "request, new connection"
	OpTunnel       = "download through a tunnel"
	OpFetch        = "download by plain HTTP"
	OpHold         = "200 sandboxes, 10 connections each"
	OpBrowser      = "browser ready"
	OpShot         = "picture of a page"
	OpPage         = "page of the workspace and picture"
	OpDevTools     = "round trip of DevTools"
)

// The states in which memory is measured.
const (
	memoryFresh = "fresh, idle"
	memoryUsed  = "after 1,000 commands, idle"
	memoryRelay = "with a relay beside, idle"
	memoryHold  = "what the proxy takes for 2,000 connections, outside"
)

// A Report is one run.
type Report struct {
	Machine  reportMachine  `json:"machine"`
	Mode     string         `json:"mode"` // "full" or "quick"
	Took     float64        `json:"tookSeconds"`
	Results  []reportResult `json:"results"`
	Memory   []reportMemory `json:"memory"`
	Idle     *reportIdle    `json:"idle,omitempty"` // nil where it was not measured
	Verdicts []Verdict      `json:"verdicts"`
}

// A Machine says on what a run took place: its class, not which one it is.
type reportMachine struct {
	Cores     int    `json:"cores"`
	Processor string `json:"processor"`
	Memory    int64  `json:"memoryBytes"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
	Engine    string `json:"engine"`
	API       string `json:"engineApi"`
	Runtime   string `json:"runtime"`
	Storage   string `json:"storage"` // the engine's storage driver
	Cgroup    string `json:"cgroupVersion"`
	Workspace string `json:"workspaceFileSystem"`
	// Load is the load average of the last minute before the run: above
	// some tenths, others were at work and the times are longer for it.
	Load float64 `json:"loadBefore"`
}

// A Result is one operation done one way.
type reportResult struct {
	Op    string `json:"op"`
	Way   string `json:"way"`
	Bytes int64  `json:"bytes,omitempty"` // moved by one operation, where the rate makes sense
	Summary
	// Unsupported says why nothing was measured; or empty.
	Unsupported string `json:"unsupported,omitempty"`

	// Ratio is how many times faster than the plain engine this is, by
	// medians; 0 where there is nothing to compare with.
	Ratio float64 `json:"ratio,omitempty"`
	// Direct is how many times faster than the same work on the host without
	// any sandbox this is, by medians, where that and not the engine is compared
	// with; or 0.
	Direct float64 `json:"timesDirect,omitempty"`
	// Rate is in MB (10^6 bytes) per second, by the median; or 0.
	Rate float64 `json:"mbPerSecond,omitempty"`
}

// A Memory is what our processes inside one container take. No process outside
// shares their pages, so the PSS is what they hold together.
type reportMemory struct {
	State     string `json:"state"`
	Processes int    `json:"processes"` // guest, stages and relay
	RSS       int64  `json:"rssBytes"`  // their sum; pages of the program count once for each process
	PSS       int64  `json:"pssBytes"`  // their sum; a shared page counts once in all
}

// Idle is what a daemon takes while its sandboxes do nothing.
type reportIdle struct {
	Wanted    int           `json:"wanted"`    // sandboxes
	Sandboxes int           `json:"sandboxes"` // that came to be in the time there was
	Making    time.Duration `json:"makingNs"`  // all of them
	Before    int64         `json:"rssBytesBefore"`
	RSS       int64         `json:"rssBytes"`  // with them, soon after the last was used or at the end of the rest: the more of both
	Settled   time.Duration `json:"settledNs"` // between the last use and the rest
	CPU       time.Duration `json:"cpuNs"`     // processor time during the rest
	Rest      time.Duration `json:"restNs"`
	// Sockets are those that the daemon has for them: with fewer than
	// sandboxes, some guests were not connected meanwhile.
	Sockets int `json:"sockets"`
}

// Derive fills in what follows from the measurements: ratios, rates and
// verdicts.
func (r *Report) Derive() {
	for i := range r.Results {
		res := &r.Results[i]
		res.Ratio, res.Direct, res.Rate = 0, 0, 0
		if res.P50 <= 0 {
			continue
		}
		if plain, ok := r.find(res.Op, WayEngine); ok {
			res.Ratio = float64(plain.P50) / float64(res.P50)
		}
		if host, ok := r.find(res.Op, WayHost); ok && res.Ratio == 0 && res.Way != WayHost {
			res.Direct = float64(host.P50) / float64(res.P50)
		}
		if res.Bytes > 0 {
			res.Rate = float64(res.Bytes) * 1e3 / float64(res.P50) // bytes in a nanosecond are GB/s
		}
	}
	r.Verdicts = judge(r)
}

// find returns the result of op done the given way if it was measured.
func (r *Report) find(op, way string) (reportResult, bool) {
	for _, res := range r.Results {
		if res.Op == op && res.Way == way && res.N > 0 {
			return res, true
		}
	}
	return reportResult{}, false
}

// memory returns the measurement in the given state.
func (r *Report) memory(state string) (reportMemory, bool) {
	for _, m := range r.Memory {
		if m.State == state {
			return m, true
		}
	}
	return reportMemory{}, false
}

// milliseconds is d in the unit of the tables.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
