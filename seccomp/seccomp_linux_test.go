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
	denied, narrowed := seccomp.Denied(), map[string]bool{}
	for _, rule := range narrow() {
		narrowed[rule.Names[0]] = true
	}
	for _, rule := range p.Syscalls {
		for _, n := range rule.Names {
			if _, no := denied[n]; no && rule.Action == specs.ActAllow {
				t.Errorf("%s is allowed", n)
			}
			if narrowed[n] && len(rule.Args) == 0 {
				t.Errorf("%s is allowed for every argument", n)
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
	narrowed := map[string]bool{}
	for _, rule := range narrow() {
		narrowed[rule.Names[0]] = true
	}
	for _, rule := range p.Syscalls {
		if rule.Includes != nil && len(rule.Includes.Caps) > 0 {
			continue // our processes have no capabilities
		}
		var names []string
		for _, n := range rule.Names {
			if _, no := denied[n]; !no && !narrowed[n] {
				names = append(names, n)
			}
		}
		if rule.Names = names; len(names) > 0 {
			out.Syscalls = append(out.Syscalls, rule)
		}
	}
	out.Syscalls = append(out.Syscalls, narrow()...)
	b, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// narrow returns the rules for calls that are allowed for some arguments only.
func narrow() []*moby.Syscall {
	var rules []*moby.Syscall
	// Local sockets, the two internet families (there is no interface but
	// the loopback one unless settings give one), and netlink, which
	// address look-ups need.
	for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		rules = append(rules, allow("socket", family))
	}
	rules = append(rules, allow("socketpair", unix.AF_UNIX))
	// Limits and priorities of the caller itself. The guest has the same
	// user id as the code that it runs, so a process could otherwise starve
	// it, or end it with a limit of processor time.
	for _, call := range []string{"prlimit64", "sched_setattr", "sched_setscheduler", "sched_setparam"} {
		rules = append(rules, allow(call, 0))
	}
	return append(rules,
		allow("setpriority", unix.PRIO_PROCESS, 0),
		allow("ioprio_set", 1, 0), // IOPRIO_WHO_PROCESS
	)
}

// allow allows a call whose first arguments are the given ones.
func allow(call string, args ...uint64) *moby.Syscall {
	rule := &moby.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{call}, Action: specs.ActAllow}}
	for i, v := range args {
		rule.Args = append(rule.Args, specs.LinuxSeccompArg{Index: uint(i), Value: v, Op: specs.OpEqualTo})
	}
	return rule
}
