package container

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-units"

	"github.com/bulkhead-dev/sandbox"
)

const (
	hostname = sandbox.Hostname
	// loopbackIPv6 gives the loopback interface the address ::1, which engines
	// take away where a network has no IPv6. No other interface gets any.
	loopbackIPv6 = "net.ipv6.conf.lo.disable_ipv6"
)

// The guest takes SIGTERM only where the kernel can tell its sender; this signal
// it takes from outside everywhere.
const (
	stopSignal       = "SIGRTMIN+3"
	stopSignalNumber = 37 // on Linux, where SIGRTMIN is 34
)

// Options of an engine that confine a container. appArmorOpt begins the one that
// names a profile of AppArmor, seccompOpt the one with a seccomp profile.
const (
	appArmorOpt     = "apparmor="
	seccompOpt      = "seccomp="
	noNewPrivileges = "no-new-privileges:true"
)

// A Plan is what the engine is asked to create.
type Plan struct {
	Name    string
	Config  *container.Config
	Host    *container.HostConfig
	Network *network.NetworkingConfig

	// Unlimited lets limits of memory, processors and processes be missing where
	// the engine cannot enforce them; else such an engine creates nothing.
	Unlimited bool
}

// NewPlan translates s into engine arguments. It is pure; hash and now go
// into the labels. The environment of s is not part of the plan: it is
// given to each command through the guest, so that inspecting the
// container shows none of its values.
func NewPlan(s sandbox.Spec, hash string, now time.Time) (Plan, error) {
	if s.UID <= 0 || s.GID <= 0 {
		return Plan{}, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "plan container", Field: "docker.user", Resource: s.Name, Message: fmt.Sprintf("a sandbox never runs as %d:%d", s.UID, s.GID), Hint: "choose a user and group id above 0"}
	}
	host, err := hostConfig(s)
	if err != nil {
		return Plan{}, err
	}
	return Plan{
		Name: s.Name,
		Config: &container.Config{
			Hostname:   hostname,
			User:       fmt.Sprintf("%d:%d", s.UID, s.GID),
			Image:      s.ImageID,
			Entrypoint: []string{sandbox.GuestDir + "/bin/sandbox-guest"},
			Cmd:        guestArgs(s),
			WorkingDir: "/",
			Labels:     toLabels(s, hash, now),
			StopSignal: stopSignal,
			// An image's own health check would run code we did not ask for.
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		},
		Host:    host,
		Network: &network.NetworkingConfig{},
	}, nil
}

// On returns p with the container attached to the network of that id rather
// than to what the Spec names: a name can come to mean another network.
func (p Plan) On(id string) Plan {
	host := *p.Host
	host.NetworkMode = container.NetworkMode(id)
	p.Host = &host
	return p
}

// WithoutIPv6 returns p for a kernel without IPv6, which has no such setting:
// the container has no address ::1 there.
func (p Plan) WithoutIPv6() Plan {
	host := *p.Host
	host.Sysctls = nil
	p.Host = &host
	return p
}

// Protected returns p with further mounts, which lie in those of the Spec and
// close parts of them, or take the place of one that is closed. They follow from what there is on the host and not from
// the Spec s, so they are no part of its hash.
func (p Plan) Protected(s sandbox.Spec, closing []sandbox.Mount) Plan {
	host := *p.Host
	host.Mounts = slices.DeleteFunc(slices.Clone(host.Mounts), func(m mount.Mount) bool {
		return slices.ContainsFunc(closing, func(c sandbox.Mount) bool { return c.Target == m.Target })
	})
	host.Mounts = append(host.Mounts, mounts(s, closing)...)
	p.Host = &host
	return p
}

// LacksIPv6 reports whether err is the refusal of a kernel without IPv6 to start
// a container that is to have the address ::1.
func LacksIPv6(err error) bool {
	return err != nil && strings.Contains(err.Error(), strings.ReplaceAll(loopbackIPv6, ".", "/"))
}

// extraHosts returns the lines that s adds to /etc/hosts, and one by which the
// container's own name means the loopback interface: without a network an
// engine writes none, and programs that look up their own name fail. A line of
// the settings for that name stands instead.
func extraHosts(s sandbox.Spec) []string {
	for _, line := range s.ExtraHosts {
		if name, _, _ := strings.Cut(line, ":"); strings.EqualFold(name, hostname) {
			return s.ExtraHosts
		}
	}
	return append(slices.Clip(s.ExtraHosts), hostname+":127.0.0.1")
}

// guestArgs returns the guest's arguments: the soft limit of open files for
// commands, because the guest's own is raised by its runtime, and the modes of
// the folders in memory.
func guestArgs(s sandbox.Spec) []string {
	args := []string{"init"}
	for _, u := range s.Resources.Ulimits {
		if u.Name == "nofile" && u.Soft > 0 && u.Soft < u.Hard {
			args = append(args, "--nofile="+strconv.FormatInt(u.Soft, 10))
		}
	}
	for _, t := range s.Tmpfs {
		args = append(args, fmt.Sprintf("--mode=%04o:%s", t.Mode, t.Target))
	}
	return args
}

