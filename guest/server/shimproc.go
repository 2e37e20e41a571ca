//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// shimEnd bounds how long a shim that was ended may take to be gone.
const shimEnd = 10 * time.Second

// shimBirth bounds how long a new shim may take to set its filter.
const shimBirth = 10 * time.Second

// A shimProc is the guest's handle to one shim process. One command at a
// time owns it.
type shimProc struct {
	pid     int
	ctl     int      // our end of its socket; not polled: it is written to only
	reports *os.File // our end of its pipe
	once    sync.Once
	// outputDigest receives what the command's processes try. Nil: it is not
	// reported.
	outputDigest atomic.Pointer[outputDigest]
	counts       bool                  // its processes ask before they make others
	forks        atomic.Pointer[forks] // decides about new processes; nil: all are allowed
}

// A nursery makes shims and knows which processes are shims.
type nursery struct {
	maker        *shimMaker
	callNotifier *callNotifier // nil: attempts are not observed; set before a shim is finished

	births sync.Mutex // of shims with a filter

	mu   sync.Mutex            // held over fork, so that the reaper meets no unknown shim
	live map[int]chan struct{} // closed when the shim was reaped
}

func newNursery(maker *shimMaker) *nursery {
	return &nursery{maker: maker, live: map[int]chan struct{}{}}
}

// is reports whether pid is a living shim.
func (n *nursery) is(pid int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live[pid] != nil
}

// await waits until the shim pid was reaped, so that its children are ours.
// The end of its socket comes a little earlier.
func (n *nursery) await(pid int) {
	n.mu.Lock()
	reaped := n.live[pid]
	n.mu.Unlock()
	if reaped == nil {
		return
	}
	select {
	case <-reaped:
	case <-time.After(shimEnd):
	}
}

// kill ends a shim that does not do its work, unless it has been reaped.
func (n *nursery) kill(pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live[pid] != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// start makes a shim, which takes a request at once. With counts its processes
// ask before they make others.
func (n *nursery) start(counts bool) (*shimProc, error) {
	s, err := n.begin(counts)
	if err == nil {
		err = n.finish(s)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// begin starts a shim. The caller has to finish it.
func (n *nursery) begin(counts bool) (*shimProc, error) {
	control, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var reports [2]int
	if err := unix.Pipe2(reports[:], unix.O_CLOEXEC); err != nil {
		unix.Close(control[0])
		unix.Close(control[1])
		return nil, err
	}
	defer unix.Close(reports[1])
	err = unix.SetNonblock(reports[0], true)
	s := &shimProc{ctl: control[0], reports: os.NewFile(uintptr(reports[0]), "stage"), counts: counts}
	if err == nil {
		s.pid, err = n.fork(control[1], reports[1], counts)
	}
	unix.Close(control[1])
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// finish waits until a shim that was begun takes a request, and lets go of it
// when it does not.
func (n *nursery) finish(s *shimProc) error {
	err := n.restricted(s)
	if err != nil {
		s.close()
	}
	return err
}

// restricted waits until a new shim has its filter. It is a wait in a system
// call, for what a birth takes, and of one goroutine at a time.
func (n *nursery) restricted(s *shimProc) error {
	if !n.maker.Filters() && !s.counts {
		return nil
	}
	n.births.Lock()
	defer n.births.Unlock()
	limit := unix.NsecToTimeval(shimBirth.Nanoseconds())
	if err := unix.SetsockoptTimeval(s.ctl, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return err
	}
	listener, err := n.maker.AwaitFilter(s.ctl, s.counts)
	if err != nil || listener < 0 {
		return err
	}
	return n.callNotifier.open(s, listener)
}

func (n *nursery) fork(control, reports int, counts bool) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pid, err := n.maker.Fork(control, reports, counts)
	if err == nil {
		n.live[pid] = make(chan struct{})
	}
	return pid, err
}

// errUnsent means that the shim has not seen the request.
var errUnsent = errors.New("the stage did not take the request")

// errStuck means that the shim has seen a part of the request.
var errStuck = errors.New("the stage does not take the request")

// sendAgain is the time between two attempts to send more of a request.
const sendAgain = 100 * time.Microsecond

// request sends a command with its three streams. Only where the body is
// larger than what a socket holds it waits for the shim, at most for
// launchWithin, and not in a system call: that would take a thread.
func (s *shimProc) request(body []byte, fds [3]int) error {
	s.wake()
	const flags = unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT
	sent, err := unix.SendmsgN(s.ctl, body, unix.UnixRights(fds[0], fds[1], fds[2]), nil, flags)
	if err != nil || sent == 0 {
		return errUnsent
	}
	for deadline := time.Now().Add(launchWithin); sent < len(body); {
		n, err := unix.SendmsgN(s.ctl, body[sent:], nil, nil, flags)
		switch {
		case err == nil:
			sent += n
		case err == unix.EINTR:
		case err != unix.EAGAIN:
			return err
		case time.Now().After(deadline):
			return errStuck
		default:
			time.Sleep(sendAgain)
		}
	}
	return nil
}

// report waits for the shim's next report.
func (s *shimProc) report() (shimReport, error) {
	var b [reportLen]byte
	if _, err := io.ReadFull(s.reports, b[:]); err != nil {
		return shimReport{}, err
	}
	return decodeReport(b[:]), nil
}

// reportWithin is report with a bound.
func (s *shimProc) reportWithin(limit time.Duration) (shimReport, error) {
	if err := s.reports.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return shimReport{}, err
	}
	r, err := s.report()
	if err != nil {
		return r, err
	}
	return r, s.reports.SetReadDeadline(time.Time{})
}

// wake continues a shim that another process has stopped: one of the same user
// without Landlock around it, such as an engine's exec.
func (s *shimProc) wake() {
	_ = unix.Kill(s.pid, unix.SIGCONT) // gone already is met elsewhere
}

// close lets go of the shim, which then ends by itself.
func (s *shimProc) close() {
	s.once.Do(func() {
		unix.Close(s.ctl)
		s.reports.Close()
	})
}
