package seccomp

// newest is the highest number of a system call that these tables know. A
// call behind it is answered as by a kernel that does not have it.
const newest = 471

// Wall returns the filter of everything inside a wall. It never uses Notify.
//
// ptrace and its relatives stay: by process_vm_readv the guest reads what a
// command that waits for it has in its memory, and commands have debuggers. The
// command filter takes them from commands that nothing else keeps to their own
// processes. So does pidfd_getfd, by which the guest connects sockets of
// commands; the command filter takes it from all.
func Wall(a bpfArch) bpfProgram { return compile(a, wallRules(), newest, refuseBpf(enosys)) }

// Values of arguments.
const (
	newNamespaces = 0x7e020000 // CLONE_NEW* of clone(2)
	newTime       = 0x80       // CLONE_NEWTIME, of unshare(2) alone
	tiocsti       = 0x5412
	tioclinux     = 0x541c

	afUnix, afInet, afInet6, afNetlink = 1, 2, 10, 16
)

// wallRules is the table of the wall. Calls whose arguments matter come
// first: for all others the kernel remembers the answer.
func wallRules() []rule {
	var rules []rule
	on := func(call string, t test, a Action) { rules = append(rules, rule{call, t, a}) }

	// Terminals: TIOCSTI types into them, TIOCLINUX pastes.
	on("ioctl", test{kind: is, arg: 1, value: tiocsti}, refuseBpf(eperm))
	on("ioctl", test{kind: is, arg: 1, value: tioclinux}, refuseBpf(eperm))
	// Local sockets, the internet families in the wall's own network
	// namespace, and netlink, which address look-ups need. Not AF_VSOCK,
	// which reaches the hypervisor from every namespace, nor any rare one.
	for _, family := range []uint32{afUnix, afInet, afInet6, afNetlink} {
		on("socket", test{kind: is, value: family}, bpfAllow)
	}
	on("socket", test{}, refuseBpf(eafnosupport))
	on("socketpair", test{kind: isNot, value: afUnix}, refuseBpf(eafnosupport))
	// Namespaces, and with them kernel code that root alone was meant to reach.
	on("clone", test{kind: hasAny, value: newNamespaces}, refuseBpf(eperm))
	on("unshare", test{kind: hasAny, value: newNamespaces | newTime}, refuseBpf(eperm))
	// Flags lie in memory here; libraries fall back to clone.
	on("clone3", test{}, refuseBpf(enosys))
	// Limits and priorities of others: the guest is the same user.
	for _, call := range []string{"prlimit64", "sched_setattr", "sched_setscheduler", "sched_setparam"} {
		on(call, test{kind: isNot}, refuseBpf(eperm))
	}
	on("setpriority", test{kind: isNot}, refuseBpf(eperm)) // PRIO_PROCESS
	on("setpriority", test{kind: isNot, arg: 1}, refuseBpf(eperm))
	on("ioprio_set", test{kind: isNot, value: 1}, refuseBpf(eperm)) // IOPRIO_WHO_PROCESS
	on("ioprio_set", test{kind: isNot, arg: 1}, refuseBpf(eperm))
	// Odd personalities switch protections of memory off. Debuggers run programs
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
	making    = 0x40 | 0x400000 // O_CREAT and __O_TMPFILE: with one of them open(2) reads its mode
)

// modeRules refuse to give a file the set-user-ID or the set-group-ID bit: in a
// folder of the host it would run there as the user of the sandbox for everybody
// who starts it. mkdir(2) is not among the calls, because the kernel takes both
// bits out of its mode, and programs that copy folders leave them in. The mode
// of openat2 lies in memory: the filter of commands refuses that call.
func modeRules() []rule {
	var rules []rule
	on := func(call string, t test, a Action) { rules = append(rules, rule{call, t, a}) }
	for _, call := range []struct {
		name        string
		flags, mode uint8
	}{{"open", 1, 2}, {"openat", 2, 3}, {"mq_open", 1, 2}} {
		on(call.name, test{kind: maskIs, arg: call.flags, mask: making}, bpfAllow) // the mode may be anything
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

// absent are the calls that are answered as by a kernel without them: those
// for which programs have another way.
func absent() []string {
	return []string{
		// Runs operations that no filter sees.
		"io_uring_setup", "io_uring_enter", "io_uring_register",
		// The newer interface of mounting, and what tells of mounts elsewhere.
		"fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "open_tree_attr", "mount_setattr",
		"statmount", "listmount", "listns",
		// Attributes of security modules; nothing to be had without privilege.
		"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules",
	}
}

// forbidden are the calls that nothing inside has any business with. The
// reasons for those that a process without privilege could have used stand in
// package seccomp.
func forbidden() []string {
	return []string{
		// The wall's own view of files.
		"mount", "umount2", "pivot_root", "chroot", "setns",
		// Files past that view.
		"open_by_handle_at", "name_to_handle_at", "fanotify_init",
		// Other processes. pidfd_open and kill stay.
		"process_madvise", "kcmp",
		"migrate_pages", "move_pages",
		// Keyrings are not namespaced.
		"add_key", "keyctl", "request_key",
		// Code in the kernel, and tools of many exploits.
		"bpf", "perf_event_open", "userfaultfd", "uprobe", "kexec_load", "kexec_file_load",
		"init_module", "finit_module", "delete_module", "create_module", "query_module", "get_kernel_syms",
		"modify_ldt", "iopl", "ioperm", "lookup_dcookie", "syslog", "nfsservctl",
		// The machine.
		"reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "vhangup",
		"sethostname", "setdomainname", "settimeofday", "clock_settime",
		// Placement of memory, which is the machine's too.
		"mbind", "set_mempolicy", "set_mempolicy_home_node", "get_mempolicy",
		// Left over from old kernels.
		"uselib", "ustat", "sysfs", "_sysctl",
	}
}
