package seccomp_test

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/seccomp"
	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write profile.json anew")

// TestProfile verifies that the stored files equal what the rules generate from
// the public default profile.
func TestProfile(t *testing.T) {
	for name, tc := range map[string]struct{ got, want string }{
		"profile.json": {seccomp.Profile(), generate(t, nil)},
		"browser.json": {seccomp.Browser(), generateBrowser(t)},

		"profile.canonical.json": {canonical(t, seccomp.Profile()), sortedKeys(t, generate(t, nil))},
		"browser.canonical.json": {canonical(t, seccomp.Browser()), sortedKeys(t, generateBrowser(t))},
	} {
		if *update {
			if err := os.WriteFile(name, []byte(tc.want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if !*update && tc.got != tc.want {
			t.Errorf("%s is stale: run go generate ./seccomp and review the difference", name)
		}
	}
}

// canonical returns the form of a profile that is stored beside it.
func canonical(t *testing.T, p string) string {
	t.Helper()
	text, ours := seccomp.Canonical(p)
	if !ours {
		t.Error("a profile of ours has no canonical form")
	}
	if _, ours := seccomp.Canonical(p + " "); ours {
		t.Error("somebody else's profile counts as ours")
	}
	return text
}

// sortedKeys writes JSON text with sorted keys and without space.
func sortedKeys(t *testing.T, text string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDenied verifies that no rule of the profile allows a call of [Denied].
func TestDenied(t *testing.T) {
	t.Run("profile", func(t *testing.T) { testDenied(t, seccomp.Profile(), nil) })
	t.Run("browser", func(t *testing.T) { testDenied(t, seccomp.Browser(), seccomp.ForBrowser()) })
	for n, why := range seccomp.ForDebuggers() {
		if strings.Contains(seccomp.Browser(), `"`+n+`"`) || !strings.Contains(seccomp.Profile(), `"`+n+`"`) || why == "" {
			t.Errorf("%s is denied in sandboxes, allowed in browsers, or has no description", n)
		}
	}
}

// TestBrowserGivesBackLittle verifies that the browser profile differs from the
// container profile only in the calls of [ForBrowser], and that the container
// profile denies those.
func TestBrowserGivesBackLittle(t *testing.T) {
	plain, browser := rules(t, seccomp.Profile()), rules(t, seccomp.Browser())
	plain = slices.DeleteFunc(plain, func(r *moby.Syscall) bool {
		return !slices.ContainsFunc(r.Names, func(n string) bool { return seccomp.ForDebuggers()[n] == "" })
	})
	given := map[string]bool{}
	for _, rule := range browser[len(plain):] {
		if rule.Action != specs.ActAllow || len(rule.Names) != 1 || len(rule.Args) == 0 && rule.Names[0] != "chroot" {
			t.Errorf("rule %+v", rule)
		}
		given[rule.Names[0]] = true
	}
	for i, rule := range plain {
		if !reflect.DeepEqual(rule, browser[i]) {
			t.Errorf("rule %d differs: %v and %v", i, rule.Names, browser[i].Names)
		}
		for _, n := range rule.Names {
			if given[n] && len(rule.Args) == 0 {
				t.Errorf("%s is allowed in any case", n)
			}
		}
	}
	for n, why := range seccomp.ForBrowser() {
		if !given[n] || why == "" {
			t.Errorf("%s is not given back, or nobody says why: %q", n, why)
		}
		delete(given, n)
	}
	if len(given) != 0 {
		t.Errorf("given back without a reason: %v", given)
	}
	for _, n := range []string{"mount", "setns", "pivot_root", "umount2", "ptrace", "bpf", "io_uring_setup", "userfaultfd"} {
		if strings.Contains(seccomp.Browser(), `"`+n+`"`) {
			t.Errorf("%s is in the filter of browsers", n)
		}
	}
}

func rules(t *testing.T, profile string) []*moby.Syscall {
	t.Helper()
	var p moby.Seccomp
	if err := json.Unmarshal([]byte(profile), &p); err != nil {
		t.Fatal(err)
	}
	return p.Syscalls
}

// testDenied verifies that the profile allows no call of [Denied] except those
// in back.
func testDenied(t *testing.T, profile string, back map[string]string) {
	t.Helper()
	var p moby.Seccomp
	if err := json.Unmarshal([]byte(profile), &p); err != nil {
		t.Fatal(err)
	}
	if p.DefaultAction != specs.ActErrno {
		t.Errorf("default action is %s, want an error", p.DefaultAction)
	}
	denied, narrowed := seccomp.Denied(), map[string]bool{}
	for n := range back {
		delete(denied, n)
	}
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

// TestNeeded verifies that the profile allows the calls that every program
// needs.
func TestNeeded(t *testing.T) {
	for _, n := range []string{"execve", "clone", "openat", "openat2", "futex", "landlock_restrict_self", "pidfd_open", "close_range", "memfd_create", "epoll_pwait2"} {
		if !strings.Contains(seccomp.Profile(), `"`+n+`"`) {
			t.Errorf("%s is not allowed", n)
		}
	}
}

func generateBrowser(t *testing.T) string {
	return generate(t, seccomp.ForDebuggers(), forBrowser()...)
}

// generate makes a profile from the public one, without some calls and with
// more rules at the end.
func generate(t *testing.T, without map[string]string, more ...*moby.Syscall) string {
	t.Helper()
	p := moby.DefaultProfile()
	out := &moby.Seccomp{LinuxSeccomp: specs.LinuxSeccomp{
		DefaultAction:   specs.ActErrno,
		DefaultErrnoRet: p.DefaultErrnoRet,
	}}
	for _, a := range p.ArchMap {
		// No sub-architectures: a 32-bit call would bypass every rule that
		// tests an argument.
		out.ArchMap = append(out.ArchMap, moby.Architecture{Arch: a.Arch, SubArches: []specs.Arch{}})
	}
	denied := seccomp.Denied()
	narrowed := map[string]bool{}
	for _, rule := range narrow() {
		narrowed[rule.Names[0]] = true
	}
	for _, rule := range p.Syscalls {
		if rule.Includes != nil && len(rule.Includes.Caps) > 0 {
			continue // processes in the sandbox have no capabilities
		}
		var names []string
		for _, n := range rule.Names {
			if _, no := denied[n]; !no && !narrowed[n] && without[n] == "" {
				names = append(names, n)
			}
		}
		if rule.Names = names; len(names) > 0 {
			out.Syscalls = append(out.Syscalls, rule)
		}
	}
	out.Syscalls = append(out.Syscalls, allow("personality", noRandomize))
	out.Syscalls = append(append(out.Syscalls, narrow()...), more...)
	b, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// noRandomize is ADDR_NO_RANDOMIZE of personality(2), with which a debugger
// runs a program at the same addresses each time.
const noRandomize = 0x0040000

// narrow returns the rules for calls that the profile allows with some
// arguments only.
func narrow() []*moby.Syscall {
	var rules []*moby.Syscall
	// Local sockets, the two internet families (the only interface is loopback
	// unless settings add one), and netlink, which address look-ups need.
	for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		rules = append(rules, allow("socket", family))
	}
	rules = append(rules, allow("socketpair", unix.AF_UNIX))
	// Limits and priorities of the calling process only. The guest has the same
	// user id as commands, so a command could otherwise starve it, or end it
	// with a CPU-time limit.
	for _, call := range []string{"prlimit64", "sched_setattr", "sched_setscheduler", "sched_setparam"} {
		rules = append(rules, allow(call, 0))
	}
	// SCHED_OTHER of any process inside: see the rules of bpf_wall.go.
	normal := allow("sched_setscheduler")
	normal.Args = []specs.LinuxSeccompArg{{Index: 1, Value: 0, Op: specs.OpEqualTo}}
	rules = append(rules, normal)
	rules = append(rules, modes()...)
	return append(rules,
		allow("setpriority", unix.PRIO_PROCESS, 0),
		allow("ioprio_set", 1, 0), // IOPRIO_WHO_PROCESS
	)
}

// modes returns rules that allow calls to set a file's mode without the
// set-user-ID and set-group-ID bits. See modeRules about mkdir and openat2.
func modes() []*moby.Syscall {
	const setIDBits = unix.S_ISUID | unix.S_ISGID
	// Flags with which open reads its mode: O_CREAT, the bit that O_TMPFILE
	// alone has, and O_CREAT of MIPS, which elsewhere is O_NOCTTY.
	const making = 0x40 | 0x400000 | 0x100
	without := func(call string, arg uint, bits uint64) *moby.Syscall {
		rule := allow(call)
		rule.Args = []specs.LinuxSeccompArg{{Index: arg, Value: bits, ValueTwo: 0, Op: specs.OpMaskedEqual}}
		return rule
	}
	return []*moby.Syscall{
		without("chmod", 1, setIDBits), without("fchmod", 1, setIDBits), without("fchmodat", 2, setIDBits), without("fchmodat2", 2, setIDBits),
		without("creat", 1, setIDBits), without("mknod", 1, setIDBits), without("mknodat", 2, setIDBits),
		without("open", 1, making), without("open", 2, setIDBits),
		without("openat", 2, making), without("openat", 3, setIDBits),
		without("mq_open", 1, making), without("mq_open", 2, setIDBits),
	}
}

// forBrowser returns the rules for the namespaces of Chromium's sandbox. For
// clone, the kernel knows no other namespace flags; Chromium does not run on
// s390, where the flags are the second argument.
func forBrowser() []*moby.Syscall {
	clone := allow("clone")
	clone.Args = []specs.LinuxSeccompArg{{
		Index: 0, Value: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP,
		ValueTwo: 0, Op: specs.OpMaskedEqual,
	}}
	clone.Excludes = &moby.Filter{Arches: []string{"s390", "s390x"}}
	return []*moby.Syscall{clone, allow("unshare", unix.CLONE_NEWUSER), allow("chroot")}
}

// allow returns a rule that allows a call whose first arguments equal args.
func allow(call string, args ...uint64) *moby.Syscall {
	rule := &moby.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{call}, Action: specs.ActAllow}}
	for i, v := range args {
		rule.Args = append(rule.Args, specs.LinuxSeccompArg{Index: uint(i), Value: v, Op: specs.OpEqualTo})
	}
	return rule
}
