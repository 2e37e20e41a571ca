// Package local builds instances on this machine without an engine, an image or
// root: namespaces and mounts by bubblewrap on Linux, a profile of
// sandbox-exec on macOS.
//
// A definition outlives the program (see package record); the instance itself
// belongs to the process that put it up and ends with it. What an instance shows
// and closes is computed by package plan from the Spec and from what there is
// on the host, anew before each command: when a file has appeared that a rule
// closes, or something was granted, the next command finds a new instance.
//
// On Linux each instance takes a thread of the program, which ends with the instance.
// The kernel counts the end of a thread as the death of a parent, so a program
// that starts processes of its own with syscall.SysProcAttr.Pdeathsig must
// keep the goroutine that does on its thread while they run, with
// runtime.LockOSThread, or an instance's end may end them.
package local

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// Options of a Provider.
type Options struct {
	// State is the state folder; definitions and stubs are kept below it.
	State string
	// World is asked at each start of an instance for the facts that the
	// hardening rules need. Its Home, Workspaces and Sensitive also say what
	// an instance must not show.
	World func() hardening.World
	// Warn receives what an operator should know of a sandbox that works all
	// the same. Nil drops it.
	Warn func(name, warning string)
	// Ready bounds how long an instance may take until it serves; default 30 s.
	Ready time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// outside returns what of a world an instance must not show, beside workspaces. What
// lies in a folder that is not shown is not named again.
func outside(w hardening.World) []string {
	out := slices.Clone(w.Sensitive)
	for _, s := range w.Listening {
		if !slices.ContainsFunc(slices.Concat(w.Sensitive, w.Workspaces), func(dir string) bool { return s == dir || strings.HasPrefix(s, dir+"/") }) {
			out = append(out, s)
		}
	}
	return out
}

// settings are the provider's own part of a Spec.
type settings struct {
	bwrap                string // absolute path; empty is looked up in PATH
	observe              bool
	withoutLandlock      bool
	withoutDisableUserns bool
	withoutSeccomp       bool
}

// parseSettings reads Spec.Options.
func parseSettings(options map[string]any) (settings, error) {
	s := settings{observe: true}
	for _, key := range slices.Sorted(maps.Keys(options)) {
		ok := true
		switch v := options[key]; key {
		case "bwrap":
			s.bwrap, ok = v.(string)
			ok = ok && (s.bwrap == "" || s.bwrap[0] == '/')
		case "observe":
			s.observe, ok = v.(bool)
		case "withoutLandlock":
			s.withoutLandlock, ok = v.(bool)
		case "withoutDisableUserns":
			s.withoutDisableUserns, ok = v.(bool)
		case "withoutSeccomp":
			s.withoutSeccomp, ok = v.(bool)
		default:
			return s, provider.OptionError(key, "the local provider has no such option",
				"it has bwrap, observe, withoutLandlock, withoutDisableUserns and withoutSeccomp")
		}
		if !ok {
			return s, provider.OptionError(key, fmt.Sprintf("%v is not valid", options[key]), "bwrap is an absolute path, the others are true or false")
		}
	}
	return s, nil
}

// CheckOptions implements [provider.OptionChecker].
func (p *Provider) CheckOptions(options map[string]any) error {
	return p.checkOptions(options)
}

var _ provider.OptionChecker = (*Provider)(nil)

// Host returns this machine as the checks of package preflight see it for
// instances with these options, as Spec.Options has them. The error says that an
// option is not valid.
func Host(options map[string]any) (launch.Host, error) {
	s, err := parseSettings(options)
	h := launch.RealHost(s.bwrap)
	h.Without = launch.Without{DisableUserns: s.withoutDisableUserns, Seccomp: s.withoutSeccomp, Landlock: s.withoutLandlock}
	return h, err
}

// Notes returns what a person should know of the local instance of s that the
// Spec does not say: which limits it cannot enforce, and which layers were
// switched off. Groups are the control groups that there are.
func Notes(s sandbox.Spec, groups launch.Groups) []string {
	var notes []string
	lacks := groups.Lacks(boundsOf(s.Resources))
	why := groups.Why
	if why == "" {
		why = "the control group that sandboxes are made in lacks the controller"
	}
	if slices.Contains(lacks, "memory") {
		notes = append(notes, "docker.memory is not enforced: "+why+"; limits.memory bounds each command with all its processes")
	}
	if slices.Contains(lacks, "cpu") {
		notes = append(notes, "docker.cpus is not enforced: "+why+"; limits.cpuSeconds bounds the time of each command with all its processes")
	}
	if len(s.Filesystem.AllowUnixSockets) > 0 {
		notes = append(notes, "filesystem.allowUnixSockets: commands may make Unix sockets; besides those listed, they reach every one that appears in a folder they can see until the next command")
	}
	o, err := parseSettings(s.Options)
	if err != nil {
		return notes
	}
	for _, n := range []struct {
		set  bool
		text string
	}{
		{o.withoutLandlock, "providerOptions.withoutLandlock: mounts alone decide what can be read and written"},
		{o.withoutDisableUserns, "providerOptions.withoutDisableUserns: code inside may make namespaces of its own, which opens more of the kernel"},
		{o.withoutSeccomp, "providerOptions.withoutSeccomp: every system call can be reached, Unix sockets that are visible included"},
		{!o.observe, "providerOptions.observe is off: what the sandbox stops is not seen, only what programs say of it"},
	} {
		if n.set {
			notes = append(notes, n.text)
		}
	}
	return notes
}

// boundsOf is what a control group holds a sandbox with these resources to.
func boundsOf(r sandbox.Resources) launch.Bounds {
	return launch.Bounds{Memory: max(0, r.Memory), PIDs: max(0, r.PIDs), NanoCPUs: max(0, r.NanoCPUs)}
}

// refuse returns an error for the first thing in s that a local instance cannot
// do. Nothing is left out in silence.
func refuse(s sandbox.Spec) error {
	for _, r := range []struct {
		bad     bool
		field   string
		message string
	}{
		{s.Network != "none" && s.Network != "", "docker.network", "a local sandbox has no network but its own loopback"},
		{len(s.DNS) > 0, "docker.dns", "a local sandbox has no network, so nothing asks name servers"},
		{len(s.ExtraHosts) > 0, "docker.extraHosts", "a local sandbox reaches no host but its own loopback interface"},
		{len(s.Setup) > 0, "docker.setup", "a local sandbox has no image that commands could be run on"},
		{s.Runtime != "", "docker.runtime", "a local sandbox has no engine whose runtime could be chosen"},
		{s.GPUs != "", "docker.gpus", "a local sandbox shows no devices of the host"},
		{s.Security.AppArmor != "", "docker.apparmorProfile", "a local sandbox cannot change the AppArmor profile"},
		{s.Security.Seccomp != "" && s.Security.Seccomp != seccomp.Profile(), "docker.seccompProfile", "a local sandbox has a filter of its own, which cannot be replaced"},
		{!s.ReadOnlyRoot, "docker.readOnlyRoot", "the root of a local sandbox is always read-only"},
		{!slices.Equal(s.Security.CapDrop, []string{"ALL"}), "docker.capDrop", "a local sandbox keeps no capability"},
	} {
		if r.bad {
			return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Field: r.field, Resource: s.Name, Message: r.message,
				Hint: "leave the setting out, or use the docker provider"}
		}
	}
	_, err := parseSettings(s.Options)
	return err
}
