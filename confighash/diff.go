package confighash

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// A Change is one difference between two Specs, in the words of the settings.
type Change struct {
	Field string `json:"field"` // "docker.memory", "docker.env.TZ", "docker.binds /data"
	From  string `json:"from"`  // empty when there was nothing
	To    string `json:"to"`    // empty when there is nothing any more
	// Tightens says that the new value keeps more in than the old one.
	// False means only that this cannot be said.
	Tightens bool `json:"tightens"`
}

// Diff returns what differs between the sandbox that old describes and the one
// that new does, in a fixed order. It is empty exactly when [Sum] is the same
// for both, unless the options of one cannot be written as JSON.
//
// Values of variables and of options are never part of a Change: From and To
// say "set" or "changed" instead. Seccomp profiles are named by
// the start of their hash.
func Diff(old, new sandbox.Spec) []Change {
	d := differ{}
	a, b := canonical(old), canonical(new)
	d.identity(a, b)
	d.container(a, b)
	d.env(a.Env, b.Env)
	d.mounts(a.Mounts, b.Mounts)
	d.tmpfs(a.Tmpfs, b.Tmpfs)
	d.security(a.Security, b.Security)
	d.resources(a.Resources, b.Resources)
	d.rules(a, b)
	d.options(a.Options, b.Options)
	return d.changes
}

type differ struct{ changes []Change }

func (d *differ) add(field, from, to string, tightens bool) {
	d.changes = append(d.changes, Change{Field: field, From: from, To: to, Tightens: tightens})
}

// text notes two words that differ.
func (d *differ) text(field, from, to string, tightens bool) {
	if from != to {
		d.add(field, from, to, tightens)
	}
}

