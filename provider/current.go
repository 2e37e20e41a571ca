package provider

import (
	"path"
	"strings"
)

// MaxCommand is how many bytes of a command line [CurrentCommand] returns.
const MaxCommand = 512

// A RunningProcess is a process of a sandbox as the host sees it. What Args say
// is the process's own choice.
type RunningProcess struct {
	PID, Parent int
	Started     uint64 // in any unit; of two processes the later one has the larger value
	Args        []string
}

// CurrentCommand returns the command line of the newest command among the
// processes of a sandbox, at most [MaxCommand] bytes of it, and nothing where
// none runs. A command is what a shim of the guest has started; what the command
// itself has started does not count. It is for people to read: the words are
// joined by spaces, and code inside controls them.
func CurrentCommand(all []RunningProcess) string {
	shims := map[int]bool{}
	for _, p := range all {
		if len(p.Args) > 1 && path.Base(p.Args[0]) == "sandbox-guest" && p.Args[1] == "stage" {
			shims[p.PID] = true
		}
	}
	var newest *RunningProcess
	for i := range all {
		p := &all[i]
		if !shims[p.Parent] || shims[p.PID] || len(p.Args) == 0 {
			continue
		}
		if newest == nil || p.Started > newest.Started || p.Started == newest.Started && p.PID > newest.PID {
			newest = p
		}
	}
	if newest == nil {
		return ""
	}
	line := strings.Join(newest.Args, " ")
	return line[:min(len(line), MaxCommand)]
}
