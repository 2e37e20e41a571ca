package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

var errNotAsked = errors.New("not asked: the caller gave no way to")

// minAPI is the oldest engine interface that is known to do all that
// hardening needs.
const minAPI = "1.41"

const startEngine = "install and start Docker (Debian, Ubuntu: sudo apt-get install docker.io && sudo systemctl start docker), or name a running engine in DOCKER_HOST; Podman, without root too, is one: docs/podman.md"

// engineCheck is the name of the check on which those of the engine depend.
const engineCheck = "engine"

// unknown is the finding of checks that need an answer of the engine.
func unknown() finding { return skip(engineCheck) }

func engineAnswers(_ context.Context, e *examination) finding {
	p, err := e.posture()
	if err == nil {
		engine, how := "", ""
		if p.Podman {
			engine = "Podman "
		}
		if p.Rootless {
			how = ", without root"
		}
		return ok("%s%s answers at %s%s", engine, orUnknown(p.Version), orUnknown(p.Host), how)
	}
	fix, why := startEngine, err.Error()
	var se *sandbox.Error
	if errors.As(err, &se) {
		if se.Hint != "" && !strings.Contains(se.Hint, "sandbox doctor") { // which would send the reader here
			fix = se.Hint
		}
		why = strings.TrimPrefix((&sandbox.Error{Message: se.Message, Err: se.Err}).Error(), ": ")
	}
	return fail(fix, "no engine at %s: %s", orUnknown(e.EngineAddress), why)
}

func orUnknown(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}

// engineIsLocal looks at the address only: folders of this machine can be
// mounted by an engine of this machine alone.
func engineIsLocal(_ context.Context, e *examination) finding {
	address := e.EngineAddress
	if p, err := e.posture(); err == nil && p.Host != "" {
		address = p.Host
	}
	u, err := url.Parse(address)
	const fix = "use an engine of this machine: unset DOCKER_HOST and DOCKER_CONTEXT"
	switch {
	case address == "":
		return warn("", "the address is not known")
	case err != nil:
		return fail(fix, "%q is not an address", address)
	case u.Scheme == "unix":
		return ok("%s is on this machine", address)
	}
	return fail(fix, "%s may be another machine: workspaces and the guest are folders of this one and do not cross", u.Redacted())
}

func apiVersion(_ context.Context, e *examination) finding {
	p, err := e.posture()
	if err != nil {
		return unknown()
	}
	older, known := olderVersion(p.APIVersion, minAPI)
	switch {
	case !known:
		return warn("", "the engine says %q, which is not a version", p.APIVersion)
	case older:
		return fail("upgrade the engine to 20.10 or later", "%s is older than %s", p.APIVersion, minAPI)
	}
	return ok("%s", p.APIVersion)
}

// olderVersion compares two versions of the form "1.41".
func olderVersion(a, b string) (older, known bool) {
	parse := func(s string) (major, minor int, err error) {
		x, y, _ := strings.Cut(s, ".")
		if major, err = strconv.Atoi(x); err != nil {
			return 0, 0, err
		}
		minor, err = strconv.Atoi(y)
		return major, minor, err
	}
	am, an, err := parse(a)
	bm, bn, err2 := parse(b)
	return am < bm || am == bm && an < bn, err == nil && err2 == nil
}

func storageDriver(_ context.Context, e *examination) finding {
	p, err := e.posture()
	if err != nil {
		return unknown()
	}
	switch p.Storage {
	case "overlay2", "overlayfs", "overlay":
		return ok("%s", p.Storage)
	case "vfs":
		return warn(`set "storage-driver": "overlay2" in /etc/docker/daemon.json and put the engine's folder on ext4 or xfs`,
			"vfs copies the whole image for every sandbox: slow, and %s fills up", orUnknown(p.RootDir))
	}
	return warn(`overlay2 is what this is tested with: set "storage-driver": "overlay2" in /etc/docker/daemon.json`, "%s", orUnknown(p.Storage))
}

func engineDisk(_ context.Context, e *examination) finding {
	p, err := e.posture()
	if err != nil {
		return unknown()
	}
	if p.RootDir == "" {
		return warn("", "the engine does not say where it keeps its data")
	}
	f := diskFinding(e.Host, p.RootDir)
	if f.status == Fail { // the engine may see another root than we do
		f.status = Warn
	}
	if f.status != OK && f.fix == "" {
		f.fix = "free space: docker system df, sandbox prune"
	}
	return f
}

func cgroup(_ context.Context, e *examination) finding {
	p, err := e.posture()
	if err != nil {
		return unknown()
	}
	switch {
	case p.Ungrouped() && p.CgroupVersion == "1":
		return fail("boot with control groups of version 2 (systemd.unified_cgroup_hierarchy=1), or use an engine with root; see docs/podman.md",
			"the engine runs without root on control groups of version 1, which cannot be delegated to it: no limit of memory or processors holds, and nothing can be paused")
	case p.CgroupDriver == "none":
		return fail("delegate control groups to the engine's user; see the rootless documentation of Docker", "the engine has no control groups: no limit would hold")
	case p.CgroupVersion == "2":
		return ok("version 2, driver %s", p.CgroupDriver)
	}
	return ok("version %s, driver %s (version 2 counts disk writes better)", orUnknown(p.CgroupVersion), orUnknown(p.CgroupDriver))
}

