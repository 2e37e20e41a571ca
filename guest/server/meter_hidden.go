//go:build linux

package server

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// A hidden is what a process has had done by children whose end it ignores
// (SIGCHLD, SA_NOCLDWAIT): the kernel adds their time to no process. Those that
// live from one look to the next are known. Shorter ones are met by chance: one
// that keeps a processor busy for a tenth of the time between two looks is met
// at every tenth. So each that was met once, running, stands for as much as
// lies between two looks, and on the whole that is what they have used; less
// the share of it in which they had to wait for a processor.
//
// To a process that waits for its children the kernel adds what they have used,
// and nothing is hidden: that is subtracted, and so is as much as chance may
// have added.
type hidden struct {
	any      bool
	begin    time.Duration // what the process had been given for its children at first
	stand    time.Duration // for which those stand that were met
	seen     time.Duration // what was seen of them, which counts already
	wait     time.Duration // for how long they had waited for a processor by then
	vary     float64       // the variance of stand, in square seconds
	reported time.Duration // what is certain to have been hidden
}

const (
	// deviations is how many standard deviations are chance: one of a thousand
	// processes that hide nothing seems to have hidden something.
	deviations = 3
	// longestStand bounds what one child stands for.
	longestStand = 100 * time.Millisecond
)

// meet takes the short child e that has vanished, when the looks were between
// apart. The process had been given before for its children at the look before,
// and now has been given now.
func (h *hidden) meet(e *entry, between, before, now time.Duration) {
	if !h.any {
		h.any, h.begin = true, before
	}
	between = min(between, longestStand)
	h.stand += between
	h.seen += e.total()
	h.wait += e.wait
	h.vary += between.Seconds() * between.Seconds()
	sure := h.stand.Seconds() - deviations*math.Sqrt(h.vary)
	if both := h.seen + h.wait; both > 0 && sure > 0 {
		used := time.Duration(sure * float64(h.seen) / float64(both) * float64(time.Second))
		h.reported = max(h.reported, used-(now-h.begin)-h.seen)
	}
}

// waited is for how long a process has waited for a processor while it had
// something to do. Of one that has just gone it is not known.
func waited(pid int) (wait time.Duration, ok bool) {
	var buf [meterStatSize]byte
	n := readFile("/proc/"+strconv.Itoa(pid)+"/schedstat", buf[:])
	wait, _, ok = parseWaited(buf[:n])
	return wait, ok
}

// tellsWaits reports whether the kernel counts that. Without it nothing can be
// said of how long a process ran by meeting it.
func tellsWaits() bool {
	var buf [meterStatSize]byte
	n := readFile("/proc/self/schedstat", buf[:])
	_, slices, ok := parseWaited(buf[:n])
	return ok && slices > 0
}

// parseWaited reads "RAN WAITED SLICES", the times in nanoseconds.
func parseWaited(b []byte) (wait time.Duration, slices uint64, ok bool) {
	words := bytes.Fields(b)
	if len(words) != 3 {
		return 0, 0, false
	}
	n, err1 := strconv.ParseUint(string(words[1]), 10, 62)
	slices, err2 := strconv.ParseUint(string(words[2]), 10, 64)
	return time.Duration(n), slices, err1 == nil && err2 == nil
}
