//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/server/stage"
	"golang.org/x/sys/unix"
)

// stageEnd bounds how long a stage that was ended may take to be gone.
const stageEnd = 10 * time.Second

// A stageProc is the guest's handle to one stage process. One command at a
// time owns it.
type stageProc struct {
	pid int
	ctl *os.File // our end of its socket
}

// A nursery makes stages and knows which processes are stages.
type nursery struct {
	maker *stage.Maker

	mu   sync.Mutex            // held over fork, so that the reaper meets no unknown stage
	live map[int]chan struct{} // closed when the stage was reaped
}

func newNursery(maker *stage.Maker) *nursery {
	return &nursery{maker: maker, live: map[int]chan struct{}{}}
}

// is reports whether pid is a living stage.
func (n *nursery) is(pid int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live[pid] != nil
}

// await waits until the stage pid was reaped, so that its children are ours.
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
	case <-time.After(stageEnd):
	}
}

// kill ends a stage that does not do its work, unless it has been reaped.
func (n *nursery) kill(pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live[pid] != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// start makes a stage, which takes a request at once.
func (n *nursery) start() (*stageProc, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pair[1])
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	s := &stageProc{ctl: os.NewFile(uintptr(pair[0]), "stage")}
	if s.pid, err = n.fork(pair[1]); err != nil {
		s.ctl.Close()
		return nil, err
	}
	return s, nil
}

func (n *nursery) fork(control int) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pid, err := n.maker.Fork(control)
	if err == nil {
		n.live[pid] = make(chan struct{})
	}
	return pid, err
}

// errUnsent means that the stage has not seen the request.
var errUnsent = errors.New("the stage did not take the request")

// request sends a command with its three streams.
func (s *stageProc) request(body []byte, fds [3]int) error {
	// Where commands can signal a stage, one may have stopped it.
	_ = unix.Kill(s.pid, unix.SIGCONT)
	rights := unix.UnixRights(fds[0], fds[1], fds[2])
	conn, err := s.ctl.SyscallConn()
	if err != nil {
		return errUnsent
	}
	var sent int
	var sendErr error
	err = conn.Write(func(fd uintptr) bool {
		sent, sendErr = unix.SendmsgN(int(fd), body, rights, nil, unix.MSG_NOSIGNAL)
		return sendErr != unix.EAGAIN
	})
	if err != nil || sendErr != nil || sent == 0 {
		return errUnsent
	}
	if sent < len(body) {
		_, err = s.ctl.Write(body[sent:])
	}
	return err
}

// report waits for the stage's next report.
func (s *stageProc) report() (stage.Report, error) {
	var b [stage.ReportLen]byte
	if _, err := io.ReadFull(s.ctl, b[:]); err != nil {
		return stage.Report{}, err
	}
	return stage.DecodeReport(b[:]), nil
}

// reportWithin is report with a bound.
func (s *stageProc) reportWithin(limit time.Duration) (stage.Report, error) {
	if err := s.ctl.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return stage.Report{}, err
	}
	r, err := s.report()
	if err != nil {
		return r, err
	}
	return r, s.ctl.SetReadDeadline(time.Time{})
}

// close lets go of the stage, which then ends by itself.
func (s *stageProc) close() { s.ctl.Close() }
