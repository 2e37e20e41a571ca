package seccomp

// sharedRules returns the rules for commands that share the namespaces of the
// host. They come before all others, and close what a namespace closes
// elsewhere:
//
//   - socket(2) makes TCP sockets alone, and the listener makes them: each is bound
//     to the loopback interface from its start on. connect(2) and bind(2) go to
//     the listener, which answers with a socket of its own making.
//   - MSG_FASTOPEN connects without connect(2).
//   - Calls that change modes, owners and times, which Landlock does not restrict,
//     go to the listener. Those for attributes are refused.
//   - System V objects, message queues and processor sets of other processes have
//     no owner that the kernel could check beside the user.
//
// Unix says that the listener connects Unix stream sockets to what settings grant.
func sharedRules(unix bool) []rule {
	var rules []rule
	on := func(call string, t test, a Action) { rules = append(rules, rule{call, t, a}) }
	for _, family := range []uint32{afInet, afInet6} {
		on("socket", test{kind: is, value: family}, Notify)
	}
	if unix {
		on("socket", test{kind: isNot, value: afUnix}, refuseBpf(eafnosupport))
		on("socket", test{kind: maskIs, arg: 1, mask: sockType, value: sockDgram}, refuseBpf(eperm))
		on("socket", test{kind: maskIs, arg: 1, mask: sockType, value: sockRaw}, refuseBpf(eperm))
		on("socket", test{}, bpfAllow)
	} else {
		on("socket", test{kind: is, value: afUnix}, refuseBpf(eperm))
		on("socket", test{}, refuseBpf(eafnosupport))
	}
	on("connect", test{}, Notify)
	on("bind", test{}, Notify)
	on("sendto", test{kind: hasAny, arg: 3, value: msgFastOpen}, refuseBpf(eopnotsupp))
	on("sendmsg", test{kind: hasAny, arg: 2, value: msgFastOpen}, refuseBpf(eopnotsupp))
	on("sendmmsg", test{kind: hasAny, arg: 3, value: msgFastOpen}, refuseBpf(eopnotsupp))
	for _, request := range []uint32{setFlags, setFlags32, setAttributes} {
		on("ioctl", test{kind: is, arg: 1, value: request}, refuseBpf(eperm))
	}
	for _, call := range []string{
		"setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr",
	} {
		on(call, test{}, refuseBpf(eopnotsupp))
	}
	for _, call := range sharedMetadata() {
		on(call, test{}, Notify)
	}
	for _, call := range []string{
		"shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl",
		"mq_open", "mq_unlink",
	} {
		on(call, test{}, refuseBpf(eperm))
	}
	on("sched_setaffinity", test{kind: isNot}, refuseBpf(eperm))
	return rules
}

// sharedMetadata returns the calls that change modes, owners and times.
func sharedMetadata() []string {
	return []string{
		"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "futimesat", "utimensat",
	}
}

const (
	msgFastOpen   = 0x20000000
	setFlags      = 0x40086602 // FS_IOC_SETFLAGS
	setFlags32    = 0x40046602 // FS_IOC32_SETFLAGS
	setAttributes = 0x401c5820 // FS_IOC_FSSETXATTR
	eopnotsupp    = 95
)
