package sandbox

import (
	"fmt"
	"strconv"
	"time"
)

// Names of the limits of one command, as settings spell them.
const (
	LimitTimeout        = "limits.timeout"
	LimitMaxOutputBytes = "limits.maxOutputBytes"
	LimitMemory         = "limits.memory"
	LimitCPUSeconds     = "limits.cpuSeconds"
	LimitFileSize       = "limits.fileSize"
	LimitOpenFiles      = "limits.openFiles"
	LimitProcesses      = "limits.processes"
)

// Names of the limits of a whole sandbox that a command can reach.
const (
	LimitSandboxMemory    = "docker.memory"
	LimitSandboxProcesses = "docker.pidsLimit"
	LimitDisk             = "disk" // of the file system at Path
)

// Units of a [LimitHit].
const (
	UnitBytes        = "bytes"
	UnitSeconds      = "seconds"
	UnitMilliseconds = "milliseconds" // of a time limit that is no whole number of seconds
	UnitProcesses    = "processes"
	UnitFiles        = "files"
)

// A LimitHit says which limit of a command was reached, where its use stood
// and what the bound was.
type LimitHit struct {
	Limit   string `json:"limit"`   // one of the names above
	Current int64  `json:"current"` // what was used when it was noticed, at least Bound
	Bound   int64  `json:"bound"`
	Unit    string `json:"unit"` // of both numbers

	Path string `json:"path,omitempty"` // of LimitDisk: a folder on the file system that is full
}

// TimeHit is the LimitHit of a command that was ended after used because it
// had bound.
func TimeHit(used, bound time.Duration) *LimitHit {
	h := &LimitHit{Limit: LimitTimeout, Current: int64(used / time.Second), Bound: int64(bound / time.Second), Unit: UnitSeconds}
	if bound%time.Second != 0 {
		h.Current, h.Bound, h.Unit = used.Milliseconds(), bound.Milliseconds(), UnitMilliseconds
	}
	h.Current = max(h.Current, h.Bound)
	return h
}

// String returns the hit in one line for people: "limits.processes: 65
// processes, bound 64".
func (h LimitHit) String() string {
	switch {
	case h.Limit == LimitDisk && h.Unit == UnitFiles:
		return fmt.Sprintf("%s is full: %d files, bound %d", h.Path, h.Current, h.Bound)
	case h.Limit == LimitDisk:
		return h.Path + " is full: " + inBytes(h.Current) + " used, bound " + inBytes(h.Bound)
	case h.Limit == LimitSandboxMemory && h.Bound <= 0:
		return h.Limit + ": the kernel has ended a process because the sandbox ran out of memory"
	case h.Limit == LimitSandboxMemory:
		return h.Limit + ": the kernel has ended a process because the sandbox has used its " + inBytes(h.Bound)
	}
	switch h.Unit {
	case UnitBytes:
		verb := " used"
		if h.Limit == LimitMaxOutputBytes || h.Limit == LimitFileSize {
			verb = " written"
		}
		return h.Limit + ": " + inBytes(h.Current) + verb + ", bound " + inBytes(h.Bound)
	case UnitSeconds:
		return fmt.Sprintf("%s: %d s used, bound %d s", h.Limit, h.Current, h.Bound)
	case UnitMilliseconds:
		return fmt.Sprintf("%s: %d ms used, bound %d ms", h.Limit, h.Current, h.Bound)
	}
	return fmt.Sprintf("%s: %d %s, bound %d", h.Limit, h.Current, h.Unit, h.Bound)
}

// Hint returns what the user can do about a limit that settings have set.
func (h LimitHit) Hint() string { return h.HintFor(h.Limit) }

// HintFor is Hint for a limit that was not set by settings. set is the name by
// which the user knows it, such as that of a flag.
func (h LimitHit) HintFor(set string) string {
	switch h.Limit {
	case LimitTimeout:
		return "raise " + set + ", or do less in one command"
	case LimitMaxOutputBytes:
		return "raise " + set + ", or send the output to a file"
	case LimitDisk:
		return "remove files there, or give it more room (docker.homeSize for a home on the disk, docker.tmpfs, workspaceQuota)"
	case LimitOpenFiles:
		return "raise " + set + ", or close files"
	}
	return "raise " + set + ", or use less"
}

// inBytes writes a number of bytes in the largest unit of which there is at
// least one, with one digit behind the point where it is not whole.
func inBytes(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		switch {
		case n < u.size:
		case n%u.size == 0:
			return strconv.FormatInt(n/u.size, 10) + " " + u.name
		default:
			return strconv.FormatFloat(float64(n)/float64(u.size), 'f', 1, 64) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

// WaitedLong is the time from which on [Waited] is worth a line for people.
const WaitedLong = time.Second

// Waited is what connections of a command waited for their turn, because the sandbox
// had as many open as network.limits.connections allows.
type Waited struct {
	Connections int   `json:"connections"`
	Millis      int64 `json:"waitedMs"` // of all together
}

// Long reports whether the wait was long enough to report.
func (w *Waited) Long() bool {
	return w != nil && time.Duration(w.Millis)*time.Millisecond >= WaitedLong
}

// String returns the wait in one line for people.
func (w Waited) String() string {
	text := strconv.Itoa(w.Connections) + " connections"
	if w.Connections == 1 {
		text = "1 connection"
	}
	return "network.limits.connections made " + text + " wait for " + (time.Duration(w.Millis) * time.Millisecond).Round(100*time.Millisecond).String() + " in all"
}

// Hint returns what the user can do about the wait.
func (w Waited) Hint() string { return "raise it in the settings, or open fewer connections at a time" }
