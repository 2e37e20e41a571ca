//go:build linux

// Procs: this part of the package looks at processes of the host: which one a number means, who
// descends from it, what that costs, and how to end it for certain.

package launch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/provider"
)

// An ID names one process of one boot for good: numbers are used again, a
// number with its start time is not.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
	Boot  string `json:"boot"`  // the kernel's random id of the boot
}

// Of returns the ID of the running process pid.
func Of(pid int) (ID, error) {
	st, err := statOf(pid)
	if err != nil {
		return ID{}, err
	}
	boot, err := bootID()
	return ID{PID: pid, Start: st.start, Boot: boot}, err
}

// Alive reports whether the process still runs; a zombie does not. Where that
// cannot be seen, as by who has no descriptor left to look with, it is an error
// and not "no": what is taken for dead is neither ended nor kept.
func (id ID) Alive() (bool, error) {
	if id.PID <= 0 {
		return false, nil
	}
	st, err := statOf(id.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return false, nil
	case err != nil:
		return false, err
	case st.start != id.Start || st.state == 'Z' || st.state == 'X':
		return false, nil
	}
	boot, err := bootID()
	return err == nil && boot == id.Boot, err
}

// Kill sends SIGKILL to the process, if it is still that one, and waits until
// it has ended or ctx does. One that has gone is no error; one of which that
// cannot be seen is.
func (id ID) Kill(ctx context.Context) error {
	if id.PID <= 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	// The descriptor is of whatever had the number when it was opened.
	if alive, unseen := id.Alive(); unseen != nil || !alive {
		if st, gone := statOf(id.PID); unseen == nil && err == nil && gone == nil && st.start == id.Start && st.state == 'Z' {
			return awaitEnd(ctx, fd) // its first thread has ended, which says nothing of the others
		}
		return unseen
	}
	if err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return awaitEnd(ctx, fd)
}

// awaitEnd waits until the process behind the descriptor has ended.
func awaitEnd(ctx context.Context, fd int) error {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// stat is what /proc/PID/stat says of a process.
type stat struct {
	pid, parent int
	state       byte
	ticks       uint64 // processor time, that of ended and waited-for children included
	threads     int64
	start       uint64
	pages       int64 // resident
}

func statOf(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	st, ok := parseStat(b)
	if !ok {
		return stat{}, fs.ErrInvalid
	}
	return st, nil
}

// parseStat reads the line of /proc/PID/stat, see proc(5). The name in it is
// the program's own choice and may hold anything; it ends at the last
// parenthesis.
func parseStat(b []byte) (stat, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return stat{}, false
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 22 || len(f[0]) != 1 {
		return stat{}, false
	}
	st := stat{state: f[0][0]}
	var err error
	if st.pid, err = strconv.Atoi(strings.TrimSpace(string(b[:open]))); err != nil {
		return stat{}, false
	}
	if st.parent, err = strconv.Atoi(f[1]); err != nil {
		return stat{}, false
	}
	for _, i := range []int{11, 12, 13, 14} { // utime stime cutime cstime
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return stat{}, false
		}
		st.ticks += uint64(max(n, 0))
	}
	var errs [3]error
	st.threads, errs[0] = strconv.ParseInt(f[17], 10, 64)
	st.start, errs[1] = strconv.ParseUint(f[19], 10, 64)
	st.pages, errs[2] = strconv.ParseInt(f[21], 10, 64)
	return st, errors.Join(errs[:]...) == nil
}

// A Cost is what a tree of processes costs.
type procsCost struct {
	CPU     time.Duration // of those that live, and of those that ended and were waited for
	Memory  int64         // resident bytes; pages that several share count for each
	Threads int64

	// What was read from disks and written to them, in bytes, by those that live
	// and those that were waited for. It is 0 where the kernel does not say it to
	// this user.
	DiskRead, DiskWritten int64
}

// ticksPerSecond is the unit of processor time in /proc; Linux has never had
// another one there.
const ticksPerSecond = 100

// Tree sums up the process root and all its descendants.
func CostOf(root int) (procsCost, error) {
	tree, err := treeStats(root)
	if err != nil {
		return procsCost{}, err
	}
	var c procsCost
	page := int64(os.Getpagesize())
	for _, st := range tree {
		c.CPU += time.Duration(st.ticks) * (time.Second / ticksPerSecond)
		c.Memory += st.pages * page
		c.Threads += st.threads
		read, written := diskOf(st.pid)
		c.DiskRead += read
		c.DiskWritten += written
	}
	return c, nil
}

// diskOf returns the bytes that the process pid, and those of its children that
// were waited for, have read from disks and written to them, see proc_pid_io(5).
func diskOf(pid int) (read, written int64) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/io")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case name == "read_bytes":
			read = n
		case name == "write_bytes":
			written = n
		}
	}
	return read, written
}

// ProcessesOf returns the process root and all its descendants, with the words
// of their command lines, at most maxCmdline bytes of each. A process that has
// ended meanwhile, or whose command line cannot be read, has none.
func ProcessesOf(root int) ([]provider.RunningProcess, error) {
	tree, err := treeStats(root)
	if err != nil {
		return nil, err
	}
	out := make([]provider.RunningProcess, len(tree))
	for i, st := range tree {
		out[i] = provider.RunningProcess{PID: st.pid, Parent: st.parent, Started: st.start, Args: cmdline(st.pid)}
	}
	return out, nil
}

// maxCmdline is how many bytes of a command line are read. A process can make
// its own as long as it wants.
const maxCmdline = 4 << 10

func cmdline(pid int) []string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxCmdline)) // a process that has ended has none
	text := strings.TrimRight(string(b), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

// treeStats returns the process root and all its descendants; [fs.ErrNotExist]
// where there is no such process.
func treeStats(root int) ([]stat, error) {
	all, err := snapshot()
	if err != nil {
		return nil, err
	}
	children := make(map[int][]stat, len(all))
	var todo []stat
	for _, st := range all {
		if st.pid == root {
			todo = append(todo, st)
		} else {
			children[st.parent] = append(children[st.parent], st)
		}
	}
	if len(todo) == 0 {
		return nil, fs.ErrNotExist
	}
	var tree []stat
	for len(todo) > 0 {
		st := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1], children[st.pid]...)
		delete(children, st.pid) // a picture taken over time may hold a circle
		tree = append(tree, st)
	}
	return tree, nil
}

func snapshot() ([]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []stat
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if st, err := statOf(pid); err == nil {
				all = append(all, st)
			}
		}
	}
	return all, nil
}

// Child returns the ID of the process pid, which must be a child of parent.
func childProcs(pid, parent int) (ID, error) {
	id, err := Of(pid)
	if err != nil {
		return ID{}, err
	}
	if st, err := statOf(pid); err != nil || st.parent != parent || st.start != id.Start {
		return ID{}, fs.ErrNotExist
	}
	return id, nil
}
