package seccomp

// Options are the settings in which command filters differ.
type Options struct {
	// UnixSockets lets commands create Unix sockets, with which they can
	// connect to every socket file that they can see.
	UnixSockets bool
	// OwnSockets lets commands create Unix sockets, except datagram sockets,
	// and sends connect(2) to the listener. The listener must make each
	// connection itself: it cannot decide by the address or the socket of the
	// call, because the program can change both while the call waits.
	// OwnSockets requires Observe; UnixSockets overrides it.
	OwnSockets bool
	// Observe sends calls that change files to the listener. Without a listener
	// these calls fail with ENOSYS.
	Observe bool
	// Shared is for commands that share the namespaces of the host, which the
	// listener connects and serves. It requires Observe and excludes OwnSockets.
	// With UnixSockets the listener connects Unix stream sockets too.
	Shared bool
	// Trace lets commands use ptrace(2) and related calls on other processes.
	// Another mechanism must restrict them to their own processes.
	Trace bool
}

// Command returns the filter for commands, which is installed on top of the
// filter of [Filter].
func Command(a bpfArch, o Options) bpfProgram {
	return compile(a, commandRules(o), 0, bpfAllow)
}

// tracing returns the calls that access other processes.
func tracing() []string { return []string{"ptrace", "process_vm_readv", "process_vm_writev"} }

// Flags of open(2) and socket(2), which have the same values on both
// processors.
const (
	writeIntent = 0x1 | 0x2 | 0x40 | 0x200 | 0x400 // O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND; O_TMPFILE comes with one of them
	sockType    = 0xf                              // the type of a socket, without flags
	sockDgram   = 2
	sockRaw     = 3 // a datagram socket in the Unix family
)

// Container returns the filter for commands in a container, which is installed
// on top of the engine's filter. It repeats the engine filter's rules about
// file modes, because a profile from the settings may lack them, and some
// runtimes do not apply profiles.
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
	if o.Shared {
		rules = sharedRules(o.UnixSockets)
	}
	if o.Observe {
		on("openat", test{kind: hasAny, arg: 2, value: writeIntent}, Notify)
		on("open", test{kind: hasAny, arg: 1, value: writeIntent}, Notify)
	}
	if o.OwnSockets && !o.UnixSockets {
		on("connect", test{}, Notify)
		// A datagram socket can send each datagram to a different address.
		on("socket", test{kind: isNot, value: afUnix}, bpfAllow)
		on("socket", test{kind: maskIs, arg: 1, mask: sockType, value: sockDgram}, refuseBpf(eperm))
		on("socket", test{kind: maskIs, arg: 1, mask: sockType, value: sockRaw}, refuseBpf(eperm))
	}
	if !o.UnixSockets || o.Shared {
		if !o.OwnSockets && !o.Shared {
			on("socket", test{kind: is, value: afUnix}, refuseBpf(eperm))
		}
		// A stream pair is allowed, because it cannot reach any other process;
		// one end of a datagram pair can be connected again.
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
	on("prlimit64", test{kind: null, arg: 2}, bpfAllow) // only reads the limit
	on("prlimit64", test{kind: is, arg: 1, value: limitCore}, bpfSkip)
	if o.Observe {
		on("utimensat", test{kind: null, arg: 1}, bpfAllow) // changes an open file
		for _, call := range observedBpf() {
			on(call, test{}, Notify)
		}
	}
	return rules
}

// limitCore is RLIMIT_CORE of getrlimit(2). Commands run with a limit of one
// byte, at which the kernel passes no core to a core handler on the host; at 0
// it would (see package guest/client). The filter reports success without
// making the call: a program that sets the limit wants to disable cores, which
// already holds, and may exit if the call fails. The call does not return the
// previous limit either.
const limitCore = 4

// leases returns the commands of fcntl(2) that make the kernel delay or report
// operations of other processes on a file: F_SETLEASE, F_NOTIFY and F_SETDELEG.
// A process can take a lease on any file that its user owns, even a file that
// it can only read, and so block or fail programs on the host that open the
// file.
func leases() []uint32 { return []uint32{1024, 1026, 1040} }

// observedBpf returns, in alphabetical order, the names of the calls that the
// filter sends to an observer whatever their arguments are: all calls that
// change what a path names. The observer also receives open and openat when
// their flags ask for more than reading.
func observedBpf() []string {
	return []string{
		"chmod", "chown", "creat", "fchmodat", "fchmodat2", "fchownat", "file_setattr", "futimesat", "lchown", "link", "linkat",
		"lremovexattr", "lsetxattr", "mkdir", "mkdirat", "mknod", "mknodat", "removexattr", "removexattrat",
		"rename", "renameat", "renameat2", "rmdir", "setxattr", "setxattrat", "symlink", "symlinkat", "truncate",
		"unlink", "unlinkat", "utime", "utimensat", "utimes",
	}
}
