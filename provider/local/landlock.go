package local

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// The names of the providers of this package, as settings write them.
const (
	LocalName    = "local"
	LandlockName = "landlock"
)

// Codes of what a sandbox of the landlock provider does not close. They are stable.
const (
	GapProcesses = "landlock.process-list"
	GapMetadata  = "landlock.metadata"
	GapMasks     = "landlock.masks"
	GapPaths     = "landlock.paths"
	GapTmp       = "landlock.tmp"
	GapTerminals = "landlock.terminals"
	GapUser      = "landlock.user"
	GapNetwork   = "landlock.network-state"
	GapLoopback  = "landlock.loopback"
	GapHostname  = "landlock.hostname"
	GapUnix      = "landlock.unix-sockets"
	GapDisk      = "landlock.disk"
	GapMemory    = "landlock.memory"
	GapPIDs      = "landlock.pids"
	GapKernel    = "landlock.kernel-info"
	GapIPC       = "landlock.ipc"
	GapSignals   = "landlock.signals"
	GapDevices   = "landlock.devices"
)

// A Gap is something that a sandbox of the landlock provider does not close or cannot
// do, which one of the local provider can.
type Gap struct {
	Code string
	Text string
	// Attempts are the names of those of doctor --attack that it lets through.
	Attempts []string
}

// Gaps returns what an instance does not close under a version of Landlock, in a fixed
// order.
func Gaps(abi int) []Gap {
	list := []Gap{
		{GapProcesses, "commands see the list of all processes in this process namespace with their command lines, and cannot trace, signal or look into those of others; of processes of the same user they learn how many files those have open", []string{"host-processes", "own-namespaces", "proc-1"}},
		{GapMetadata, "commands learn whether any path of the host exists, its size, owner and times; what is in it stays closed", nil},
		{GapMasks, "what lies in a writable folder cannot be closed or made read-only: git hooks and settings files of the workspace are looked through after each command, and not protected meanwhile", nil},
		{GapPaths, "everything is at its own path of the host: /workspace and the home are translated where commands and file tools name them, and not inside of programs", nil},
		{GapTmp, "/tmp and /dev/shm are the host's and closed; TMPDIR and HOME are folders on disk", nil},
		{GapTerminals, "commands can get a terminal and make none of their own", nil},
		{GapUser, "commands run as the user of this program, as root without capabilities where that is root and no other user reaches the workspace; bounds of the kernel for a user, such as that of inotify instances, are shared, and a bounding set that cannot be emptied stays, to no effect under no_new_privs", []string{"identity", "become-root", "root-tools", "capabilities", "hoard-inotify"}},
		{GapNetwork, "commands see interfaces, addresses and connections of the host in /proc/net, and can use none", []string{"interfaces"}},
		{GapLoopback, "what commands listen at is the loopback interface of the host, where other programs of the host can connect", nil},
		{GapHostname, "the host name is the host's", []string{"hostname"}},
		{GapUnix, "commands can neither make Unix sockets, except pairs, nor send UDP", nil},
		{GapDisk, "there is no bound of what commands write to the disk but limits.fileSize", []string{"fill-home", "fill-disk", "host-disk", "fill-memory-folders"}},
		{GapMemory, "there is no control group: limits.memory bounds each command with all its processes", nil},
		{GapPIDs, "docker.pidsLimit is not held for the sandbox as a whole: limits.processes bounds each command", []string{"fork-bomb"}},
		{GapKernel, "files of /proc and the kernel's version are as the host shows them", []string{"proc-secrets"}},
		{GapIPC, "System V objects and POSIX message queues are refused to commands, because they would be the host's", nil},
	}
	if abi < landlockScopes {
		list = append(list, Gap{GapSignals, fmt.Sprintf("Landlock has version %d here: commands can signal other processes of the same user, which is refused from version %d on", abi, landlockScopes), []string{"signal-1", "kill-all"}})
	}
	if abi < 5 {
		list = append(list, Gap{GapDevices, fmt.Sprintf("Landlock has version %d here: ioctl on device files is restricted from version 5 on", abi), nil})
	}
	return list
}

// Versions of the Landlock interface: the least one that protects files, and the one that
// keeps signals in.
const (
	landlockFiles  = 3
	landlockScopes = 6
)

// landlockUsable returns an error unless a version of Landlock confines commands. scopes
// says that signals have to be confined too.
func landlockUsable(abi int, scopes bool) error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Resource: LandlockName,
		Hint: "use a kernel from 6.12 on with landlock among its security modules, and an engine whose filter of system calls has landlock_create_ruleset; or use the docker provider"}
	switch {
	case abi <= 0:
		e.Message = "the kernel has no Landlock, or the filter of system calls around this process refuses it"
	case abi < landlockFiles:
		e.Message = fmt.Sprintf("the kernel has Landlock of version %d, and version %d is the least that keeps files from being truncated", abi, landlockFiles)
	case abi < landlockScopes && scopes:
		e.Message = fmt.Sprintf("the kernel has Landlock of version %d, and version %d is the least that keeps commands from signalling other processes of the same user", abi, landlockScopes)
		e.Hint = `use a kernel from 6.12 on, or accept that with "providerOptions": {"withoutScopes": true}`
	default:
		return nil
	}
	return e
}

// CheckLandlock says whether sandboxes of the landlock provider can be had here, and
// what they do not close.
func CheckLandlock(options map[string]any) (gaps []Gap, err error) {
	abi := launch.LandlockABI()
	without, _ := options["withoutScopes"].(bool)
	return Gaps(abi), landlockUsable(abi, !without)
}
