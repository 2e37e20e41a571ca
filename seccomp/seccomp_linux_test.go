package seccomp_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/seccomp"
	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write profile.json anew")

// TestProfile holds that profile.json is what the rules make of the public
// default profile.
func TestProfile(t *testing.T) {
	want := generate(t)
	if *update {
		if err := os.WriteFile("profile.json", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := seccomp.Profile(); !*update && got != want {
		t.Fatal("profile.json is stale: run go generate ./seccomp and review the difference")
	}
}

// TestDenied holds that no rule of the profile allows what we mean to deny.
func TestDenied(t *testing.T) {
	var p moby.Seccomp
	if err := json.Unmarshal([]byte(seccomp.Profile()), &p); err != nil {
		t.Fatal(err)
	}
	if p.DefaultAction != specs.ActErrno {
		t.Errorf("default action is %s, want an error", p.DefaultAction)
	}
	denied := seccomp.Denied()
	for _, rule := range p.Syscalls {
		for _, n := range rule.Names {
			if _, no := denied[n]; no && rule.Action == specs.ActAllow {
				t.Errorf("%s is allowed", n)
			}
			if strings.HasPrefix(n, "socket") && n != "socketpair" && len(rule.Args) == 0 {
				t.Errorf("%s is allowed for every family", n)
			}
		}
		if rule.Includes != nil && len(rule.Includes.Caps) > 0 {
			t.Errorf("a rule depends on capabilities: %v", rule.Names)
		}
	}
	for _, a := range p.ArchMap {
		if len(a.SubArches) > 0 {
			t.Errorf("%s admits sub-architectures %v", a.Arch, a.SubArches)
		}
	}
}

// TestNeeded holds that what every program needs stays allowed.
func TestNeeded(t *testing.T) {
	for _, n := range []string{"execve", "clone", "openat", "openat2", "futex", "landlock_restrict_self", "pidfd_open", "close_range", "memfd_create", "epoll_pwait2"} {
		if !strings.Contains(seccomp.Profile(), `"`+n+`"`) {
			t.Errorf("%s is not allowed", n)
		}
	}
}

func generate(t *testing.T) string {
	t.Helper()
	p := moby.DefaultProfile()
	out := &moby.Seccomp{LinuxSeccomp: specs.LinuxSeccomp{
		DefaultAction:   specs.ActErrno,
		DefaultErrnoRet: p.DefaultErrnoRet,
	}}
	for _, a := range p.ArchMap {
		// No sub-architectures: a 32-bit call would pass by every rule
		// that looks at an argument.
		out.ArchMap = append(out.ArchMap, moby.Architecture{Arch: a.Arch, SubArches: []specs.Arch{}})
	}
	denied := seccomp.Denied()
	for _, rule := range p.Syscalls {
		if rule.Includes != nil && len(rule.Includes.Caps) > 0 {
			continue // our processes have no capabilities
		}
		var names []string
		for _, n := range rule.Names {
			if _, no := denied[n]; !no && n != "socket" && n != "socketpair" {
				names = append(names, n)
			}
		}
		if rule.Names = names; len(names) > 0 {
			out.Syscalls = append(out.Syscalls, rule)
		}
	}
	// Local sockets, the two internet families (there is no interface but
	// the loopback one unless settings give one), and netlink, which
	// address look-ups need.
	for _, f := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		out.Syscalls = append(out.Syscalls, allowFamily("socket", f))
	}
	out.Syscalls = append(out.Syscalls, allowFamily("socketpair", unix.AF_UNIX))
	b, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func allowFamily(call string, family uint64) *moby.Syscall {
	return &moby.Syscall{LinuxSyscall: specs.LinuxSyscall{
		Names:  []string{call},
		Action: specs.ActAllow,
		Args:   []specs.LinuxSeccompArg{{Index: 0, Value: family, Op: specs.OpEqualTo}},
	}}
}
