//go:build linux

// This file finds and ends all descendants of a process.
//
// The root of a tree is a subreaper (see prctl(2), PR_SET_CHILD_SUBREAPER):
// a descendant whose parent dies becomes the root's child, so double forks
// and setsid do not lead out of the tree. What is read from /proc is a
// picture that is old when it is looked at; [Kill] therefore repeats itself
// until the root says that it has no children left.

package server

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A Proc is one process as /proc/PID/stat shows it.
type proctreeProc struct {
	PID    int
	Parent int
	State  byte // as in proc(5): 'Z' is a zombie; or [Headless]
}

// Headless is the State of a process whose first thread has ended while others
// go on. /proc shows it as a zombie with more than one thread: nothing of it is
// to be seen there, but it runs, forks, and is ended like any other.
const proctreeHeadless = 'H'

// ended reports whether p is a zombie or less.
func (p proctreeProc) ended() bool { return p.State == 'Z' || p.State == 'X' }

// Snapshot returns all processes of the pid namespace of /proc.
func snapshotProctree() ([]proctreeProc, error) {
	var all []proctreeProc
	buf := make([]byte, proctreeStatSize)
	err := eachPID(func(pid int) {
		if p, ok := readProctree(pid, buf); ok {
			all = append(all, p)
		}
	})
	return all, err
}

const (
	proctreeStatSize = 1024    // more than a stat file has
	direntsSize      = 4 << 10 // about a hundred processes at a time
)

// EachPID calls visit with the number of every process. The kernel looks
// for the next processes as the folder is read on, in the order of their
// numbers, so that one which was started meanwhile is usually met too.
func eachPID(visit func(pid int)) error {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := make([]byte, direntsSize)
	var names []string
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil {
				visit(pid)
			}
		}
	}
}

// read reads the stat file of pid with plain system calls: a walk over a
// fork bomb has to be fast.
func readProctree(pid int, buf []byte) (proctreeProc, bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return proctreeProc{}, false
	}
	n, err := unix.Read(fd, buf)
	unix.Close(fd)
	if err != nil {
		return proctreeProc{}, false
	}
	p, ok := parseProctree(buf[:n])
	return p, ok && p.PID == pid
}

// Running reports whether the process pid runs or waits for a processor, and
// for nothing else. What cannot be read does not.
func runningProctree(pid int) bool {
	p, ok := readProctree(pid, make([]byte, proctreeStatSize))
	return ok && p.State == 'R'
}

// parse reads "PID (comm) STATE PPID …". The name is chosen by the program
// and may hold anything, so it ends at the last parenthesis.
func parseProctree(b []byte) (proctreeProc, bool) {
	open, closing := -1, -1
	for i, c := range b {
		if c == '(' && open < 0 {
			open = i
		}
		if c == ')' {
			closing = i
		}
	}
	if open < 2 || closing < open || closing+4 >= len(b) {
		return proctreeProc{}, false
	}
	pid, err := strconv.Atoi(string(b[:open-1]))
	if err != nil {
		return proctreeProc{}, false
	}
	rest := b[closing+4:]
	end := 0
	for end < len(rest) && rest[end] != ' ' {
		end++
	}
	parent, err := strconv.Atoi(string(rest[:end]))
	p := proctreeProc{PID: pid, Parent: parent, State: b[closing+2]}
	if p.State == 'Z' && threads(rest) > 1 {
		p.State = proctreeHeadless
	}
	return p, err == nil
}

// threads is the number of threads in what follows the state in a stat file,
// and 0 where the file does not say.
func threads(rest []byte) int {
	const field = 16 // from the one after the state
	words := bytes.Fields(rest)
	if len(words) <= field {
		return 0
	}
	n, _ := strconv.Atoi(string(words[field]))
	return n
}

// Descendants returns the processes of all below root, without root and without
// the subtrees whose top is in except. Zombies are left out; their children
// have another parent already.
func descendantsProctree(all []proctreeProc, root int, except func(pid int) bool) []proctreeProc {
	children := make(map[int][]proctreeProc, len(all))
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []proctreeProc
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, p := range children[queue[0]] {
			if seen[p.PID] || except != nil && except(p.PID) {
				continue
			}
			seen[p.PID] = true
			if !p.ended() {
				found = append(found, p)
			}
			queue = append(queue, p.PID)
		}
	}
	return found
}

