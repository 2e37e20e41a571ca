package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	groupPrefix = "sandbox-"
	groupSuffix = ".scope"

	// inside is the group below that of an instance that has its processes, but for
	// those of commands with a group of their own.
	inside = "inside"

	// groupWithin bounds how long the service manager may take for a group.
	groupWithin = 30 * time.Second
	// groupPoll is the time between two looks at what the kernel or the service
	// manager does by itself.
	groupPoll = 2 * time.Millisecond
)

// FindGroups says which control groups instances of this process can have.
func FindGroups() Groups {
	var st unix.Statfs_t
	unified := unix.Statfs(groupRoot, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
	own, _ := os.ReadFile("/proc/self/cgroup")
	_, missing := exec.LookPath("busctl")
	return findGroups(os.Geteuid(), string(own), unified,
		func(path string) bool { _, err := os.Stat(path); return err == nil },
		func(path string) string { b, _ := os.ReadFile(path); return string(b) },
		delegatedGroup, missing == nil)
}

// delegatedGroup reports whether the service manager has left the group to us, see
// CONTROL_GROUP_INTERFACE of systemd: its attribute says so, and we may write.
func delegatedGroup(dir string) bool {
	var b [8]byte
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Lgetxattr(dir, name, b[:]); err == nil && string(b[:n]) == "1" {
			return unix.Access(dir, unix.W_OK) == nil && unix.Access(dir+"/cgroup.procs", unix.W_OK) == nil &&
				unix.Access(dir+"/cgroup.subtree_control", unix.W_OK) == nil
		}
	}
	return false
}

// A group is the control group of an instance. A nil one is none.
type group struct {
	dir string
	own bool // made by us, and removed by us
}

// An Ungrouped error says that an instance could not have the control group that bounds
// it.
type Ungrouped struct{ Cause error }

// Error implements error.
func (u *Ungrouped) Error() string { return "make a control group: " + u.Cause.Error() }

// Unwrap returns the cause.
func (u *Ungrouped) Unwrap() error { return u.Cause }

// newGroup puts the process pid, which has no others below it yet, into a control
// group of its own with these bounds. Where there is an error, it may have one.
func newGroup(ctx context.Context, pid int, b Bounds) (*group, error) {
	ctx, done := context.WithTimeout(ctx, groupWithin)
	defer done()
	on := FindGroups()
	if on.Why != "" {
		return nil, errors.New(on.Why)
	}
	name := groupPrefix + randomHex() + groupSuffix
	var g *group
	var err error
	if on.Manager != "" {
		g, err = managedGroup(ctx, on.Manager, name, pid, b)
	} else {
		g, err = ownedGroup(on.Base, name, b)
	}
	if err != nil {
		return nil, err
	}
	// A group whose groups are bounded may have no processes itself.
	if err := g.write(inside, "", ""); err != nil {
		return nil, err
	}
	if err := g.write(inside, "cgroup.procs", strconv.Itoa(pid)); err != nil {
		return nil, err
	}
	for _, c := range strings.Fields(g.text("", "cgroup.controllers")) {
		if c == "memory" || c == "pids" || c == "cpu" {
			if err := g.write("", "cgroup.subtree_control", "+"+c); err != nil {
				return nil, err
			}
		}
	}
	return g, g.holds(b)
}

// managedGroup has the service manager make a scope for pid, see StartTransientUnit of
// org.freedesktop.systemd1(5). The scope is gone when its last process has ended.
func managedGroup(ctx context.Context, manager, name string, pid int, b Bounds) (*group, error) {
	properties := []string{
		"Description", "s", "A sandbox", "PIDs", "au", "1", strconv.Itoa(pid), "Delegate", "b", "true",
		"CollectMode", "s", "inactive-or-failed", "KillSignal", "i", strconv.Itoa(int(unix.SIGKILL)),
	}
	count := 5
	add := func(name string, n int64) {
		if n > 0 {
			properties, count = append(properties, name, "t", strconv.FormatInt(n, 10)), count+1
		}
	}
	add("MemoryMax", b.Memory)
	if b.Memory > 0 {
		properties, count = append(properties, "MemorySwapMax", "t", "0"), count+1
	}
	if b.PIDs > 0 {
		add("TasksMax", b.PIDs+ownPIDs)
	}
	add("CPUQuotaPerSecUSec", b.NanoCPUs/1000)
	args := append([]string{manager, "--quiet", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
		"org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail", strconv.Itoa(count)}, properties...)
	cmd := exec.CommandContext(ctx, "busctl", append(args, "0")...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	cmd.Env = []string{"LC_ALL=C", "XDG_RUNTIME_DIR=/run/user/" + strconv.Itoa(os.Geteuid())}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ask systemd for a control group: %w: %s", err, firstOf(string(out), err))
	}
	for {
		at, err := groupOf(pid)
		if err != nil {
			return nil, err
		}
		if filepath.Base(at) == name {
			return &group{dir: filepath.Join(groupRoot, at)}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("systemd has made the control group %s, and has not moved process %d there: %w", name, pid, ctx.Err())
		case <-time.After(groupPoll):
		}
	}
}

