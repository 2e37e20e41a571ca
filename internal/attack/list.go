package attack

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

// An attempt tries one way to escape.
type attempt struct {
	name string // stable, lower case
	what string // a sentence for people
	run  func(ctx context.Context, r *rig) finding

	// emulated says that gVisor may grant this by its own means without
	// the host's kernel being involved.
	emulated bool
	// opens names the break-glass switch that allows this on purpose.
	opens string
}

// A finding is what an attempt found before it is judged.
type finding struct {
	outcome Outcome
	seen    string
}

// plain is an attempt that the probe of the same name judges alone.
func plain(name, what string) attempt {
	return attempt{name: name, what: what, run: func(ctx context.Context, r *rig) finding { return r.probe(ctx, name) }}
}

// kernel is a plain attempt on kernel interfaces that gVisor emulates.
func kernel(name, what string) attempt {
	a := plain(name, what)
	a.emulated = true
	return a
}

// online is a plain attempt on the network that means nothing where the
// settings give the sandbox one.
func online(name, what string) attempt {
	return attempt{name: name, what: what, run: func(ctx context.Context, r *rig) finding {
		if n := r.spec.Network; n != "none" {
			return finding{Skipped, "the settings give the sandbox the network " + strconv.Quote(n)}
		}
		if r.opts.Firewall != "" {
			return r.probe(ctx, name, "firewall")
		}
		return r.probe(ctx, name)
	}}
}

func withSwitch(a attempt, name string) attempt {
	a.opens = name
	return a
}

// attempts returns the self-test in order: what only looks comes first, what
// destroys comes last.
func attempts() []attempt {
	var all []attempt
	for _, part := range [][]attempt{
		postureAttempts(), fileAttempts(), namespaceAttempts(), processAttempts(), kernelAttempts(),
		networkAttempts(), leakAttempts(), destructiveAttempts(),
	} {
		all = append(all, part...)
	}
	return all
}

func postureAttempts() []attempt {
	return []attempt{
		plain("identity", "run as root or in its group"),
		kernel("become-root", "become root by setuid, setgid, setgroups or capset"),
		withSwitch(plain("capabilities", "hold a Linux capability in any set"), hardening.SwitchKeepCapabilities),
		plain("no-new-privs", "gain privileges by starting a program"),
		{name: "seccomp", what: "make system calls past a filter", run: seccomp},
		plain("set-uid", "run the set-user-id programs of the image"),
		plain("set-uid-copy", "make a set-user-id program and run it"),
		plain("set-id-bits", "give a file the set-user-id or set-group-id bit"),
		plain("root-tools", "become root by sudo, su and their like"),
		plain("container-tools", "start a sandbox of one's own by unshare, bwrap, docker and their like"),
		kernel("foreign-abi", "make system calls by another numbering, past the filter"),
	}
}

func fileAttempts() []attempt {
	return []attempt{
		withSwitch(plain("write-root", "write to the root of the file system"), hardening.SwitchWritableRoot),
		withSwitch(plain("write-system", "write to /usr and replace programs"), hardening.SwitchWritableRoot),
		plain("write-etc", "write to /etc"),
		plain("write-guest", "replace the guest's program"),
		plain("write-ro", "write to a read-only mount"),
		plain("symlinks", "reach more through symbolic links in the mounts than without"),
		plain("hard-links", "link system files into a writable mount"),
		{name: "canary", what: "read a file of the host by its path, links, /proc and parent folders", run: canary},
		kernel("mount", "mount a file system"),
		kernel("mount-api", "mount by the newer calls"),
		kernel("remount", "make a read-only mount writable"),
		kernel("umount", "take a mask or a mount away"),
		kernel("chroot", "change the root"),
		plain("handles", "open files of the host by their number"),
	}
}

func namespaceAttempts() []attempt {
	return []attempt{
		{name: "own-namespaces", what: "share a namespace with the host", run: ownNamespaces, emulated: true},
		kernel("unshare-user", "make a user namespace and be root in it"),
		kernel("unshare-others", "make other namespaces"),
		kernel("clone-user", "make a process in new namespaces"),
		plain("setns", "enter the namespaces of the first process"),
		plain("host-processes", "see processes of the host or of others"),
	}
}

