package seccomp

// newest is the highest system-call number that these tables know. The filter
// fails a call with a higher number with ENOSYS, as a kernel without that call
// does.
const newest = 471

// Filter returns the filter for every process in a sandbox. It never uses
// [Notify].
//
// The filter allows ptrace and related calls: the guest reads the memory of a
// command that waits for it with process_vm_readv, and commands run debuggers.
// The command filter refuses them to commands that no other mechanism restricts
// to their own processes. The filter also allows pidfd_getfd, with which the
// guest connects sockets of commands; the command filter refuses it to all
// commands.
func Filter(a bpfArch) bpfProgram { return compile(a, filterRules(), newest, refuseBpf(enosys)) }

// Values of arguments.
const (
	newNamespaces = 0x7e020000 // CLONE_NEW* of clone(2)
	newTime       = 0x80       // CLONE_NEWTIME, of unshare(2) alone
	tiocsti       = 0x5412
	tioclinux     = 0x541c

	afUnix, afInet, afInet6, afNetlink = 1, 2, 10, 16
)

// filterRules returns the rules for every process in a sandbox. Calls whose
// arguments matter come first; for all others the kernel caches the result.
func filterRules() []rule {
	var rules []rule
	on := func(call string, t test, a Action) { rules = append(rules, rule{call, t, a}) }

	// Terminals: TIOCSTI types into them, TIOCLINUX pastes.
	on("ioctl", test{kind: is, arg: 1, value: tiocsti}, refuseBpf(eperm))
	on("ioctl", test{kind: is, arg: 1, value: tioclinux}, refuseBpf(eperm))
	// Allow local sockets, the internet families (in the sandbox's own network
	// namespace) and netlink, which address look-ups need. Refuse AF_VSOCK,
	// which reaches the hypervisor from every namespace, and all rare families.
	for _, family := range []uint32{afUnix, afInet, afInet6, afNetlink} {
		on("socket", test{kind: is, value: family}, bpfAllow)
	}
	on("socket", test{}, refuseBpf(eafnosupport))
	on("socketpair", test{kind: isNot, value: afUnix}, refuseBpf(eafnosupport))
	// Namespaces give access to kernel code that was written for root only.
	on("clone", test{kind: hasAny, value: newNamespaces}, refuseBpf(eperm))
	on("unshare", test{kind: hasAny, value: newNamespaces | newTime}, refuseBpf(eperm))
	// The flags of clone3 lie in memory, where a filter cannot read them;
	// libraries fall back to clone.
	on("clone3", test{}, refuseBpf(enosys))
	// Limits and priorities of other processes: the guest runs as the same user
	// as commands.
	// SCHED_OTHER is what every process inside has already, and takes no
	// priority: libraries such as ZeroMQ set it for their own threads, which
	// they name by number.
	on("sched_setscheduler", test{kind: is, arg: 1, value: 0}, bpfAllow)
	for _, call := range []string{"prlimit64", "sched_setattr", "sched_setscheduler", "sched_setparam"} {
		on(call, test{kind: isNot}, refuseBpf(eperm))
	}
	on("setpriority", test{kind: isNot}, refuseBpf(eperm)) // PRIO_PROCESS
	on("setpriority", test{kind: isNot, arg: 1}, refuseBpf(eperm))
	on("ioprio_set", test{kind: isNot, value: 1}, refuseBpf(eperm)) // IOPRIO_WHO_PROCESS
	on("ioprio_set", test{kind: isNot, arg: 1}, refuseBpf(eperm))
	// Unusual personalities turn memory protections off. Debuggers run programs
	// with ADDR_NO_RANDOMIZE.
	for _, p := range []uint32{0, 8, 0x20000, 0x20008, 0x40000, 0xffffffff} {
		on("personality", test{kind: is, value: p}, bpfAllow)
	}
	on("personality", test{}, refuseBpf(eperm))

	rules = append(rules, modeRules()...)

	for _, call := range absent() {
		on(call, test{}, refuseBpf(enosys))
	}
	for _, call := range forbidden() {
		on(call, test{}, refuseBpf(eperm))
	}
	return rules
}

const (
	setIDBits = 0o6000          // S_ISUID and S_ISGID of a mode
	making    = 0x40 | 0x400000 // O_CREAT and __O_TMPFILE: open(2) reads its mode only with one of them
)

// modeRules returns rules that refuse to set the set-user-ID or set-group-ID
// bit of a file: in a host folder, such a file would run as the sandbox's user
// for every user who starts it. mkdir(2) has no rule, because the kernel
// removes both bits from its mode, and programs that copy folders pass them.
// The mode of openat2 lies in memory; the command filter refuses that call.
func modeRules() []rule {
	var rules []rule
	on := func(call string, t test, a Action) { rules = append(rules, rule{call, t, a}) }
	for _, call := range []struct {
		name        string
		flags, mode uint8
	}{{"open", 1, 2}, {"openat", 2, 3}, {"mq_open", 1, 2}} {
		on(call.name, test{kind: maskIs, arg: call.flags, mask: making}, bpfAllow) // open ignores the mode here
		on(call.name, test{kind: hasAny, arg: call.mode, value: setIDBits}, refuseBpf(eperm))
	}
	for _, call := range []struct {
		name string
		mode uint8
	}{{"chmod", 1}, {"fchmod", 1}, {"creat", 1}, {"mknod", 1}, {"fchmodat", 2}, {"fchmodat2", 2}, {"mknodat", 2}} {
		on(call.name, test{kind: hasAny, arg: call.mode, value: setIDBits}, refuseBpf(eperm))
	}
	return rules
}

// absent returns the calls that the filter fails with ENOSYS, as a kernel
// without them does: programs can do without these.
func absent() []string {
	return []string{
		// They run operations that no filter sees.
		"io_uring_setup", "io_uring_enter", "io_uring_register",
		// The newer mount interface, and calls that report mounts of other
		// namespaces.
		"fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "open_tree_attr", "mount_setattr",
		"statmount", "listmount", "listns",
		// Attributes of security modules, which are useless without privilege.
		"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules",
	}
}

// forbidden returns the calls that no process in the sandbox needs. [Denied]
// gives the reasons for those that an unprivileged process could use.
func forbidden() []string {
	return []string{
		// The sandbox's own view of files.
		"mount", "umount2", "pivot_root", "chroot", "setns",
		// Access to files outside that view.
		"open_by_handle_at", "name_to_handle_at", "fanotify_init",
		// Other processes. pidfd_open and kill stay allowed.
		"process_madvise", "kcmp",
		"migrate_pages", "move_pages",
		// Keyrings are not namespaced.
		"add_key", "keyctl", "request_key",
		// Code in the kernel, and calls that many exploits use.
		"bpf", "perf_event_open", "userfaultfd", "uprobe", "kexec_load", "kexec_file_load",
		"init_module", "finit_module", "delete_module", "create_module", "query_module", "get_kernel_syms",
		"modify_ldt", "iopl", "ioperm", "lookup_dcookie", "syslog", "nfsservctl",
		// The machine.
		"reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "vhangup",
		"sethostname", "setdomainname", "settimeofday", "clock_settime",
		// Memory placement, which affects the whole machine.
		"mbind", "set_mempolicy", "set_mempolicy_home_node", "get_mempolicy",
		// Left over from old kernels.
		"uselib", "ustat", "sysfs", "_sysctl",
	}
}
