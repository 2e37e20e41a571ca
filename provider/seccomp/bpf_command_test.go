package seccomp

import (
	"slices"
	"testing"
)

func TestCommand(t *testing.T) {
	const creat, wronly, cloexec, directory = 0x40, 1, 0x80000, 0x10000
	plain, sockets, observed := Options{}, Options{UnixSockets: true}, Options{Observe: true}
	for _, tt := range []struct {
		what string
		o    Options
		call string
		args [6]uint64
		want Action
	}{
		{"Unix socket", plain, "socket", [6]uint64{1, 1}, refuseBpf(eperm)},
		{"Unix socket, observed", observed, "socket", [6]uint64{1, 1}, refuseBpf(eperm)},
		{"Unix socket, allowed", sockets, "socket", [6]uint64{1, 1}, bpfAllow},
		{"own Unix socket", Options{Observe: true, OwnSockets: true}, "socket", [6]uint64{1, 1 | cloexec}, bpfAllow},
		{"own socket for packets", Options{Observe: true, OwnSockets: true}, "socket", [6]uint64{1, 5}, bpfAllow},
		{"own socket for datagrams", Options{Observe: true, OwnSockets: true}, "socket", [6]uint64{1, 2 | cloexec}, refuseBpf(eperm)},
		{"own socket for datagrams by another name", Options{Observe: true, OwnSockets: true}, "socket", [6]uint64{1, 3}, refuseBpf(eperm)},
		{"own pair of datagrams", Options{Observe: true, OwnSockets: true}, "socketpair", [6]uint64{1, 2}, refuseBpf(eperm)},
		{"internet datagrams beside own sockets", Options{Observe: true, OwnSockets: true}, "socket", [6]uint64{2, 2}, bpfAllow},
		{"connect is judged", Options{Observe: true, OwnSockets: true}, "connect", [6]uint64{3}, Notify},
		{"connect, no own sockets", observed, "connect", [6]uint64{3}, bpfAllow},
		{"descriptors of others", plain, "pidfd_getfd", [6]uint64{7}, refuseBpf(eperm)},
		{"internet socket", plain, "socket", [6]uint64{2, 1}, bpfAllow},
		{"pair of streams", plain, "socketpair", [6]uint64{1, 1}, bpfAllow},
		{"pair of streams, closed on exec", plain, "socketpair", [6]uint64{1, 1 | cloexec}, bpfAllow},
		{"pair of packets", plain, "socketpair", [6]uint64{1, 5}, bpfAllow},
		{"pair of datagrams", plain, "socketpair", [6]uint64{1, 2 | cloexec}, refuseBpf(eperm)},
		{"pair of datagrams by another name", plain, "socketpair", [6]uint64{1, 3}, refuseBpf(eperm)},
		{"pair of datagrams, allowed", sockets, "socketpair", [6]uint64{1, 2}, bpfAllow},
		{"memory of others", plain, "process_vm_readv", [6]uint64{7}, refuseBpf(eperm)},
		{"memory of others, sockets allowed", sockets, "process_vm_readv", [6]uint64{7}, refuseBpf(eperm)},
		{"tracing", plain, "ptrace", [6]uint64{16, 7}, refuseBpf(eperm)},
		{"writing memory of others", plain, "process_vm_writev", [6]uint64{7}, refuseBpf(eperm)},
		{"tracing, allowed", Options{Trace: true}, "ptrace", [6]uint64{16, 7}, bpfAllow},
		{"memory of others, allowed", Options{Trace: true}, "process_vm_readv", [6]uint64{7}, bpfAllow},
		{"lease", plain, "fcntl", [6]uint64{3, 1024, 1}, refuseBpf(eperm)},
		{"lease, all allowed and observed", Options{UnixSockets: true, Observe: true}, "fcntl", [6]uint64{3, 1024, 1}, refuseBpf(eperm)},
		{"notice of changes", plain, "fcntl", [6]uint64{3, 1026, 1}, refuseBpf(eperm)},
		{"delegation", plain, "fcntl", [6]uint64{3, 1040}, refuseBpf(eperm)},
		{"flags of a descriptor", plain, "fcntl", [6]uint64{3, 4, 0x800}, bpfAllow},
		{"question for a lease", plain, "fcntl", [6]uint64{3, 1025}, bpfAllow},
		{"no cores", plain, "setrlimit", [6]uint64{4, 0x1000}, bpfSkip},
		{"no cores by the other call", observed, "prlimit64", [6]uint64{0, 4, 0x1000}, bpfSkip},
		{"no cores, with bits that nobody reads", observed, "prlimit64", [6]uint64{0, 1<<32 | 4, 1 << 32}, bpfSkip},
		{"question for the limit of cores", plain, "prlimit64", [6]uint64{0, 4, 0, 0x1000}, bpfAllow},
		{"another limit", plain, "prlimit64", [6]uint64{0, 7, 0x1000}, bpfAllow},
		{"another limit by the older call", plain, "setrlimit", [6]uint64{7, 0x1000}, bpfAllow},
		{"writing, not observed", plain, "openat", [6]uint64{0, 0, wronly}, bpfAllow},
		{"reading", observed, "openat", [6]uint64{0, 0, cloexec | directory}, bpfAllow},
		{"writing", observed, "openat", [6]uint64{0, 0, wronly}, Notify},
		{"reading and writing", observed, "openat", [6]uint64{0, 0, 2 | cloexec}, Notify},
		{"making", observed, "openat", [6]uint64{0, 0, creat}, Notify},
		{"truncating", observed, "openat", [6]uint64{0, 0, 0x200}, Notify},
		{"appending", observed, "openat", [6]uint64{0, 0, 0x400}, Notify},
		{"flags in another argument", observed, "openat", [6]uint64{wronly, wronly, 0, wronly}, bpfAllow},
		{"by the new call", observed, "openat2", [6]uint64{}, refuseBpf(enosys)},
		{"by the new call, not observed", plain, "openat2", [6]uint64{}, refuseBpf(enosys)},
		{"times by path", observed, "utimensat", [6]uint64{0, 0x1000}, Notify},
		{"times by a path at a round address", observed, "utimensat", [6]uint64{0, 1 << 32}, Notify},
		{"times of an open file", observed, "utimensat", [6]uint64{3, 0}, bpfAllow},
	} {
		for name, a := range architectures(t) {
			c := call{arch: a.audit, number: a.number(t, tt.call), args: tt.args}
			if got := Command(a, tt.o).run(t, c); got != tt.want {
				t.Errorf("%s, %s: got %#x, want %#x", name, tt.what, got, tt.want)
			}
		}
	}
}

