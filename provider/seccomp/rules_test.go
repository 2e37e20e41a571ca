package seccomp

// ForBrowser returns the system calls that [Browser] allows again, each with
// the reason. [Profile] denies all of them, clone only with namespace flags.
// Mount, UTS, cgroup and IPC namespaces stay denied.
func ForBrowser() map[string]string {
	return map[string]string{
		"clone":   "starts the processes of pages in user, process and network namespaces of their own",
		"unshare": "moves a process into a user namespace of its own",
		"chroot":  "takes the sight of files from the processes of pages, in such a namespace",
	}
}

// ForDebuggers returns the system calls with which debuggers, tracers and leak
// checkers access other processes, each with its purpose. [Profile] allows them
// and [Browser] does not. A process reaches only the processes of its own
// command with them: each command has its own Landlock domain, the processes of
// the guest are not dumpable, and no other process is in a namespace of the
// sandbox. Without Landlock, the guest refuses these calls to commands.
func ForDebuggers() map[string]string {
	return map[string]string{
		"ptrace":            "reads and steers processes of the same uid",
		"process_vm_readv":  "reads memory of processes of the same uid",
		"process_vm_writev": "writes memory of processes of the same uid",
	}
}

// Denied returns the system calls that the profile removes from the engine's
// default, each with the reason.
func Denied() map[string]string {
	return map[string]string{
		"io_uring_setup":    "runs operations that no filter sees; long list of kernel faults",
		"io_uring_enter":    "see io_uring_setup",
		"io_uring_register": "see io_uring_setup",

		"process_madvise": "acts on memory of other processes",
		"kcmp":            "compares kernel pointers of other processes",
		"pidfd_getfd":     "takes descriptors out of other processes",

		"add_key":     "keyrings are not namespaced by container",
		"keyctl":      "keyrings are not namespaced by container",
		"request_key": "keyrings are not namespaced by container",

		"mount":          "changes the sandbox's own view of files",
		"mount_setattr":  "see mount",
		"move_mount":     "see mount",
		"open_tree":      "see mount",
		"open_tree_attr": "see mount",
		"fsopen":         "see mount",
		"fsconfig":       "see mount",
		"fsmount":        "see mount",
		"fspick":         "see mount",
		"umount":         "see mount",
		"umount2":        "see mount",
		"pivot_root":     "see mount",
		"listmount":      "shows mounts of other namespaces",
		"statmount":      "shows mounts of other namespaces",

		"setns":   "enters namespaces",
		"unshare": "makes namespaces, and with them kernel code that root alone was meant to reach",

		"bpf":               "loads code into the kernel",
		"perf_event_open":   "large attack surface, side channels",
		"userfaultfd":       "stops kernel threads at will, a tool of many exploits",
		"kexec_load":        "replaces the kernel",
		"kexec_file_load":   "replaces the kernel",
		"open_by_handle_at": "opens files past the mount tree",
		"name_to_handle_at": "makes handles for open_by_handle_at",
		"quotactl":          "changes disk quotas",
		"quotactl_fd":       "changes disk quotas",
		"syslog":            "reads the kernel log",
		"lookup_dcookie":    "kernel profiling interface",
		"vm86":              "legacy processor mode",
		"vm86old":           "legacy processor mode",
		"modify_ldt":        "legacy segment tables, source of kernel faults",
		"socketcall":        "hides the socket family from the filter",
		"ipc":               "multiplexer that hides the call from the filter",
	}
}
