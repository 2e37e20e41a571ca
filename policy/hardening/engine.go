package hardening

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// fold makes variants of case and surrounding space equal.
func fold(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// Network refuses the host's network and another container's. Empty is the
// default and passes.
func Network(field, v string) error {
	f := fold(v)
	kind, _, joined := strings.Cut(f, ":")
	switch {
	case v == "":
		return nil
	case f == "host":
		return refuse(field, v, "the sandbox would share the network of the host, with every service on its loopback", `use "none", "bridge" or a network of its own`)
	case joined && strings.TrimSpace(kind) == "container":
		return refuse(field, v, "the sandbox would join the network namespace of another container", `use "none", "bridge" or a network of its own`)
	case joined:
		return refuse(field, v, "the sandbox would join a network namespace given from outside", `use "none", "bridge" or a network of its own`)
	case f == sandbox.NetworkOwn && v != sandbox.NetworkOwn:
		return refuse(field, v, "an engine would take it for the name of a network that others may be on", `write "`+sandbox.NetworkOwn+`" for a network that is the sandbox's alone`)
	case isNetworkID(f):
		return refuse(field, v, "a network given by its id hides which one it is", "use the name of the network")
	case !isNetworkName(v):
		return refuse(field, v, "it is not the name of a network", `use "none", "bridge" or a network of its own`)
	}
	return nil
}

// Privileged refuses a privileged container.
func Privileged(field string, v bool) error {
	if !v {
		return nil
	}
	return refuse(field, "true", "a privileged container has every device and capability of the host", "leave it out; there is no switch for this")
}

// Namespace refuses to share the pid, ipc, user or other namespace kind.
// Only "private", which every sandbox has anyway, passes.
func Namespace(field, kind, v string) error {
	f := fold(v)
	switch {
	case v == "", v == "private":
		return nil
	case f == "host":
		return refuse(field, v, "the sandbox would share the "+kind+" namespace of the host", "leave it out: each sandbox has its own")
	case strings.HasPrefix(f, "container:"):
		return refuse(field, v, "the sandbox would join the "+kind+" namespace of another container", "leave it out: each sandbox has its own")
	}
	return refuse(field, v, "only a private "+kind+" namespace keeps the sandbox apart", "leave it out: each sandbox has its own")
}

// CapAdd refuses any Linux capability to be added.
func CapAdd(field string, caps []string) error {
	if len(caps) == 0 {
		return nil
	}
	return refuse(field, strings.Join(caps, " "), "a sandbox is never given a Linux capability", "put what needs it into docker.setup, which runs as root when the image is made")
}

// CapDrop refuses to keep capabilities: the list must hold ALL, unless the
// switch for it is on.
func CapDrop(field string, caps []string, b Switches) error {
	all := slices.ContainsFunc(caps, func(c string) bool { return fold(c) == "all" })
	if all || b.KeepCapabilities {
		return nil
	}
	return refuse(field, strings.Join(caps, " "), "the list lacks ALL, so the sandbox would keep Linux capabilities", `use ["ALL"], or set docker.`+SwitchKeepCapabilities)
}

// WritableRoot refuses a root file system that is not read-only, unless the
// switch for it is on.
func WritableRoot(field string, readOnly bool, b Switches) error {
	if readOnly || b.WritableRoot {
		return nil
	}
	return refuse(field, "false", "a writable root file system fills the host's disk and lets programs be replaced", "use docker.tmpfs or docker.setup, or set docker."+SwitchWritableRoot)
}

// AppArmor refuses the unconfined profile and what is no profile name.
func AppArmor(field, v string) error {
	switch {
	case v == "":
		return nil
	case isUnconfined(v):
		return refuse(field, v, "an unconfined AppArmor profile removes a layer of isolation", "leave it out to get the engine's profile")
	case !isProfileName(v):
		return refuse(field, v, "it is not the name of a profile", "leave it out to get the engine's profile")
	}
	return nil
}

// isUnconfined sees through case, space, quotes and an "apparmor=" in front.
func isUnconfined(v string) bool {
	f := strings.Trim(fold(v), `"'`)
	if i := strings.LastIndexAny(f, "=:"); i >= 0 {
		f = f[i+1:]
	}
	return strings.TrimSpace(f) == "unconfined"
}

// Seccomp refuses the unconfined profile, what is no profile, and a profile
// that forbids nothing. v is the profile as JSON text.
func Seccomp(field, v string) error {
	if seccomp.Builtin(v) {
		return nil // which a test holds: to read it takes as long as the rest of a check
	}
	return foreignSeccomp(field, v)
}

// foreignSeccomp is Seccomp for a profile that is not ours.
func foreignSeccomp(field, v string) error {
	if isUnconfined(v) {
		return refuse(field, v, "an unconfined seccomp profile opens every system call of the kernel", "leave it out to get the built-in profile")
	}
	var p struct {
		DefaultAction string `json:"defaultAction"`
		Syscalls      []struct {
			Action string `json:"action"`
		} `json:"syscalls"`
	}
	if err := json.Unmarshal([]byte(v), &p); err != nil || p.DefaultAction == "" {
		return refuse(field, v, "it is not a seccomp profile: JSON with a defaultAction is needed", "leave it out to get the built-in profile")
	}
	if forbids(p.DefaultAction) {
		return nil
	}
	for _, s := range p.Syscalls {
		if forbids(s.Action) {
			return nil
		}
	}
	return refuse(field, v, "the profile forbids nothing, which is the same as unconfined", "leave it out to get the built-in profile")
}

// forbids reports whether a seccomp action stops the call. Actions that are
// not known count as letting it pass.
func forbids(action string) bool {
	switch action {
	case "SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_KILL_THREAD", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_TRAP":
		return true
	}
	return false
}

// Runtime refuses what is not the plain name of an engine runtime.
func Runtime(field, v string) error {
	if v == "" || isRuntimeName(v) {
		return nil
	}
	return refuse(field, v, "it is not the name of a runtime; a path would run a program of the host as root", `use a name that the engine knows, such as "runsc"`)
}

// IDs refuses user id 0 and group id 0.
func IDs(field string, uid, gid int) error {
	switch {
	case uid == 0:
		return refuse(field, fmt.Sprintf("%d:%d", uid, gid), "user id 0 is root, inside and on every mounted file", "use another id")
	case gid == 0:
		return refuse(field, fmt.Sprintf("%d:%d", uid, gid), "group id 0 is root's group, inside and on every mounted file", "use another id")
	case uid < 0 || gid < 0:
		return refuse(field, fmt.Sprintf("%d:%d", uid, gid), "an id below 0 is none", "use another id")
	}
	return nil
}

// maxID is the highest id that is not reserved for "no id".
const maxID = 1<<32 - 2

// User reads "uid" or "uid:gid", both numeric; the group id is the user id
// when left out. Names are refused because the image decides what they mean,
// and so is 0 in every spelling.
func User(field, v string) (uid, gid int, err error) {
	u, g, both := strings.Cut(v, ":")
	if !both {
		g = u
	}
	uid, okU := id(u)
	gid, okG := id(g)
	if !okU || !okG {
		if fold(u) == "root" || fold(g) == "root" {
			return 0, 0, refuse(field, v, "root is user id 0, inside and on every mounted file", "use a numeric uid or uid:gid above 0")
		}
		return 0, 0, refuse(field, v, "it is not a numeric uid or uid:gid; what a name means is up to the image", "use numbers, such as 1000:1000")
	}
	if err := IDs(field, uid, gid); err != nil {
		return 0, 0, refuse(field, v, "id 0 is root, inside and on every mounted file", "use a numeric uid or uid:gid above 0")
	}
	return uid, gid, nil
}

func id(s string) (int, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return int(n), err == nil && n <= maxID
}