// ownedGroup makes a group below base, which is ours.
func ownedGroup(base, name string, b Bounds) (*group, error) {
	top := &group{dir: base}
	top.sweep()
	if err := top.write(ownLeaf, "", ""); err != nil {
		return nil, err
	}
	// Another process of base may fork as it is moved.
	for range 100 {
		list := strings.Fields(top.text("", "cgroup.procs"))
		if len(list) == 0 {
			break
		}
		for _, pid := range list {
			if err := top.write(ownLeaf, "cgroup.procs", pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return nil, err
			}
		}
	}
	for _, c := range b.controllers() {
		if err := top.write("", "cgroup.subtree_control", "+"+c); err != nil {
			return nil, err
		}
	}
	g := &group{dir: filepath.Join(base, name), own: true}
	if err := g.write("", "", ""); err != nil {
		return nil, err
	}
	for _, w := range [][2]string{
		{"memory.max", decimal(b.Memory)}, {"memory.swap.max", zeroIf(b.Memory > 0)}, {"pids.max", decimal(max(0, b.PIDs) + ownPIDs*min(1, b.PIDs))},
		{"cpu.max", quota(b.NanoCPUs)},
	} {
		if w[1] == "" {
			continue
		}
		err := g.write("", w[0], w[1])
		if errors.Is(err, fs.ErrNotExist) && w[0] == "memory.swap.max" {
			continue // a kernel without swap
		}
		if err != nil {
			return nil, errors.Join(err, os.Remove(g.dir))
		}
	}
	return g, nil
}