// A Tree is what Kill and Signal work on.
type proctreeTree struct {
	Root   int                // the subreaper; never signalled
	Except func(pid int) bool // children of the root that are not to be touched; may be nil
	Gone   <-chan struct{}    // closed when the root has no children left; nil means to trust /proc
}

// ErrAlive is returned by Kill when the time was not enough.
var errAlive = errors.New("processes are left")

// lastWait is how long Kill waits after the last round for what it has killed.
const lastWait = time.Second

// Kill ends every process of the tree within the time limit, or little more.
// It stops them first, round after round until no new one shows up: a stopped
// process cannot fork, and it holds its place under the process limit, so that
// a fork bomb runs out of room instead of refilling it. One more round is made
// when the time is over: it may have passed while we ourselves did not run.
func killProctree(t proctreeTree, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		last := time.Now().After(deadline)
		if last {
			wait = lastWait
		}
		left, err := freeze(t, deadline)
		if err != nil && last {
			return err
		}
		for _, p := range left {
			kill(p, t.Root)
		}
		if err == nil && len(left) == 0 && t.Gone == nil {
			return nil
		}
		select {
		case <-t.Gone:
			return nil
		case <-time.After(wait):
		}
		if last {
			return errAlive
		}
	}
}

// kill ends p, unless its number belongs to another process by now: p was seen
// up to seconds ago, and may have been ended by another process of its tree
// since. A child that was adopted by a process inside the tree is passed over,
// too; the next round knows its parent.
func kill(p proctreeProc, root int) {
	now, ok := readProctree(p.PID, make([]byte, proctreeStatSize))
	if ok && (now.Parent == p.Parent || now.Parent == root) {
		_ = unix.Kill(p.PID, unix.SIGKILL) // gone already is fine
	}
}

// freeze stops the tree and returns its processes.
func freeze(t proctreeTree, deadline time.Time) ([]proctreeProc, error) {
	stopped := map[int]proctreeProc{}
	for {
		all, news, err := stopKnown(t, stopped)
		if err != nil {
			return nil, err
		}
		tree := descendantsProctree(all, t.Root, t.Except)
		for _, p := range tree {
			if _, ok := stopped[p.PID]; !ok {
				news = true
				stop(p, stopped)
			}
		}
		if !news || time.Now().After(deadline) {
			return tree, nil
		}
	}
}

// stopKnown walks over all processes and stops those whose parent is known
// to belong to the tree as it meets them: the processes of a fork bomb live
// so shortly that most of a list would be gone once it is complete. What is
// stopped stays in its place, and is not looked at again. Both matter
// because under a fork bomb we get one small share of the processor.
func stopKnown(t proctreeTree, stopped map[int]proctreeProc) (all []proctreeProc, news bool, err error) {
	buf := make([]byte, proctreeStatSize)
	err = eachPID(func(pid int) {
		if p, ok := stopped[pid]; ok {
			all = append(all, p)
			return
		}
		p, ok := readProctree(pid, buf)
		if !ok {
			return
		}
		all = append(all, p)
		_, below := stopped[p.Parent]
		if (below || p.Parent == t.Root) && !p.ended() && (t.Except == nil || !t.Except(pid)) {
			news = true
			stop(p, stopped)
		}
	})
	return all, news, err
}

func stop(p proctreeProc, stopped map[int]proctreeProc) {
	stopped[p.PID] = p
	_ = unix.Kill(p.PID, unix.SIGSTOP) // gone already is fine
}

// Signal sends sig once to every process of the tree that a snapshot shows.
func signalProctree(t proctreeTree, sig unix.Signal) error {
	all, err := snapshotProctree()
	if err != nil {
		return err
	}
	for _, p := range descendantsProctree(all, t.Root, t.Except) {
		_ = unix.Kill(p.PID, sig)
	}
	return nil
}
