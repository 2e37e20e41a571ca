package seccomp

// Options are what differs between the filters of commands.
type Options struct {
	// UnixSockets lets commands make Unix sockets of their own, by which they
	// reach every socket that they can see as a file.
	UnixSockets bool
	// OwnSockets lets commands make Unix sockets, though not for datagrams, and
	// hands connect to a listener, which has to make each connection itself: by
	// the address of a call alone, or its socket, nothing can be decided, since
	// both can be exchanged while the call waits. It goes with Observe, and
	// UnixSockets goes before it.
	OwnSockets bool
	// Observe hands calls that change files to a listener. Without a listener
	// they fail with ENOSYS.
	Observe bool
	// Trace lets commands look into other processes by ptrace(2) and its
	// relatives. Something else has to keep them to their own processes.
	Trace bool
}

// Command returns the filter of commands, which comes on top of the wall's.
func Command(a bpfArch, o Options) bpfProgram {
	return compile(a, commandRules(o), 0, bpfAllow)
}

// tracing are the calls that look into other processes.
func tracing() []string { return []string{"ptrace", "process_vm_readv", "process_vm_writev"} }

// Flags of open(2). On both processors they have these values.
const (
	writeIntent = 0x1 | 0x2 | 0x40 | 0x200 | 0x400 // O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND; O_TMPFILE comes with one of them
	sockType    = 0xf                              // the type of a socket, without flags
	sockDgram   = 2
	sockRaw     = 3 // a datagram socket, for Unix sockets
)

// Container returns the filter of commands in a container, which comes on top of
// the engine's. It does again what that does about modes, because a profile of
// the settings may not, and some runtimes do not apply profiles.
func Container(a bpfArch, o Options) bpfProgram { return compile(a, containerRules(o), 0, bpfAllow) }

func containerRules(o Options) []rule {
	rules := append(modeRules(), rule{"openat2", test{}, refuseBpf(enosys)})
	if !o.Trace {
		for _, call := range tracing() {
			rules = append(rules, rule{call, test{}, refuseBpf(eperm)})
		}
	}
	return rules
}

func commandRules(o Options) []rule {
	var rules []rule
	on := func(call string, t test, a Action) { rules = append(rules, rule{call, t, a}) }
	if o.Observe {
		on("openat", test{kind: hasAny, arg: 2, value: writeIntent}, Notify)
		on("open", test{kind: hasAny, arg: 1, value: writeIntent}, Notify)
	}
	if o.OwnSockets && !o.UnixSockets {
		on("connect", test{}, Notify)
		// A socket for datagrams sends to a new address with each of them.
		on("socket", test{kind: isNot, value: afUnix}, bpfAllow)
		on("socket", test{kind: maskIs, arg: 1, mask: sockType, value: sockDgram}, refuseBpf(eperm))
		on("socket", test{kind: maskIs, arg: 1, mask: sockType, value: sockRaw}, refuseBpf(eperm))
	}
	if !o.UnixSockets {
		if !o.OwnSockets {
			on("socket", test{kind: is, value: afUnix}, refuseBpf(eperm))
		}
		// A pair stays, if it cannot be used to reach anybody else: an end
		// of a pair for datagrams can be connected anew.
		on("socketpair", test{kind: maskIs, arg: 1, mask: sockType, value: sockDgram}, refuseBpf(eperm))
		on("socketpair", test{kind: maskIs, arg: 1, mask: sockType, value: sockRaw}, refuseBpf(eperm))
	}
	if !o.Trace {
		for _, call := range tracing() {
			on(call, test{}, refuseBpf(eperm))
		}
	}
	on("pidfd_getfd", test{}, refuseBpf(eperm))
	on("openat2", test{}, refuseBpf(enosys)) // see modeRules; programs fall back to openat
	for _, command := range leases() {
		on("fcntl", test{kind: is, arg: 1, value: command}, refuseBpf(eperm))
	}
	on("setrlimit", test{kind: is, value: limitCore}, bpfSkip)
	on("prlimit64", test{kind: null, arg: 2}, bpfAllow) // a question
	on("prlimit64", test{kind: is, arg: 1, value: limitCore}, bpfSkip)
	if o.Observe {
		on("utimensat", test{kind: null, arg: 1}, bpfAllow) // of an open file
		for _, call := range observedBpf() {
			on(call, test{}, Notify)
		}
	}
	return rules
}

// limitCore is RLIMIT_CORE of getrlimit(2). Commands have one byte, at which the
// kernel hands no core to a program of the host; at 0 it would (see package
// guest/client). Who sets it wants to have no cores, and would not go on when
// that fails: it is the case already. Who also asks by the same call for the limit
// before is not told it.
const limitCore = 4

// leases are the commands of fcntl(2) that have the kernel hold up, or tell of,
// what others do with a file: F_SETLEASE, F_NOTIFY and F_SETDELEG. A lease can
// be had on any file of the own user, one that can only be read too, and keeps
// programs of the host waiting that open it, or fails them.
func leases() []uint32 { return []uint32{1024, 1026, 1040} }

// Observed returns the names of the calls that an observer is told of
// whatever their arguments are, in alphabetical order: all that change what a
// path names. It sees open and openat too, if they are meant for more than
// reading.
func observedBpf() []string {
	return []string{
		"chmod", "chown", "creat", "fchmodat", "fchmodat2", "fchownat", "file_setattr", "futimesat", "lchown", "link", "linkat",
		"lremovexattr", "lsetxattr", "mkdir", "mkdirat", "mknod", "mknodat", "removexattr", "removexattrat",
		"rename", "renameat", "renameat2", "rmdir", "setxattr", "setxattrat", "symlink", "symlinkat", "truncate",
		"unlink", "unlinkat", "utime", "utimensat", "utimes",
	}
}
