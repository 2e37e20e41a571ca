//go:build linux

package server

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// An Observer looks after the listeners of one sandbox. It is safe for
// concurrent use.
type notifierObserver struct {
	judge judge
	since time.Time     // no socket of the sandbox is older
	files chan struct{} // holds a token for each file that is being opened
	calls *callServer   // nil where commands make their calls themselves
}

// MaxOpening bounds the files of sockets that are opened at once.
const maxOpening = 2

// New returns an Observer for a sandbox whose commands may write below
// writable, as far as mounts let them.
func newNotifier(writable []string) (*notifierObserver, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	j, err := newJudge(writable, mounts)
	if err != nil {
		return nil, err
	}
	// The kernel stamps files by a clock that lags a tick behind.
	return &notifierObserver{judge: j, since: time.Now().Add(-50 * time.Millisecond), files: make(chan struct{}, maxOpening)}, nil
}

// Blind reports whether the kernel keeps us from reading what commands have in
// their memory, by the setting of Yama that asks for a capability.
func blindNotifier() bool {
	b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return err == nil && len(b) > 0 && b[0] >= '2'
}

// A Sighting is what was read of a call while it waited.
type notifierSighting struct {
	pid     int
	program string
	asks    []notifierAsk
}

// An ask is one path of a call.
type notifierAsk struct {
	kind   kind
	path   string // absolute, as the program has it
	follow bool
}

// Take takes the next call that waits at a listener, reads what it is about,
// calls seen if there is something to find out, and then lets the call go on.
// It returns nil for a call that is about nothing. Without a call it returns
// ErrNone, and io.EOF when no process is left that could make one.
//
// A call that makes a process goes on when fork, which gets the number of the
// calling thread, returns true, and fails with EAGAIN otherwise, as at the
// kernel's own bounds. A nil Observer looks at no other calls.
func (o *notifierObserver) Take(listener int, fork func(thread int) bool, seen func()) (*notifierSighting, error) {
	var n notice
	if err := take(listener, &n); err != nil {
		return nil, err
	}
	switch {
	case isFork(n.arch, n.number):
		if fork(int(n.pid)) {
			letGo(listener, &n)
		} else {
			answer(listener, n.id, unix.EAGAIN)
		}
		return nil, nil
	case o == nil:
		letGo(listener, &n)
		return nil, nil
	case o.calls != nil && o.calls.serves(n.number):
		own, err := unix.FcntlInt(uintptr(listener), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			answer(listener, n.id, unix.EAGAIN)
			return nil, nil
		}
		go func() {
			defer unix.Close(own)
			o.calls.serve(own, &n)
		}()
		return nil, nil
	case n.number == unix.SYS_CONNECT:
		own, err := unix.FcntlInt(uintptr(listener), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			answer(listener, n.id, unix.EAGAIN)
			return nil, nil
		}
		go func() {
			defer unix.Close(own)
			o.connect(own, n)
		}()
		return nil, nil
	case o.judge.removesPlaceholder(&n):
		answer(listener, n.id, 0)
		return nil, nil
	}
	s := o.look(&n)
	if s != nil {
		seen()
	}
	if !letGo(listener, &n) && s != nil {
		s.asks = nil
	}
	return s, nil
}

// look reads what a call is about.
func (o *notifierObserver) look(n *notice) *notifierSighting {
	s := &notifierSighting{pid: int(n.pid)}
	for _, t := range targetsOf(n.number) {
		a, ok := readAsk(n, t)
		if !ok {
			continue
		}
		s.asks = append(s.asks, a)
	}
	if len(s.asks) == 0 {
		return nil
	}
	s.program = comm(s.pid) // its process may be gone before we have found out what it is about
	return s
}

// readAsk reads one path of a call.
func readAsk(n *notice, t target) (notifierAsk, bool) {
	a := notifierAsk{kind: t.kind}
	flags := flagsOf(n, t)
	a.follow = t.nofollow != never && uint32(flags)&t.nofollow == 0
	if t.kind == notifierOpen {
		var ok bool
		if a.kind, ok = kindOfOpen(flags); !ok {
			return a, false
		}
		a.follow = a.follow && a.kind != notifierCreate
	}
	name, ok := text(int(n.pid), n.args[t.path])
	if !ok || name == "" { // nothing, or an open file
		return a, false
	}
	if name[0] == '/' {
		a.path = name
		return a, t.kind != notifierOpen || !everywhere(name)
	}
	base := "/proc/" + strconv.Itoa(int(n.pid)) + "/cwd"
	if t.dir != absent && int32(n.args[t.dir]) != unix.AT_FDCWD {
		base = "/proc/" + strconv.Itoa(int(n.pid)) + "/fd/" + strconv.Itoa(int(int32(n.args[t.dir])))
	}
	folder, ok := readlink(base)
	if !ok || folder[0] != '/' {
		return a, false
	}
	a.path = join(folder, name)
	return a, true
}

// everywhere reports whether a path is one that anybody may open for writing in
// any sandbox, and that is opened all the time.
func everywhere(p string) bool { return p == os.DevNull || isDescriptor(p) }

// isDescriptor reports whether a path is that of an open file, /proc/PID/fd/N,
// which [find] finds nowhere that anything is refused. Each line of a shell
// opens some of them.
func isDescriptor(p string) bool {
	rest, ok := strings.CutPrefix(p, "/proc/")
	if !ok {
		return false
	}
	pid, fd, ok := strings.Cut(rest, "/fd/")
	return ok && isNumber(pid) && isNumber(fd)
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// flagsOf are the flags of a call.
func flagsOf(n *notice, t target) uint64 {
	if t.flags == absent {
		return 0
	}
	return uint64(uint32(n.args[t.flags]))
}

// kindOfOpen says what opening a file with these flags does. False means that
// nothing is changed.
func kindOfOpen(flags uint64) (kind, bool) {
	const tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY
	switch {
	case flags&unix.O_PATH != 0:
		return change, false
	case flags&tmpfile != 0:
		return change, true // the folder
	case flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		return notifierCreate, true
	case flags&unix.O_CREAT != 0:
		return notifierPut, true
	case flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_TRUNC|unix.O_APPEND) != 0:
		return change, true
	}
	return change, false
}

// Resolve finds out which paths of s the sandbox refuses. It may take as long
// as a slow file system.
func (o *notifierObserver) Resolve(s *notifierSighting) []wire.Attempt {
	var found []wire.Attempt
	for _, a := range s.asks {
		at, ok := findNotifier(a.path, a.follow)
		if ok && a.kind == remove && !a.kind.sensible(at) {
			break // then nothing is put elsewhere either
		}
		if !ok || len(at.path) >= maxPath || !o.judge.refuses(a.kind, at.path) || !a.kind.sensible(at) {
			continue
		}
		found = append(found, wire.Attempt{PID: uint32(s.pid), Path: at.path, Program: s.program})
	}
	return found
}

// sensible reports whether a call could have done anything at a place: one that
// fails for another reason was not stopped by the sandbox.
func (k kind) sensible(at place) bool {
	switch {
	case at.closed:
		return true
	case k == notifierCreate:
		return !at.exists
	case k == remove || k == change:
		return at.exists
	}
	return true
}
