package seccomp

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// dirt lists values for the upper half of an argument, which the kernel
// ignores.
var dirt = []uint64{0, 1 << 32, 0xffff_ffff_0000_0000}

func TestSandboxByArguments(t *testing.T) {
	for _, tt := range []struct {
		call string
		args [6]uint64
		want Action
	}{
		{"ioctl", [6]uint64{0, tiocsti}, refuseBpf(eperm)},
		{"ioctl", [6]uint64{0, tioclinux}, refuseBpf(eperm)},
		{"ioctl", [6]uint64{0, 0x5413}, bpfAllow}, // TIOCGWINSZ
		{"ioctl", [6]uint64{tiocsti, 0x5401}, bpfAllow},
		{"socket", [6]uint64{1}, bpfAllow}, {"socket", [6]uint64{2}, bpfAllow},
		{"socket", [6]uint64{10}, bpfAllow}, {"socket", [6]uint64{16}, bpfAllow},
		{"socket", [6]uint64{0}, refuseBpf(eafnosupport)}, {"socket", [6]uint64{17}, refuseBpf(eafnosupport)}, // AF_PACKET
		{"socket", [6]uint64{38}, refuseBpf(eafnosupport)}, {"socket", [6]uint64{40}, refuseBpf(eafnosupport)}, // AF_ALG, AF_VSOCK
		{"socket", [6]uint64{0xffffffff}, refuseBpf(eafnosupport)},
		{"socketpair", [6]uint64{1}, bpfAllow}, {"socketpair", [6]uint64{30}, refuseBpf(eafnosupport)}, // AF_TIPC
		{"clone", [6]uint64{0x11}, bpfAllow}, {"clone", [6]uint64{0x3d0f00}, bpfAllow}, // a process, a thread
		{"clone", [6]uint64{0x00020000 | 17}, refuseBpf(eperm)}, {"clone", [6]uint64{0x02000000}, refuseBpf(eperm)},
		{"clone", [6]uint64{0x04000000}, refuseBpf(eperm)}, {"clone", [6]uint64{0x08000000}, refuseBpf(eperm)},
		{"clone", [6]uint64{0x10000000}, refuseBpf(eperm)}, {"clone", [6]uint64{0x20000000}, refuseBpf(eperm)},
		{"clone", [6]uint64{0x40000000}, refuseBpf(eperm)}, {"clone", [6]uint64{0, 0x40000000}, bpfAllow},
		{"unshare", [6]uint64{0x400}, bpfAllow}, {"unshare", [6]uint64{0x10000000}, refuseBpf(eperm)},
		{"unshare", [6]uint64{0x80}, refuseBpf(eperm)}, {"unshare", [6]uint64{0x00020000}, refuseBpf(eperm)},
		{"clone3", [6]uint64{}, refuseBpf(enosys)},
		{"prlimit64", [6]uint64{0, 7}, bpfAllow}, {"prlimit64", [6]uint64{1, 7}, refuseBpf(eperm)},
		{"sched_setattr", [6]uint64{0, 1}, bpfAllow}, {"sched_setattr", [6]uint64{1}, refuseBpf(eperm)},
		{"sched_setscheduler", [6]uint64{0, 1}, bpfAllow}, {"sched_setscheduler", [6]uint64{2, 3}, refuseBpf(eperm)},
		{"sched_setscheduler", [6]uint64{2, 0}, bpfAllow}, {"sched_setscheduler", [6]uint64{2, 1}, refuseBpf(eperm)},
		{"sched_setparam", [6]uint64{0, 1}, bpfAllow}, {"sched_setparam", [6]uint64{2}, refuseBpf(eperm)},
		{"setpriority", [6]uint64{0, 0, 5}, bpfAllow}, {"setpriority", [6]uint64{0, 1}, refuseBpf(eperm)}, {"setpriority", [6]uint64{2, 0}, refuseBpf(eperm)},
		{"ioprio_set", [6]uint64{1, 0, 5}, bpfAllow}, {"ioprio_set", [6]uint64{1, 1}, refuseBpf(eperm)}, {"ioprio_set", [6]uint64{3, 0}, refuseBpf(eperm)},
		{"personality", [6]uint64{0}, bpfAllow}, {"personality", [6]uint64{8}, bpfAllow}, {"personality", [6]uint64{0x20000}, bpfAllow},
		{"personality", [6]uint64{0x20008}, bpfAllow}, {"personality", [6]uint64{0xffffffff}, bpfAllow},
		{"personality", [6]uint64{0x0400000}, refuseBpf(eperm)}, {"personality", [6]uint64{0x0040000}, bpfAllow}, // READ_IMPLIES_EXEC, ADDR_NO_RANDOMIZE
		{"personality", [6]uint64{0x0440000}, refuseBpf(eperm)},
	} {
		for name, a := range architectures(t) {
			for _, upper := range dirt {
				c := call{arch: a.audit, number: a.number(t, tt.call), args: tt.args}
				for i := range c.args {
					c.args[i] |= upper
				}
				if got := Filter(a).run(t, c); got != tt.want {
					t.Errorf("%s: %s%x gives %#x, want %#x", name, tt.call, c.args, got, tt.want)
				}
			}
		}
	}
}