func hostConfig(s sandbox.Spec) (*container.HostConfig, error) {
	devices, err := gpuRequests(s.GPUs)
	if err != nil {
		return nil, err
	}
	pids, noInit := s.Resources.PIDs, false
	return &container.HostConfig{
		ReadonlyRootfs: s.ReadOnlyRoot,
		CapDrop:        s.Security.CapDrop,
		SecurityOpt:    securityOpts(s.Security),
		NetworkMode:    container.NetworkMode(s.Network),
		DNS:            s.DNS,
		ExtraHosts:     extraHosts(s),
		Sysctls:        map[string]string{loopbackIPv6: "0"},
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		// Logs of PID 1 would fill the host's disk; our output travels
		// through the guest.
		LogConfig:     container.LogConfig{Type: "none"},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Mounts:        mounts(s, s.Mounts),
		Tmpfs:         tmpfs(s),
		ShmSize:       s.Resources.ShmSize,
		Runtime:       s.Runtime,
		Init:          &noInit,
		// When memory runs out, a sandbox goes before the host's own work.
		OomScoreAdj: 100,
		Resources: container.Resources{
			Memory:         s.Resources.Memory,
			MemorySwap:     s.Resources.MemorySwap,
			NanoCPUs:       s.Resources.NanoCPUs,
			PidsLimit:      &pids,
			Ulimits:        ulimits(s.Resources.Ulimits),
			DeviceRequests: devices,
		},
	}, nil
}

func securityOpts(s sandbox.Security) []string {
	var opts []string
	if s.NoNewPrivileges {
		opts = append(opts, noNewPrivileges)
	}
	if s.Seccomp != "" {
		opts = append(opts, seccompOpt+s.Seccomp)
	}
	if s.AppArmor != "" {
		opts = append(opts, appArmorOpt+s.AppArmor)
	}
	return opts
}

// mounts uses Mounts and never Binds: a missing source is an error then,
// not a new folder that belongs to root. What lies in a folder of s that is mounted
// through an ID-mapped mount is mounted through that too.
func mounts(s sandbox.Spec, ms []sandbox.Mount) []mount.Mount {
	out := make([]mount.Mount, 0, len(ms))
	for _, m := range ms {
		out = append(out, mount.Mount{
			Type:     mount.TypeBind,
			Source:   s.Place(m.Source),
			Target:   m.Target,
			ReadOnly: m.ReadOnly,
			// What is mounted below a read-only source would stay writable
			// on engines before 25; so it is left out.
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: m.ReadOnly},
		})
	}
	return out
}

func tmpfs(s sandbox.Spec) map[string]string {
	out := make(map[string]string, len(s.Tmpfs))
	for _, t := range s.Tmpfs {
		opts := []string{"rw", "nosuid", "nodev", fmt.Sprintf("size=%d", t.Size), fmt.Sprintf("mode=%o", t.Mode)}
		if t.Exec {
			opts = append(opts, "exec")
		} else {
			opts = append(opts, "noexec")
		}
		// A runtime gives a folder that the image has the mode that it has there,
		// whatever the options say. The owner is as the options say, so the
		// guest sets the mode.
		opts = append(opts, fmt.Sprintf("uid=%d", s.UID), fmt.Sprintf("gid=%d", s.GID))
		out[t.Target] = strings.Join(opts, ",")
	}
	return out
}

func ulimits(us []sandbox.Ulimit) []*units.Ulimit {
	out := make([]*units.Ulimit, 0, len(us))
	for _, u := range us {
		out = append(out, &units.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// gpuRequests understands "all", a count, or "device=ID[,ID…]", as the
// engine's own command line does.
func gpuRequests(gpus string) ([]container.DeviceRequest, error) {
	if gpus == "" {
		return nil, nil
	}
	r := container.DeviceRequest{Capabilities: [][]string{{"gpu"}}}
	if ids, ok := strings.CutPrefix(gpus, "device="); ok && ids != "" {
		r.DeviceIDs = strings.Split(ids, ",")
		return []container.DeviceRequest{r}, nil
	}
	if gpus == "all" {
		r.Count = -1
		return []container.DeviceRequest{r}, nil
	}
	var n int
	if _, err := fmt.Sscanf(gpus, "%d", &n); err != nil || n < 1 || fmt.Sprint(n) != gpus {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "plan container", Field: "docker.gpus", Message: fmt.Sprintf("%q is not a choice of GPUs", gpus), Hint: `use "all", a count, or "device=ID"`}
	}
	r.Count = n
	return []container.DeviceRequest{r}, nil
}