func limits(_ context.Context, e *examination) finding {
	p, err := e.posture()
	if err != nil {
		return unknown()
	}
	missing := slices.Sorted(slices.Values(p.MissingLimits))
	var refused *sandbox.Error
	switch {
	case p.Rootless && errors.As(p.Refusal("", ""), &refused):
		if s, err := e.settings(); err == nil && slices.Contains(s.Dangerous, hardening.SwitchMissingLimits) {
			return warn(refused.Hint, "%s; docker.%s allows it", refused.Message, hardening.SwitchMissingLimits)
		}
		return fail(refused.Hint, "%s; it makes no sandbox", refused.Message)
	case p.Rootless && len(p.Missing()) == 0:
		return ok("memory, pids and cpu are enforced")
	case len(missing) == 0:
		return ok("memory, swap, pids and cpu are enforced")
	case slices.Equal(missing, []string{"swap"}):
		return warn("boot with swapaccount=1 on the kernel's command line", "swap is not limited: a sandbox can use the host's swap beyond its memory")
	}
	return fail("enable the control group controllers; memory: boot with cgroup_enable=memory swapaccount=1", "not enforced by this kernel: %s", strings.Join(missing, ", "))
}

func seccompSupport(_ context.Context, e *examination) finding {
	p, err := e.posture()
	switch {
	case err != nil:
		return unknown()
	case !p.Seccomp:
		return fail("use a kernel with CONFIG_SECCOMP_FILTER and an engine built with seccomp", "the engine cannot filter system calls")
	}
	return ok("the engine filters system calls")
}

// processLimit says whether limits.processes is exact.
func processLimit(_ context.Context, e *examination) finding {
	p, err := e.posture()
	if err != nil {
		return unknown()
	}
	runtime := ""
	if s, err := e.settings(); err == nil {
		runtime = s.Runtime
	}
	if why := p.Uncounted(runtime); why != "" {
		return warn("use a kernel of 5.0 or later, and a runtime that runs programs on it; docker.pidsLimit holds either way",
			"limits.processes is held by looking from time to time: %s", why)
	}
	return ok("limits.processes counts each process before it is made")
}

func appArmor(_ context.Context, e *examination) finding {
	p, err := e.posture()
	switch {
	case err != nil:
		return unknown()
	case !p.AppArmor:
		return warn("where the distribution has AppArmor: sudo apt-get install apparmor, and boot with lsm=…,apparmor", "absent: one layer less around each sandbox; the others hold without it")
	}
	return ok("the engine applies its profile")
}

func engineUsers(_ context.Context, e *examination) finding {
	p, err := e.posture()
	switch {
	case err != nil:
		return unknown()
	case p.UserNS:
		return warn("grant the remapped ids access to the state folder, or run the engine without userns-remap", "the engine remaps user ids: files of a workspace belong to other ids than outside")
	case p.Rootless:
		return ok("the engine runs without root; user ids inside are mapped")
	case e.Host.UID != 0:
		return warn("run as root to give each scope a user id of its own", "we are uid %d: every sandbox runs as this one user, and they share the kernel's budgets for it", e.Host.UID)
	}
	return ok("each scope gets a user id of its own")
}

func runtimes(_ context.Context, e *examination) finding {
	p, err := e.posture()
	if err != nil {
		return unknown()
	}
	if p.Podman { // a runtime is any program that its containers.conf names
		return ok("default %s", orUnknown(p.Default))
	}
	names := slices.Sorted(slices.Values(p.Runtimes))
	have := fmt.Sprintf("%s; default %s", strings.Join(names, ", "), orUnknown(p.Default))
	s, err := e.settings()
	if err == nil && s.Runtime != "" && !slices.Contains(names, s.Runtime) {
		return fail(fmt.Sprintf("register %s in /etc/docker/daemon.json under \"runtimes\" and restart the engine, or change docker.runtime", s.Runtime),
			"the settings want %s, the engine has %s", s.Runtime, have)
	}
	return ok("%s", have)
}

// maxSkew is how far the engine's clock may be off: ages and idle times mix
// both clocks.
const maxSkew = 5 * time.Second

func clock(_ context.Context, e *examination) finding {
	p, err := e.posture()
	if err != nil {
		return unknown()
	}
	if p.Podman && strings.HasPrefix(p.Host, "unix://") {
		return ok("the engine is on this machine")
	}
	theirs, err := time.Parse(time.RFC3339Nano, p.Time)
	if err != nil {
		return warn("", "the engine says %q, which is not a time", p.Time)
	}
	var skew time.Duration
	switch {
	case theirs.Before(p.asked):
		skew = p.asked.Sub(theirs)
	case theirs.After(p.answered):
		skew = theirs.Sub(p.answered)
	}
	if skew > maxSkew {
		return warn("synchronise the clocks: timedatectl set-ntp true", "the engine's clock is %v away from ours: ages are wrong by as much", skew.Round(time.Second))
	}
	return ok("the engine's clock agrees with ours")
}