func processAttempts() []attempt {
	return []attempt{
		plain("ptrace-1", "trace the first process"),
		plain("memory-1", "read or write the first process's memory, take its descriptors"),
		plain("proc-1", "open the first process's files in /proc"),
		plain("limit-1", "cripple the first process, or the command's keeper, by resource limits"),
		plain("talk-to-guest", "speak to the guest as if from outside"),
		plain("priorities", "take more of the host's processors, memory or files than given"),
		{name: "forge", what: "write into the output of another command, read its environment", run: forge},
	}
}

func kernelAttempts() []attempt {
	return []attempt{
		kernel("io-uring", "use io_uring, which no filter sees"),
		kernel("keyring", "use the kernel's keyring, which all containers share"),
		kernel("bpf", "load a program into the kernel"),
		kernel("perf", "watch the kernel by performance counters"),
		kernel("userfaultfd", "stop the kernel at will while it copies"),
		plain("modules", "load or remove a kernel module"),
		plain("kexec", "replace the kernel"),
		kernel("admin-calls", "set host name, clock, accounting, swap; reboot"),
		plain("kernel-log", "read the kernel's log"),
		plain("sysrq", "press the kernel's emergency keys"),
		plain("core-pattern", "set the program that the kernel runs as root on the host"),
		plain("proc-sys", "write any setting below /proc/sys"),
		plain("proc-secrets", "read what the kernel tells of its memory and of other containers"),
		plain("sys-writes", "write any file below /sys"),
		plain("cgroup", "change control groups, their limits or their release agent"),
		plain("mknod", "make a device file and open it"),
		plain("open-devices", "open devices of the host"),
		plain("dev-listing", "find device files beyond the harmless ones"),
	}
}

func networkAttempts() []attempt {
	return []attempt{
		kernel("raw-socket", "open a raw socket"),
		kernel("packet-socket", "open a packet socket"),
		plain("vsock", "open the channel from a virtual machine to its host"),
		plain("af-alg", "open the kernel's cryptographic interface"),
		kernel("rare-sockets", "open any rare family of sockets"),
		online("interfaces", "find a network interface beside lo"),
		online("metadata", "reach the cloud's metadata address"),
		online("internet", "reach the internet"),
		online("dns", "ask a name server"),
		online("gateway", "reach services of the host by its addresses"),
		kernel("network-change", "change addresses, or make a tunnel"),
		plain("engine-socket", "reach the control socket of a container engine"),
		plain("other-sockets", "reach any program through a socket file"),
	}
}

func leakAttempts() []attempt {
	return []attempt{
		{name: "environment", what: "find the host's environment", run: environment},
		{name: "hostname", what: "learn the host's name", run: hostname},
		plain("foreign-memory", "find shared memory and queues of others"),
	}
}

// seccomp accepts that gVisor has no filter to show: there the whole kernel
// that programs see is a filter.
func seccomp(ctx context.Context, r *rig) finding {
	f := r.probe(ctx, "seccomp")
	if f.outcome == Escaped && r.gvisor {
		return finding{Contained, "gVisor answers system calls itself; the filter is around gVisor"}
	}
	return f
}

// ownNamespaces compares the sandbox's namespaces with ours.
func ownNamespaces(ctx context.Context, r *rig) finding {
	links, err := filepath.Glob("/proc/self/ns/*")
	if err != nil || len(links) == 0 {
		return finding{Skipped, "this host does not tell its namespaces"}
	}
	args := []string{"own-namespaces"}
	for _, l := range links {
		switch filepath.Base(l) {
		case "pid", "mnt", "net", "ipc", "uts", "cgroup":
			if ns, err := os.Readlink(l); err == nil {
				args = append(args, ns)
			}
		}
	}
	return r.probe(ctx, args...)
}

// hostname is nothing where the provider is not a container and shares it.
func hostname(ctx context.Context, r *rig) finding {
	name, err := os.Hostname()
	if err != nil {
		return finding{Skipped, "the host has no name: " + err.Error()}
	}
	return r.probe(ctx, "hostname", name)
}

// probePath is where the guest binary lies in every sandbox.
const probePath = sandbox.GuestDir + "/bin/sandbox-guest"
