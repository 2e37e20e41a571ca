package docker

import (
	"os"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
)

// notMounted says that a folder of the Spec is not mounted in a container that
// runs, as when a program was killed while it exchanged the mounts there.
func notMounted(op, name, target string) *sandbox.Error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: op, Resource: name, Message: strconv.Quote(target) + " is not mounted in the sandbox any more",
		Hint: "start afresh with: sandbox recreate",
	}
}

// checkMounted returns an error if the workspace is not mounted in the running
// container: what is written there would be lost. Of an engine on another machine
// nothing can be seen, and nothing was exchanged.
func checkMounted(info sandbox.Info, s sandbox.Spec) error {
	if info.PID <= 0 {
		return nil
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(info.PID) + "/mountinfo")
	if err != nil {
		return nil
	}
	table, err := mountsOf(string(text))
	if _, ours := table[sandbox.GuestDir+"/bin"]; err != nil || !ours {
		return nil
	}
	for _, m := range s.Mounts {
		if _, there := table[m.Target]; m.Role == sandbox.RoleWorkspace && !there {
			return notMounted("open", info.Name, m.Target)
		}
	}
	return nil
}