// less notes two bounds that differ, written by text. A smaller one tightens,
// and 0 is no bound.
func (d *differ) less(field string, from, to int64, text func(int64) string) {
	if from != to {
		d.add(field, text(from), text(to), to != 0 && (from == 0 || to < from))
	}
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

func processors(n int64) string { return strconv.FormatFloat(float64(n)/1e9, 'f', -1, 64) }

// size writes bytes in the largest unit that needs no fraction.
func size(n int64) string {
	for _, u := range []struct {
		letter string
		bytes  int64
	}{{"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}} {
		if n != 0 && n%u.bytes == 0 {
			return count(n/u.bytes) + u.letter
		}
	}
	return count(n)
}

func (d *differ) identity(a, b sandbox.Spec) {
	d.text("format", strconv.Itoa(a.Format), strconv.Itoa(b.Format), false)
	d.text("kind", string(a.Kind), string(b.Kind), false)
	d.text("provider", a.Provider, b.Provider, false)
	d.text("instance", a.Owner.Instance, b.Owner.Instance, false)
	d.text("tenant", a.Owner.Tenant, b.Owner.Tenant, false)
	d.text("scope", string(a.Owner.Scope), string(b.Owner.Scope), false)
	d.text("scopeKey", a.Owner.ScopeKey, b.Owner.ScopeKey, false)
	d.text("docker.image", a.ImageID, b.ImageID, false)
	d.list("docker.setup", a.Setup, b.Setup, none)
	d.list("docker.onStart", a.OnStart, b.OnStart, none)
	d.text("guest.digest", a.Guest.Digest, b.Guest.Digest, false)
	d.text("guest.dir", a.Guest.Dir, b.Guest.Dir, false)
}

func (d *differ) container(a, b sandbox.Spec) {
	d.text("docker.workdir", a.Workdir, b.Workdir, false)
	d.text("docker.user", ids(a), ids(b), false)
	d.text("docker.readOnlyRoot", strconv.FormatBool(a.ReadOnlyRoot), strconv.FormatBool(b.ReadOnlyRoot), b.ReadOnlyRoot)
	d.text("docker.network", a.Network, b.Network, b.Network == "none")
	d.list("docker.dns", a.DNS, b.DNS, none)
	d.list("docker.extraHosts", a.ExtraHosts, b.ExtraHosts, none)
	d.text("docker.runtime", a.Runtime, b.Runtime, false)
	d.text("docker.gpus", a.GPUs, b.GPUs, b.GPUs == "")
}

func ids(s sandbox.Spec) string { return fmt.Sprintf("%d:%d", s.UID, s.GID) }

func (d *differ) env(a, b map[string]string) {
	for _, name := range keys(a, b) {
		from, was := a[name]
		to, is := b[name]
		if trusts(from, was) && trusts(to, is) {
			continue // reported as the mount of the certificates
		}
		d.hidden("docker.env."+name, was, is, from != to)
	}
}

// trusts reports whether a variable is not set, or leads to the certificates
// that sandboxes are shown.
func trusts(value string, set bool) bool {
	return !set || strings.Contains(value, sandbox.TrustDir+"/")
}

// hidden notes a difference without telling the values.
func (d *differ) hidden(field string, was, is, differs bool) {
	switch {
	case was && !is:
		d.add(field, "set", "", false)
	case is && !was:
		d.add(field, "", "set", false)
	case differs:
		d.add(field, "set", "changed", false)
	}
}

// mounts compares by target, and then the order of what both have.
func (d *differ) mounts(a, b []sandbox.Mount) {
	before := len(d.changes)
	was, is := byTarget(a), byTarget(b)
	for _, target := range keys(was, is) {
		from, had := was[target]
		to, has := is[target]
		field := mountField(from, to, target)
		switch {
		case !has:
			d.add(field, mountText(from), "", true)
		case !had:
			d.add(field, "", mountText(to), false)
		case from != to:
			same := to
			same.ReadOnly = from.ReadOnly
			d.add(field, mountText(from), mountText(to), to.ReadOnly && from == same || to.Base != "" && to.Base == from.Source)
		}
	}
	if len(d.changes) == before && !slices.Equal(a, b) {
		d.add("docker.binds", "in another order", mountOrder(b), false)
	}
}

func mountField(from, to sandbox.Mount, target string) string {
	role := to.Role
	if role == "" {
		role = from.Role
	}
	if role == sandbox.RoleBind {
		return "docker.binds " + target
	}
	if role == sandbox.RoleHome {
		return "docker.home"
	}
	if role == sandbox.RoleTrust && from.Source != "" && to.Source != "" {
		return "docker.caFile"
	}
	return string(role) + " " + target
}

func mountText(m sandbox.Mount) string {
	if m.Role == sandbox.RoleHome {
		return "disk, homeSize=" + size(m.Size)
	}
	mode := "rw"
	if m.ReadOnly {
		mode = "ro"
	}
	if m.Base != "" {
		return m.Base + " seen privately at " + m.Source
	}
	if m.Mapped != "" {
		mode += " by an ID-mapped mount"
	}
	return m.Source + " " + mode
}

func mountOrder(list []sandbox.Mount) string {
	var out []string
	for _, m := range list {
		out = append(out, m.Target)
	}
	return strings.Join(out, " ")
}

func byTarget(list []sandbox.Mount) map[string]sandbox.Mount {
	out := map[string]sandbox.Mount{}
	for _, m := range list {
		out[m.Target] = m
	}
	return out
}

func (d *differ) tmpfs(a, b []sandbox.Tmpfs) {
	was, is := map[string]sandbox.Tmpfs{}, map[string]sandbox.Tmpfs{}
	for _, t := range a {
		was[t.Target] = t
	}
	for _, t := range b {
		is[t.Target] = t
	}
	for _, target := range keys(was, is) {
		from, to := was[target], is[target]
		if from == to {
			continue
		}
		same := to
		same.Size, same.Exec = from.Size, from.Exec
		tightens := from == same && to.Size <= from.Size && (from.Exec || !to.Exec)
		d.add("docker.tmpfs "+target, tmpfsText(from), tmpfsText(to), tightens || to.Target == "")
	}
}

func tmpfsText(t sandbox.Tmpfs) string {
	if t.Target == "" {
		return ""
	}
	s := fmt.Sprintf("size=%s,mode=%o", size(t.Size), t.Mode)
	if t.Exec {
		s += ",exec"
	}
	if t.Owned {
		s += ",owned"
	}
	if t.Image != "" {
		s += ",image=" + string(t.Image)
	}
	return s
}

func (d *differ) security(a, b sandbox.Security) {
	d.list("docker.capDrop", a.CapDrop, b.CapDrop, grown)
	d.text("security.noNewPrivileges", strconv.FormatBool(a.NoNewPrivileges), strconv.FormatBool(b.NoNewPrivileges), b.NoNewPrivileges)
	if a.Seccomp != b.Seccomp {
		d.add("docker.seccompProfile", profileText(a.Seccomp), profileText(b.Seccomp), a.Seccomp == "")
	}
	d.text("docker.apparmorProfile", a.AppArmor, b.AppArmor, false)
	d.list("security.dangerous", a.Dangerous, b.Dangerous, shrunk)
}

func profileText(s string) string {
	if s == "" {
		return ""
	}
	sum := sha1.Sum([]byte(s))
	return "profile " + hex.EncodeToString(sum[:6])
}

func (d *differ) resources(a, b sandbox.Resources) {
	d.less("docker.memory", a.Memory, b.Memory, size)
	d.less("docker.memorySwap", a.MemorySwap, b.MemorySwap, size)
	d.less("docker.cpus", a.NanoCPUs, b.NanoCPUs, processors)
	d.less("docker.pidsLimit", a.PIDs, b.PIDs, count)
	d.less("docker.shmSize", a.ShmSize, b.ShmSize, size)
	was, is := map[string]sandbox.Ulimit{}, map[string]sandbox.Ulimit{}
	for _, u := range a.Ulimits {
		was[u.Name] = u
	}
	for _, u := range b.Ulimits {
		is[u.Name] = u
	}
	for _, name := range keys(was, is) {
		from, had := was[name]
		to, has := is[name]
		if from != to || had != has {
			d.add("docker.ulimits."+name, ulimitText(from, had), ulimitText(to, has),
				has && (!had || narrower(to.Soft, from.Soft) && narrower(to.Hard, from.Hard)))
		}
	}
}

func ulimitText(u sandbox.Ulimit, there bool) string {
	if !there {
		return ""
	}
	return fmt.Sprintf("%d:%d", u.Soft, u.Hard)
}

// narrower reports whether limit a permits no more than b; -1 is unlimited.
func narrower(a, b int64) bool { return b == -1 || a != -1 && a <= b }

func (d *differ) options(a, b map[string]any) {
	for _, name := range keys(a, b) {
		from, was := a[name]
		to, is := b[name]
		x, errX := json.Marshal(from)
		y, errY := json.Marshal(to)
		d.hidden("providerOptions."+name, was, is, errX != nil || errY != nil || !bytes.Equal(x, y))
	}
}

// What a change of a list must look like to tighten.
type direction int

const (
	none   direction = iota // never
	grown                   // nothing taken out
	shrunk                  // nothing put in
)

// list notes two lists that differ, with what each has.
func (d *differ) list(field string, a, b []string, tightens direction) {
	if slices.Equal(a, b) {
		return
	}
	holds := func(all, part []string) bool {
		return !slices.ContainsFunc(part, func(s string) bool { return !slices.Contains(all, s) })
	}
	yes := tightens == grown && holds(b, a) || tightens == shrunk && holds(a, b)
	d.add(field, strings.Join(a, ", "), strings.Join(b, ", "), yes)
}

// keys returns the keys of both maps, each once, sorted.
func keys[V any](a, b map[string]V) []string {
	all := map[string]bool{}
	for k := range maps.Keys(a) {
		all[k] = true
	}
	for k := range maps.Keys(b) {
		all[k] = true
	}
	return slices.Sorted(maps.Keys(all))
}
