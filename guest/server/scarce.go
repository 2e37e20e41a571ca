//go:build linux

package server

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A cgroup reads the counters that the kernel keeps for the whole sandbox,
// where they are mounted. A nil file is one that is not there.
type cgroup struct {
	oom, memory, pids, most *os.File
	oomKey, pidsKey         string
}

// openCgroup opens the files of version 2, or of version 1, below root.
func openCgroup(root string) *cgroup {
	open := func(names ...string) *os.File {
		for _, name := range names {
			if f, err := os.Open(root + "/" + name); err == nil {
				return f
			}
		}
		return nil
	}
	return &cgroup{
		oom: open("memory.events", "memory/memory.oom_control"), oomKey: "oom_kill",
		memory: open("memory.max", "memory/memory.limit_in_bytes"),
		pids:   open("pids.events", "pids/pids.events"), pidsKey: "max",
		most: open("pids.max", "pids/pids.max"),
	}
}

// number returns the number after key in a file, or the first word of it where
// key is empty. It is 0 where there is none.
func number(f *os.File, key string) int64 {
	if f == nil {
		return 0
	}
	var b [512]byte
	n, _ := f.ReadAt(b[:], 0) // what was read counts; its end is an error
	for line := range bytes.Lines(b[:n]) {
		words := strings.Fields(string(line))
		if key == "" && len(words) > 0 || len(words) == 2 && words[0] == key {
			v, err := strconv.ParseInt(words[len(words)-1], 10, 64)
			if err != nil {
				return 0
			}
			return v
		}
	}
	return 0
}

// A scarcity is how often the sandbox had run out of memory and of processes
// when a command began.
type scarcity struct {
	kills, forks int64
}

// scarcity reads the counters for a command that begins.
func (s *Server) scarcity() scarcity {
	if s.cgroup == nil {
		return scarcity{}
	}
	return scarcity{kills: number(s.cgroup.oom, s.cgroup.oomKey), forks: number(s.cgroup.pids, s.cgroup.pidsKey)}
}

// short returns what of the sandbox a command has run out of that has ended
// like e, or nil. The counters are those of the whole sandbox: where other
// commands run, only a kill is taken for that of this one.
func (s *Server) short(before scarcity, e wire.Exit, env []string, dir string) *wire.LimitHit {
	if s.cgroup == nil {
		return nil
	}
	killed := e.Signal == uint8(unix.SIGKILL) || e.Signal == 0 && e.Code == 128+uint8(unix.SIGKILL)
	alone := s.running.Load() <= 1
	now := s.scarcity()
	if now.kills > before.kills && (killed || alone) {
		bound := number(s.cgroup.memory, "")
		return hitOf(wire.LimitSandboxMemory, bound, bound)
	}
	if e.Code == 0 && e.Signal == 0 {
		return nil
	}
	if now.forks > before.forks && alone {
		bound := number(s.cgroup.most, "")
		return hitOf(wire.LimitSandboxProcesses, bound, bound)
	}
	return full(env, dir)
}

// full returns the first of the folders in which commands write whose file
// system has no room left, or nil.
func full(env []string, dir string) *wire.LimitHit {
	home := os.Getenv("HOME")
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "HOME="); ok {
			home = v
		}
	}
	for _, path := range []string{home, "/tmp", "/var/tmp", "/dev/shm", "/run", dir} {
		var st unix.Statfs_t
		if !strings.HasPrefix(path, "/") || unix.Statfs(path, &st) != nil || st.Blocks == 0 || st.Flags&unix.ST_RDONLY != 0 {
			continue
		}
		if st.Bavail == 0 {
			size := int64(st.Blocks) * st.Frsize
			return &wire.LimitHit{Kind: wire.LimitDisk, Current: uint64(max(size, 0)), Bound: uint64(max(size, 0)), Path: path}
		}
		if st.Files > 0 && st.Ffree == 0 {
			return &wire.LimitHit{Kind: wire.LimitInodes, Current: st.Files, Bound: st.Files, Path: path}
		}
	}
	return nil
}

// maxNamed is how many of the processes that a command has left are named.
const maxNamed = 5

// leftBehind says which processes are left below a shim. Ones that are about
// to end by themselves may be among them.
func (s *Server) leftBehind(shim int) (left wire.Left) {
	s.walk(func() {
		all, err := snapshotProctree()
		if err != nil {
			return
		}
		for _, p := range descendantsProctree(all, shim, func(int) bool { return false }) {
			b, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/comm")
			if err != nil {
				continue // it has ended
			}
			if left.Count++; len(left.Names) < maxNamed {
				left.Names = append(left.Names, strings.ToValidUTF8(strings.TrimSpace(string(b)), "?")+" ("+strconv.Itoa(p.PID)+")")
			}
		}
	})
	return left
}