// TestOpenAlone verifies the same for open, the older call that amd64 has.
func TestOpenAlone(t *testing.T) {
	a := architectures(t)["amd64"]
	p := Command(a, Options{Observe: true})
	for flags, want := range map[uint64]Action{0: bpfAllow, 0x80000: bpfAllow, 1: Notify, 2: Notify, 0x40: Notify, 1<<32 | 2: Notify, 1 << 32: bpfAllow} {
		if got := p.run(t, call{arch: a.audit, number: a.number(t, "open"), args: [6]uint64{0, flags}}); got != want {
			t.Errorf("open with %#x: got %#x, want %#x", flags, got, want)
		}
	}
}

func TestObserved(t *testing.T) {
	if !slices.IsSorted(observedBpf()) {
		t.Error("the list is not in order")
	}
	for name, a := range architectures(t) {
		for _, o := range []Options{{}, {UnixSockets: true}, {Observe: true}, {Observe: true, UnixSockets: true}, {Observe: true, OwnSockets: true}} {
			p := Command(a, o)
			wellFormed(t, p)
			want := bpfAllow
			if o.Observe {
				want = Notify
			}
			for _, n := range observedBpf() {
				if a.has(n) {
					refused := p.run(t, call{arch: a.audit, number: a.number(t, n), args: [6]uint64{3, 0x7f00_0000_1000}})
					if refused != want {
						t.Errorf("%s, %+v: %s gives %#x, want %#x", name, o, n, refused, want)
					}
				}
			}
			if got := p.run(t, call{arch: a.audit ^ 1, number: 1}); got != bpfKill {
				t.Errorf("%s: another architecture gives %#x", name, got)
			}
		}
	}
}