func decimal(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func zeroIf(yes bool) string {
	if yes {
		return "0"
	}
	return ""
}

// quota is what cpu.max holds for so many processors.
func quota(nano int64) string {
	const period = 100_000 // microseconds, as systemd has it
	if nano <= 0 {
		return ""
	}
	return strconv.FormatInt(max(1000, nano/(1e9/period)), 10) + " " + strconv.Itoa(period)
}

// holds returns an error unless the kernel has the bounds.
func (g *group) holds(b Bounds) error {
	for _, c := range []struct {
		file string
		set  bool
	}{{"memory.max", b.Memory > 0}, {"pids.max", b.PIDs > 0}, {"cpu.max", b.NanoCPUs > 0}} {
		if text := g.text("", c.file); c.set && (text == "" || strings.HasPrefix(text, "max")) {
			return fmt.Errorf("the control group %s has no bound in %s", g.dir, c.file)
		}
	}
	return nil
}

// write writes a file of the group below g; without a file it makes the group.
func (g *group) write(below, file, text string) error {
	dir := filepath.Join(g.dir, below)
	if file == "" {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func (g *group) text(below, file string) string {
	b, err := os.ReadFile(filepath.Join(g.dir, below, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// groupOf returns the group of version 2 that the process is in, below the root.
func groupOf(pid int) (string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", err
	}
	return ownGroup(string(b)), nil
}

// kill ends all processes of the group at once, also when it is frozen. Callers kill
// the guest as well.
func (g *group) kill() {
	if g != nil && g.write("", "cgroup.kill", "1") != nil { // before Linux 5.14 there is none
		_ = g.write("", "cgroup.freeze", "0") // else bubblewrap would not see that the guest has ended
	}
}

// kill ends the instance of the record at once.
func (r Record) kill(ctx context.Context) error {
	if g, err := r.own(); err == nil {
		g.kill()
	}
	return r.Process.Kill(ctx)
}

// remove removes the group, where the service manager does not. Nothing runs in it.
func (g *group) remove() {
	if g == nil || !g.own {
		return
	}
	for range 50 { // the kernel may count a process that has ended a moment longer
		list, _ := os.ReadDir(g.dir)
		for _, e := range list {
			if e.IsDir() {
				_ = os.Remove(filepath.Join(g.dir, e.Name()))
			}
		}
		if err := os.Remove(g.dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(groupPoll)
	}
}

// sweep removes the groups of instances below g whose orchestrator was killed. One that
// is just being made is young.
func (g *group) sweep() {
	list, _ := os.ReadDir(g.dir)
	for _, e := range list {
		old := &group{dir: filepath.Join(g.dir, e.Name()), own: true}
		st, err := e.Info()
		if err != nil || !e.IsDir() || !groupName(e.Name()) || time.Since(st.ModTime()) < time.Minute ||
			!strings.Contains(old.text("", "cgroup.events"), "populated 0") {
			continue
		}
		old.remove()
	}
}

func groupName(base string) bool {
	return strings.HasPrefix(base, groupPrefix) && strings.HasSuffix(base, groupSuffix)
}

// Group is the folder of the instance's control group, or empty.
func (w *Instance) Group() string {
	if g := w.group.Load(); g != nil {
		return g.dir
	}
	return ""
}

// own returns the group of the record, or nil where there is none or it is not that of
// the record's process any more.
func (r Record) own() (*group, error) {
	if r.Group == "" {
		return nil, nil
	}
	if filepath.Clean(r.Group) != r.Group || !strings.HasPrefix(r.Group, groupRoot+"/") || !groupName(filepath.Base(r.Group)) {
		return nil, fmt.Errorf("the control group %q of the sandbox is none of ours", r.Group)
	}
	at, err := groupOf(r.Process.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil // it has ended
	}
	if err != nil {
		return nil, err
	}
	if full := filepath.Join(groupRoot, at); !strings.HasPrefix(full, r.Group+"/") {
		return nil, fmt.Errorf("process %d of the sandbox is in the control group %s, not in %s", r.Process.PID, full, r.Group)
	}
	return &group{dir: r.Group}, nil
}

// Paused reports whether the instance is: its control group is frozen, or, where it has
// none, its first process is stopped.
func (r Record) Paused() (bool, error) {
	g, err := r.own()
	if err != nil {
		return false, err
	}
	if g == nil {
		return r.Process.Stopped()
	}
	return g.text("", "cgroup.freeze") == "1", nil
}

// Freeze freezes the instance by its control group, and returns when all of its
// processes are frozen. It reports whether the instance has a group: where not, nothing
// was done.
func (r Record) Freeze(ctx context.Context) (has bool, err error) {
	g, err := r.own()
	if g == nil || err != nil {
		return false, err
	}
	if err := g.write("", "cgroup.freeze", "1"); err != nil {
		return true, err
	}
	for counter(filepath.Join(g.dir, "cgroup.events"), "frozen") != 1 {
		if counter(filepath.Join(g.dir, "cgroup.events"), "populated") == 0 {
			return true, nil // it has ended
		}
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-time.After(groupPoll):
		}
	}
	return true, nil
}

// Thaw has the instance go on, by its control group. It reports whether the instance has
// one.
func (r Record) Thaw() (has bool, err error) {
	g, err := r.own()
	if g == nil || err != nil {
		return false, err
	}
	return true, g.write("", "cgroup.freeze", "0")
}

// OutOfMemory counts how often the kernel has ended a process inside because the
// instance had used its memory. It is 0 where the instance has no control group.
func (w *Instance) OutOfMemory() Counter {
	g := w.group.Load()
	if g == nil {
		return 0
	}
	return counter(filepath.Join(g.dir, inside, "memory.events"), "oom_kill")
}

// A GroupUse is what the control group of an instance uses.
type GroupUse struct {
	CPU                 time.Duration
	Memory, MemoryLimit int64 // bytes; without what the kernel can drop at once
	PIDs                int64
}

// Use returns what the instance uses by its control group, and reports whether it has
// one that counts.
func (r Record) Use() (GroupUse, bool) {
	g, err := r.own()
	if g == nil || err != nil {
		return GroupUse{}, false
	}
	at := func(file string) string { return filepath.Join(g.dir, file) }
	if _, err := os.Stat(at("memory.current")); err != nil {
		return GroupUse{}, false
	}
	return GroupUse{
		CPU:         time.Duration(counter(at("cpu.stat"), "usage_usec")) * time.Microsecond,
		Memory:      max(0, amount(at("memory.current"))-int64(counter(at("memory.stat"), "inactive_file"))),
		MemoryLimit: amount(at("memory.max")), PIDs: amount(at("pids.current")),
	}, true
}
