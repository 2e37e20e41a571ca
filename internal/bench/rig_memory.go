//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// Memory adds up what our processes in the sandbox hold: the guest, its shims,
// and the relay if there is one. The figures are those of the host's kernel. It
// returns [sandbox.CodeBusy] if the sandbox has any other process, because it
// is not idle then.
func (r *rig) Memory(state string) (reportMemory, error) {
	m := reportMemory{State: state}
	inside, err := namespaceOf(r.Info.PID)
	if err != nil {
		return m, unreported(err)
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return m, err
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if ns, err := namespaceOf(pid); err != nil || ns != inside {
			continue // ended meanwhile, or elsewhere
		}
		if err := addProcess(&m, pid); err != nil {
			return m, err
		}
	}
	if m.Processes == 0 {
		return m, sandbox.Errorf(sandbox.CodeUnavailable, "read memory", "no process of the sandbox is there")
	}
	return m, nil
}

// OwnMemory is what this program itself holds, after what it can give back is
// given back.
func ownMemory(state string) (reportMemory, error) {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return reportMemory{}, unreported(err)
	}
	rss, pss, err := parseRollup(string(text))
	return reportMemory{State: state, Processes: 1, RSS: rss, PSS: pss}, err
}

func addProcess(m *reportMemory, pid int) error {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if gone(err) {
		return nil
	}
	if err != nil {
		return unreported(err)
	}
	if filepath.Base(exe) != "sandbox-guest" {
		return sandbox.Errorf(sandbox.CodeBusy, "read memory", "the sandbox is not idle: process %d runs %s", pid, filepath.Base(exe))
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if gone(err) {
		return nil
	}
	if err != nil {
		return unreported(err)
	}
	rss, pss, err := parseRollup(string(text))
	if err != nil {
		return err
	}
	m.Processes, m.RSS, m.PSS = m.Processes+1, m.RSS+rss, m.PSS+pss
	return nil
}

// gone reports whether err means that a process has ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// namespaceOf names the namespace of process ids in which pid lives.
func namespaceOf(pid int) (string, error) {
	return os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
}

// parseRollup returns the sizes in bytes that /proc/PID/smaps_rollup tells,
// see proc(5).
func parseRollup(text string) (rss, pss int64, err error) {
	found := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		var into *int64
		switch name {
		case "Rss":
			into = &rss
		case "Pss":
			into = &pss
		default:
			continue
		}
		kib, ok := strings.CutSuffix(strings.TrimSpace(value), " kB")
		n, convErr := strconv.ParseInt(strings.TrimSpace(kib), 10, 64)
		if !ok || convErr != nil || n < 0 {
			return 0, 0, sandbox.Errorf(sandbox.CodeInternal, "read memory", "the kernel's line %q is not understood", line)
		}
		*into, found = n<<10, found+1
	}
	if found != 2 {
		return 0, 0, sandbox.Errorf(sandbox.CodeInternal, "read memory", "the kernel does not tell Rss and Pss")
	}
	return rss, pss, nil
}

func unreported(err error) error {
	return sandbox.Errorf(sandbox.CodeUnavailable, "read memory", "the kernel does not tell: %w", err)
}
