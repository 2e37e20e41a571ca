package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Bounds are what a control group holds an instance to, all of its processes
// together. Zero is no bound.
type Bounds struct {
	Memory   int64 // bytes, of which none may be swapped out
	PIDs     int64 // threads
	NanoCPUs int64 // 1e9 is one processor
}

// ownPIDs is what an instance has beside what runs inside: bubblewrap, the guest with
// its threads, and the shims of commands.
const ownPIDs = 128

// controllers are those that the bounds need, in the order of the kernel.
func (b Bounds) controllers() []string {
	var out []string
	for _, c := range []struct {
		name   string
		needed bool
	}{{"cpu", b.NanoCPUs > 0}, {"memory", b.Memory > 0}, {"pids", b.PIDs > 0}} {
		if c.needed {
			out = append(out, c.name)
		}
	}
	return out
}

// Groups is what control groups instances can have on this machine.
type Groups struct {
	// Manager is the option of busctl(1) for the service manager that makes them,
	// "--system" or "--user". Empty is none: they are made below Base.
	Manager string
	// Base is the group that was delegated to this process, as a folder.
	Base string
	// Controllers can bound them: "cpu", "memory" and "pids", or some of these.
	Controllers []string
	// Why instances have none, and what to do about it. Both are empty where they have.
	Why, Fix string
}

// Lacks returns those controllers that b needs and that groups do not have.
func (g Groups) Lacks(b Bounds) []string {
	return slices.DeleteFunc(b.controllers(), func(c string) bool { return slices.Contains(g.Controllers, c) })
}

// Within returns b without the bounds for which there is no controller, and
// reports whether there is a group to have.
func (g Groups) Within(b Bounds) (Bounds, bool) {
	lacks := g.Lacks(b)
	if slices.Contains(lacks, "cpu") {
		b.NanoCPUs = 0
	}
	if slices.Contains(lacks, "memory") {
		b.Memory = 0
	}
	if slices.Contains(lacks, "pids") {
		b.PIDs = 0
	}
	return b, g.Why == "" && len(b.controllers()) > 0
}

// groupRoot is where the hierarchy of version 2 is mounted where it is the only one.
const groupRoot = "/sys/fs/cgroup"

// ownLeaf is the group below a delegated one in which we are ourselves: one with
// groups below it that are bounded has no processes of its own.
const ownLeaf = "supervisor"

// findGroups says which groups a process of the user uid can make. own is the
// content of /proc/self/cgroup, the rest are questions to the machine.
func findGroups(uid int, own string, unified bool, exists func(path string) bool, read func(path string) string, delegated func(dir string) bool, busctl bool) Groups {
	const fix = "boot with systemd.unified_cgroup_hierarchy=1, or use a system that has control groups of version 2 alone, such as Debian 11 and later"
	if !unified {
		return Groups{Why: "control groups of version 1 cannot be delegated to a user", Fix: fix}
	}
	g := Groups{}
	switch bus := "/run/user/" + strconv.Itoa(uid) + "/bus"; {
	case !exists("/run/systemd/system"):
		g.Why, g.Fix = "there is no systemd that makes control groups", "run this in a control group that is delegated to it (user.delegate)"
	case !busctl:
		g.Why, g.Fix = "there is no busctl, with which systemd is asked for a control group", "install the package systemd"
	case uid == 0:
		g.Manager, g.Base = "--system", groupRoot
	case exists(bus):
		user := "user-" + strconv.Itoa(uid) + ".slice/user@" + strconv.Itoa(uid) + ".service"
		g.Manager, g.Base = "--user", filepath.Join(groupRoot, "user.slice", user)
	default:
		g.Why = "the service manager of this user does not answer at " + bus
		g.Fix = "install dbus-user-session, and log in or run: loginctl enable-linger"
	}
	if g.Manager == "" {
		base := filepath.Join(groupRoot, ownGroup(own))
		if filepath.Base(base) == ownLeaf {
			base = filepath.Dir(base)
		}
		if base == groupRoot || !delegated(base) {
			return g
		}
		g = Groups{Base: base}
	}
	for _, c := range strings.Fields(read(filepath.Join(g.Base, "cgroup.controllers"))) {
		if c == "cpu" || c == "memory" || c == "pids" {
			g.Controllers = append(g.Controllers, c)
		}
	}
	return g
}

// ownGroup returns the path of version 2 in the content of a cgroup file of /proc.
func ownGroup(content string) string {
	for line := range strings.Lines(content) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n")
		}
	}
	return "/"
}

// A Counter is how often something has happened to a control group.
type Counter int64

// counter returns the number after key in the file of a group; 0 where there is none.
func counter(path, key string) Counter {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) == 2 && string(f[0]) == key {
			n, err := strconv.ParseInt(string(f[1]), 10, 64)
			if err == nil {
				return Counter(n)
			}
		}
	}
	return 0
}

// amount returns the number that a file of a group holds; 0 where it holds none, as
// "max" is none.
func amount(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
