//go:build linux

// This file counts what the processes of a command use together: processor
// time, memory, processes, and the open files of the one that has the most.
//
// A command's processes are the descendants of its shim (proctree.go says why
// that is all of them). What is counted is read from /proc, in a [Table] of all
// processes that serves every command at once, so that it costs the same for
// one command as for many.

package server

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of processor time in /proc. The kernel reports hundredths of
// a second to user space on every architecture that we know.
const tick = 10 * time.Millisecond

// statSize is more than a stat file has.
const meterStatSize = 1024

// A stat is one process as /proc/PID/stat shows it. One that has ended and was
// not waited for is a process too.
type stat struct {
	pid, parent int
	start       uint64 // ticks since boot: tells two processes of one number apart
	own         uint64 // ticks of processor time, of all its threads
	reaped      uint64 // the same of its children that it has waited for, and of theirs
	system      uint64 // the part of own in the kernel
	reapedSys   uint64 // the part of reaped in the kernel
	running     bool   // or about to be
	ended       bool   // a zombie, by its first thread
	threads     int    // where that has ended, those that there are
	rss         int64  // bytes that are resident, of whatever kind
	other       int    // a thread that goes on, where the first has ended; see proctree.Headless
}

// folder is the one in /proc that tells of the memory and the files of s.
func (s stat) folder() string {
	at := "/proc/" + strconv.Itoa(s.pid)
	if s.other != 0 {
		at += "/task/" + strconv.Itoa(s.other)
	}
	return at
}

// A Table is all processes at one moment, or nearly so. Its zero value is
// empty. It is not safe for concurrent use.
type meterTable struct {
	procs []stat    // in the order of their parents
	at    time.Time // when it was begun to be read
	buf   [meterStatSize]byte
	page  int64
}

// Read fills the table anew.
func (t *meterTable) Read() error {
	t.procs, t.page, t.at = t.procs[:0], int64(os.Getpagesize()), time.Now()
	err := eachPID(func(pid int) {
		if s, ok := t.stat(pid); ok {
			t.procs = append(t.procs, s)
		}
	})
	t.sort()
	return err
}

// Len is the number of processes.
func (t *meterTable) Len() int { return len(t.procs) }

func (t *meterTable) sort() {
	slices.SortFunc(t.procs, func(a, b stat) int { return cmp.Compare(a.parent, b.parent) })
}

func (t *meterTable) stat(pid int) (stat, bool) {
	n := readFile("/proc/"+strconv.Itoa(pid)+"/stat", t.buf[:])
	s, ok := parseMeter(t.buf[:n], t.page)
	if s.ended && s.threads > 1 {
		t.headless(&s)
	}
	return s, ok && s.pid == pid
}

// headless looks for a thread of s that goes on, and takes from it what /proc
// does not tell of s any more. All threads have the same memory.
func (t *meterTable) headless(s *stat) {
	tasks := "/proc/" + strconv.Itoa(s.pid) + "/task"
	list, err := os.ReadDir(tasks)
	if err != nil {
		return // gone
	}
	for _, d := range list {
		n := readFile(tasks+"/"+d.Name()+"/stat", t.buf[:])
		if one, ok := parseMeter(t.buf[:n], t.page); ok && one.rss > 0 {
			s.other, s.rss = one.pid, one.rss
			return
		}
	}
}

// find returns the process pid.
func (t *meterTable) find(pid int) (stat, bool) {
	i := slices.IndexFunc(t.procs, func(s stat) bool { return s.pid == pid })
	if i < 0 {
		return stat{}, false
	}
	return t.procs[i], true
}

// children returns the children of pid.
func (t *meterTable) children(pid int) []stat {
	i, _ := slices.BinarySearchFunc(t.procs, pid, func(s stat, pid int) int { return cmp.Compare(s.parent, pid) })
	end := i
	for end < len(t.procs) && t.procs[end].parent == pid {
		end++
	}
	return t.procs[i:end]
}

// readFile reads what of a file fits into buf, with plain system calls: there
// may be many files to be read. What cannot be read is empty.
func readFile(path string, buf []byte) int {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return 0
	}
	return n
}

// Fields of a stat file, counted from the one after the name.
const (
	fieldState   = 0
	fieldParent  = 1
	fieldUser    = 11
	fieldSystem  = 12
	fieldCUser   = 13
	fieldCSystem = 14
	fieldThreads = 17
	fieldStart   = 19
	fieldRSS     = 21
)

// parse reads "PID (name) STATE PPID …", see proc_pid_stat(5). The name is
// chosen by the program and may hold anything, so it ends at the last
// parenthesis.
func parseMeter(b []byte, page int64) (s stat, ok bool) {
	opening, closing := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if opening < 2 || closing < opening || closing+2 >= len(b) {
		return stat{}, false
	}
	pid, err := strconv.Atoi(string(b[:opening-1]))
	if err != nil || pid <= 0 {
		return stat{}, false
	}
	s.pid = pid
	rest, field := b[closing+2:], 0
	for ; field <= fieldRSS && len(rest) > 0; field++ {
		var word []byte
		word, rest, _ = bytes.Cut(rest, []byte{' '})
		if !s.set(field, word, page) {
			return stat{}, false
		}
	}
	return s, field > fieldRSS
}

// set takes one field of a stat file. What is not a number where there has to
// be one, or is too large to be true, is refused.
func (s *stat) set(field int, word []byte, page int64) bool {
	switch field {
	case fieldState:
		s.running, s.ended = string(word) == "R", string(word) == "Z"
		return true
	case fieldParent, fieldUser, fieldSystem, fieldCUser, fieldCSystem, fieldThreads, fieldStart, fieldRSS:
	default:
		return true
	}
	n, err := strconv.ParseUint(string(word), 10, 48)
	switch field {
	case fieldParent:
		s.parent = int(n)
	case fieldUser:
		s.own += n
	case fieldSystem:
		s.own, s.system = s.own+n, n
	case fieldCUser:
		s.reaped += n
	case fieldCSystem:
		s.reaped, s.reapedSys = s.reaped+n, n
	case fieldThreads:
		if s.ended {
			s.threads = int(n)
		}
	case fieldStart:
		s.start = n
	case fieldRSS:
		s.rss = int64(n) * page
	}
	return err == nil
}