// TestModes verifies that both filters refuse every way to set the set-user-ID
// or set-group-ID bit of a file, and refuse no other mode.
func TestModes(t *testing.T) {
	const creat, tmpfile, noctty, sock = 0x40, 0x410000, 0x100, 0o140000
	for name, a := range architectures(t) {
		for _, tt := range []struct {
			call string
			args func(mode uint64) [6]uint64
			bits bool // the call reads the two bits
		}{
			{"chmod", func(m uint64) [6]uint64 { return [6]uint64{0, m} }, true},
			{"fchmod", func(m uint64) [6]uint64 { return [6]uint64{3, m} }, true},
			{"fchmodat", func(m uint64) [6]uint64 { return [6]uint64{3, 0, m} }, true},
			{"fchmodat2", func(m uint64) [6]uint64 { return [6]uint64{3, 0, m, 0x1000} }, true},
			{"creat", func(m uint64) [6]uint64 { return [6]uint64{0, m} }, true},
			{"mknod", func(m uint64) [6]uint64 { return [6]uint64{0, sock | m} }, true},
			{"mknodat", func(m uint64) [6]uint64 { return [6]uint64{3, 0, m} }, true},
			{"open", func(m uint64) [6]uint64 { return [6]uint64{0, creat | 1, m} }, true},
			{"open", func(m uint64) [6]uint64 { return [6]uint64{0, tmpfile | 2, m} }, true},
			{"openat", func(m uint64) [6]uint64 { return [6]uint64{0, 0, creat, m} }, true},
			{"openat", func(m uint64) [6]uint64 { return [6]uint64{0, 0, tmpfile | 1, m} }, true},
			{"mq_open", func(m uint64) [6]uint64 { return [6]uint64{0, creat, m} }, true},
			{"open", func(m uint64) [6]uint64 { return [6]uint64{m, noctty | 2, m} }, false},
			{"openat", func(m uint64) [6]uint64 { return [6]uint64{m, m, 0x80000, m} }, false},
			{"mq_open", func(m uint64) [6]uint64 { return [6]uint64{0, 2, m} }, false},
			{"mkdirat", func(m uint64) [6]uint64 { return [6]uint64{3, 0, m} }, false},
		} {
			if !a.has(tt.call) {
				continue
			}
			for mode, bit := range map[uint64]bool{0o644: false, 0o1777: false, 0o4755: true, 0o2755: true, 0o6000: true, 0o4000: true, 0o2000: true} {
				for _, upper := range dirt {
					c := call{arch: a.audit, number: a.number(t, tt.call), args: tt.args(mode | upper)}
					want := bpfAllow
					if bit && tt.bits {
						want = refuseBpf(eperm)
					}
					for kind, p := range map[string]bpfProgram{"wall": Filter(a), "container": Container(a, Options{Trace: true})} {
						if got := p.run(t, c); got != want {
							t.Errorf("%s, %s: %s%x gives %#x, want %#x", name, kind, tt.call, c.args, got, want)
						}
					}
				}
			}
		}
		for o, want := range map[Options]Action{{}: refuseBpf(eperm), {Trace: true}: bpfAllow} {
			p := Container(a, o)
			wellFormed(t, p)
			for _, n := range tracing() {
				refused(t, p, name+": "+n, a.audit, a.number(t, n), want)
			}
			refused(t, p, name+": openat2", a.audit, a.number(t, "openat2"), refuseBpf(enosys))
		}
	}
}

