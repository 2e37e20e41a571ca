//go:build linux

package stage

import (
	"os"
	"runtime/debug"
	"strconv"

	"github.com/bulkhead-dev/sandbox/guest/server/procname"
	"github.com/bulkhead-dev/sandbox/guest/server/sigs"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A Wear tells how much a stage was used. A stage never collects garbage,
// because that could need a thread when the process limit has none to give,
// so its memory grows by what the requests took, and it is used up at some
// point. The guest and the stage count alike.
type Wear struct {
	commands int
	garbage  int // bytes
}

// Add counts a request whose body has n bytes.
func (w *Wear) Add(n int) {
	w.commands++
	w.garbage += 4 * n
}

// Out reports whether the stage takes no further request.
func (w *Wear) Out() bool { return w.commands >= 512 || w.garbage >= 4<<20 }

// Main runs a stage until the guest lets go of it. It returns the exit code
// of the process.
func Main() int {
	procname.Set()
	debug.SetGCPercent(-1)
	s := &stage{ruleset: newRuleset()}
	if s.ruleset < 0 {
		offerToOOM()
	}
	if err := prepare(); err != nil {
		return 1
	}
	if send(Report{Kind: Ready}) != nil {
		return 1
	}
	for !s.wear.Out() {
		r, err := receive()
		if err != nil {
			return 0
		}
		s.wear.Add(len(r.body))
		if r.base {
			m, err := wire.DecodeStart(r.body)
			if err != nil {
				return 1
			}
			s.base = m
			continue
		}
		if s.run(r) != nil {
			return 1
		}
	}
	return 0 // used up
}

// prepare makes the process unreadable for others of its user, deaf to
// their signals, a subreaper, and keeps what it inherited from its children.
func prepare() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	// gVisor may not have it: see Server.keepsTrees, which says so.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	sigs.IgnoreAll()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// offerToOOM makes this process and all its children the first choice of
// the out-of-memory killer. Where Landlock keeps others away, each child
// does that for itself and the stage stays out of it, see expose.
func offerToOOM() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // best effort
}

type stage struct {
	base    wire.Start // what requests are laid over
	ruleset int
	wear    Wear
}

// run runs one command to the end of its last descendant. An error means
// that the guest is gone.
func (s *stage) run(r request) error {
	pid, failure := s.launch(r)
	for _, fd := range r.fds {
		unix.Close(fd)
	}
	if failure != nil {
		return send(*failure)
	}
	if err := send(Report{Kind: Started, PID: uint32(pid)}); err != nil {
		return err
	}
	exit := awaitProgram(pid)
	if err := send(exit); err != nil || exit.Empty {
		return err
	}
	awaitDescendants()
	return send(Report{Kind: Empty})
}

// awaitProgram reaps until pid has ended, and looks whether it left
// descendants behind.
func awaitProgram(pid int) Report {
	var status unix.WaitStatus
	var usage unix.Rusage
	for {
		got, err := unix.Wait4(-1, &status, unix.WALL, &usage)
		if got == pid {
			break
		}
		if err != nil && err != unix.EINTR {
			// Not possible while the program is our child.
			return Report{Kind: Exited, Empty: true, Status: uint32(unix.SIGKILL)}
		}
	}
	return Report{
		Kind:   Exited,
		Empty:  reapEnded(),
		Status: uint32(status),
		User:   uint64(usage.Utime.Nano()),
		System: uint64(usage.Stime.Nano()),
		MaxRSS: uint64(usage.Maxrss) << 10,
	}
}

// reapEnded reaps what has ended and reports whether nothing is left.
func reapEnded() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WALL|unix.WNOHANG, nil)
		switch {
		case err == unix.ECHILD:
			return true
		case err == nil && pid == 0:
			return false
		}
	}
}

// awaitDescendants reaps until there is no child left.
func awaitDescendants() {
	for {
		if _, err := unix.Wait4(-1, nil, unix.WALL, nil); err == unix.ECHILD {
			return
		}
	}
}

func (s *stage) launch(r request) (int, *Report) {
	m, err := wire.DecodeStart(r.body)
	if err != nil {
		return 0, failed(StepRequest, unix.EINVAL)
	}
	p, failure := newPlan(m, s.base, r.fds, s.ruleset)
	if failure != nil {
		return 0, failure
	}
	return start(p)
}