func TestSandboxByName(t *testing.T) {
	for name, a := range architectures(t) {
		p := Filter(a)
		wellFormed(t, p)
		for want, list := range map[Action][]string{refuseBpf(enosys): absent(), refuseBpf(eperm): forbidden()} {
			for _, call := range list {
				if _, known := numbers()[call]; !known {
					t.Errorf("%s is in no table of numbers", call)
				}
				if a.has(call) {
					refused(t, p, name+": "+call, a.audit, a.number(t, call), want)
				}
			}
		}
		refused(t, p, name+": newer than the table", a.audit, newest+1, refuseBpf(enosys))
		refused(t, p, name+": the newest number", a.audit, newest, bpfAllow)
		refused(t, p, name+": -1", a.audit, 0xffffffff, refuseBpf(enosys))
		refused(t, p, name+": 32 bits", 0x40000003, 1, bpfKill)
		refused(t, p, name+": no architecture", 0, 1, bpfKill)
	}
	both := architectures(t)
	refused(t, Filter(both["amd64"]), "x32", both["amd64"].audit, 0x40000000|59, refuseBpf(enosys))
	refused(t, Filter(both["amd64"]), "x32, mount", both["amd64"].audit, 0x40000000|165, refuseBpf(enosys))
	refused(t, Filter(both["amd64"]), "the other one", both["arm64"].audit, 63, bpfKill)
	refused(t, Filter(both["arm64"]), "the other one", both["amd64"].audit, 1, bpfKill)
	if _, err := ArchOf("riscv64"); err == nil {
		t.Error("there is a filter for riscv64")
	}
}

func refused(t *testing.T, p bpfProgram, what string, arch, number uint32, want Action) {
	t.Helper()
	if got := p.run(t, call{arch: arch, number: number}); got != want {
		t.Errorf("%s gives %#x, want %#x", what, got, want)
	}
}

// TestSandboxIsTheContainersFilter verifies that the sandbox filter refuses
// exactly the calls that the container profile does not allow.
func TestSandboxIsTheContainersFilter(t *testing.T) {
	var profile struct {
		Syscalls []struct {
			Names    []string
			Action   string
			Includes struct{ Arches []string }
		}
	}
	if err := json.Unmarshal([]byte(Profile()), &profile); err != nil {
		t.Fatal(err)
	}
	differs := map[string]string{
		"pidfd_getfd":           "the guest connects sockets by it; the command filter refuses it",
		"unshare":               "without namespaces it is harmless",
		"file_getattr":          "newer than the profile, and about files as fgetxattr is",
		"file_setattr":          "newer than the profile, and about files as fsetxattr is",
		"rseq_slice_yield":      "newer than the profile, and about the caller's own time",
		"arch_specific_syscall": "a range of numbers",
		"getpmsg":               "no kernel has it", "putpmsg": "no kernel has it", "afs_syscall": "no kernel has it",
		"tuxcall": "no kernel has it", "security": "no kernel has it", "vserver": "no kernel has it",
	}
	used := map[string]bool{}
	for name, a := range architectures(t) {
		allowed := map[string]bool{}
		for _, r := range profile.Syscalls {
			if inc := r.Includes.Arches; r.Action != "SCMP_ACT_ALLOW" || inc != nil && !slices.Contains(inc, name) {
				continue
			}
			for _, n := range r.Names {
				allowed[n] = true
			}
		}
		p := Filter(a)
		for n, number := range kernelNumbers(t, name) {
			got := p.run(t, call{arch: a.audit, number: number, args: [6]uint64{1}})
			if n == "clone" || n == "unshare" || n == "personality" || n == "setpriority" || allowed[n] && a.has(n) {
				got = p.run(t, call{arch: a.audit, number: number, args: argsAllowed(n)})
			}
			if _, known := differs[n]; known {
				used[n] = true
				continue
			}
			if (got == bpfAllow) != allowed[n] {
				t.Errorf("%s: %s gives %#x, and the profile's word is %v", name, n, got, allowed[n])
			}
		}
	}
	for n := range maps.Keys(differs) {
		if !used[n] {
			t.Errorf("%s is no exception any more", n)
		}
	}
	for n := range Denied() {
		if _, known := numbers()[n]; !known && !slices.Contains([]string{"ipc", "socketcall", "umount", "vm86", "vm86old"}, n) {
			t.Errorf("%s is denied in containers and not known here", n)
		}
	}
}

// argsAllowed returns arguments with which both filters allow the call, if they
// allow it at all.
func argsAllowed(call string) [6]uint64 {
	switch call {
	case "socket", "socketpair", "ioprio_set":
		return [6]uint64{1}
	}
	return [6]uint64{}
}
