package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/bulkhead-dev/sandbox"
)

// Podman answers the calls of Docker's API and takes them less than whole: version
// 4.3 drops ulimits without a word, refuses owners of folders in memory, takes a
// seccomp profile for a path, and adds writable folders without a bound to a
// container whose root is read-only. So containers are created by its own API, in
// which all of this can be said, and what it made is compared with what was asked.

// libpodAPI is the version of Podman's own API that is spoken; 4 and 5 answer it.
const libpodAPI = "/v4.0.0/libpod"

// maxLibpod bounds an answer of Podman.
const maxLibpod = 4 << 20

// A libpodSpec is what Podman is asked to create, in the form of its SpecGenerator.
type libpodSpec struct {
	Name       string            `json:"name"`
	Image      string            `json:"image"`
	User       string            `json:"user"`
	Entrypoint []string          `json:"entrypoint"`
	Command    []string          `json:"command"`
	Hostname   string            `json:"hostname"`
	WorkDir    string            `json:"work_dir"`
	Labels     map[string]string `json:"labels"`
	StopSignal int               `json:"stop_signal"`

	NetNS    libpodNamespace     `json:"netns"`
	Networks map[string]struct{} `json:"networks,omitempty"`
	UserNS   *libpodNamespace    `json:"userns,omitempty"`
	IPCNS    libpodNamespace     `json:"ipcns"`
	CgroupNS libpodNamespace     `json:"cgroupns"`
	DNS      []string            `json:"dns_server,omitempty"`
	Hosts    []string            `json:"hostadd,omitempty"`
	Log      libpodLog           `json:"log_configuration"`
	Restart  string              `json:"restart_policy"`
	Health   libpodHealth        `json:"healthconfig"`
	Mounts   []libpodMount       `json:"mounts"`
	Rlimits  []libpodRlimit      `json:"r_limits,omitempty"`
	Limits   *libpodResources    `json:"resource_limits,omitempty"`
	Sysctl   map[string]string   `json:"sysctl,omitempty"`
	Caps     []string            `json:"cap_drop,omitempty"`
	Seccomp  string              `json:"seccomp_profile_path,omitempty"`
	AppArmor string              `json:"apparmor_profile,omitempty"`
	Runtime  string              `json:"oci_runtime,omitempty"`
	Devices  []libpodDevice      `json:"devices,omitempty"`

	ReadOnly  bool  `json:"read_only_filesystem"`
	NoNewPriv bool  `json:"no_new_privileges"`
	Init      bool  `json:"init"`
	OOMScore  int   `json:"oom_score_adj"`
	ShmSize   int64 `json:"shm_size,omitempty"`
}

type libpodNamespace struct {
	Mode  string `json:"nsmode"`
	Value string `json:"value,omitempty"`
}

type libpodLog struct {
	Driver string `json:"driver"`
}

type libpodHealth struct {
	Test []string
}

type libpodMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

type libpodRlimit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

type libpodDevice struct {
	Path string `json:"path"`
}

type libpodResources struct {
	Memory *libpodMemory `json:"memory,omitempty"`
	PIDs   *libpodPIDs   `json:"pids,omitempty"`
	CPU    *libpodCPU    `json:"cpu,omitempty"`
}

type libpodMemory struct {
	Limit int64 `json:"limit"`
	Swap  int64 `json:"swap,omitempty"`
}

type libpodPIDs struct {
	Limit int64 `json:"limit"`
}

type libpodCPU struct {
	Quota  int64  `json:"quota"`
	Period uint64 `json:"period"`
}

// cpuPeriod is the time, in microseconds, in which a share of processors is counted.
const cpuPeriod = 100_000

// libpod translates p for Podman. seccomp is the file of its seccomp profile, empty
// where it has none.
func (p Plan) libpod(has Posture, seccomp string) (libpodSpec, error) {
	h := p.Host
	if len(h.DeviceRequests) > 0 {
		return libpodSpec{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "create container", Field: "docker.gpus", Resource: p.Name,
			Message: "Podman takes no processors of graphics by Docker's requests", Hint: "leave docker.gpus out, or use Docker"}
	}
	s := libpodSpec{
		Name: p.Name, Image: p.Config.Image, User: p.Config.User, Entrypoint: p.Config.Entrypoint, Command: p.Config.Cmd,
		Hostname: p.Config.Hostname, WorkDir: p.Config.WorkingDir, Labels: p.Config.Labels, StopSignal: stopSignalNumber,
		IPCNS: libpodNamespace{Mode: "private"}, CgroupNS: libpodNamespace{Mode: "private"},
		DNS: h.DNS, Hosts: h.ExtraHosts, Log: libpodLog{"none"}, Restart: "no", Health: libpodHealth{p.Config.Healthcheck.Test},
		Sysctl: h.Sysctls, Caps: h.CapDrop, Seccomp: seccomp, Runtime: h.Runtime,
		ReadOnly: h.ReadonlyRootfs, OOMScore: h.OomScoreAdj, ShmSize: h.ShmSize, Limits: libpodLimits(h.Resources),
	}
	s.NetNS, s.Networks = libpodNetwork(string(h.NetworkMode), has)
	if has.Rootless {
		// The user's own ids are the same inside and outside, so that the files
		// of a workspace belong to the user on both sides.
		s.UserNS = &libpodNamespace{Mode: "keep-id"}
	}
	for _, o := range h.SecurityOpt {
		name, value, _ := strings.Cut(o, "=")
		switch {
		case o == noNewPrivileges:
			s.NoNewPriv = true
		case o == appArmorOpt+value:
			s.AppArmor = value
		case name != "seccomp":
			return libpodSpec{}, sandbox.Errorf(sandbox.CodeInternal, "plan container", "no translation of %q for Podman", name)
		}
	}
	for _, u := range h.Ulimits {
		s.Rlimits = append(s.Rlimits, libpodRlimit{Type: u.Name, Hard: uint64(u.Hard), Soft: uint64(u.Soft)})
	}
	for _, m := range h.Mounts {
		options := []string{"rbind", "rprivate"}
		if m.BindOptions != nil && m.BindOptions.NonRecursive {
			options[0] = "bind"
		}
		if m.ReadOnly {
			options = append(options, "ro")
		}
		s.Mounts = append(s.Mounts, libpodMount{Destination: m.Target, Type: "bind", Source: m.Source, Options: options})
	}
	for target, text := range h.Tmpfs {
		// The folder begins empty, and belongs to the user of the container.
		options := append(slices.DeleteFunc(strings.Split(text, ","), func(o string) bool {
			return strings.HasPrefix(o, "uid=") || strings.HasPrefix(o, "gid=")
		}), "notmpcopyup", "U")
		s.Mounts = append(s.Mounts, libpodMount{Destination: target, Type: "tmpfs", Source: "tmpfs", Options: options})
	}
	slices.SortFunc(s.Mounts, func(a, b libpodMount) int { return strings.Compare(a.Destination, b.Destination) })
	return s, nil
}

// libpodNetwork translates a network mode, which is none, bridge, or a network.
func libpodNetwork(mode string, has Posture) (libpodNamespace, map[string]struct{}) {
	switch {
	case mode == "none":
		return libpodNamespace{Mode: "none"}, nil
	case mode == "bridge" && has.Rootless:
		return libpodNamespace{Mode: "slirp4netns"}, nil // which is what a Podman without root has
	case mode == "bridge":
		return libpodNamespace{Mode: "bridge"}, nil
	}
	return libpodNamespace{Mode: "bridge"}, map[string]struct{}{mode: {}}
}

func libpodLimits(r container.Resources) *libpodResources {
	out := libpodResources{}
	if r.Memory > 0 {
		out.Memory = &libpodMemory{Limit: r.Memory, Swap: r.MemorySwap}
	}
	if r.PidsLimit != nil && *r.PidsLimit > 0 {
		out.PIDs = &libpodPIDs{Limit: *r.PidsLimit}
	}
	if r.NanoCPUs > 0 {
		out.CPU = &libpodCPU{Quota: r.NanoCPUs * cpuPeriod / 1e9, Period: cpuPeriod}
	}
	if out == (libpodResources{}) {
		return nil
	}
	return &out
}

// createLibpod makes the container of p by Podman's own API.
func (e *Engine) createLibpod(ctx context.Context, p Plan, has Posture) (id string, warnings []string, err error) {
	const op = "create container"
	seccomp, drop, err := seccompFile(p.Host.SecurityOpt)
	if err != nil {
		return "", nil, sandbox.Errorf(sandbox.CodeUnavailable, op, "write the seccomp profile: %w", err)
	}
	defer drop()
	spec, err := p.libpod(has, seccomp)
	if err != nil {
		return "", nil, err
	}
	id, warnings, err = e.postLibpod(ctx, spec)
	return id, warnings, e.fail(ctx, op, p.Name, err)
}

// postLibpod makes the container that spec describes. The error is that of the call.
func (e *Engine) postLibpod(ctx context.Context, spec any) (id string, warnings []string, err error) {
	var made struct {
		ID       string `json:"Id"`
		Warnings []string
	}
	err = e.libpod(ctx, http.MethodPost, "/containers/create", spec, &made)
	if err == nil && made.ID == "" {
		err = errors.New("the engine's answer is incomplete")
	}
	if err != nil {
		return "", nil, err
	}
	return made.ID, made.Warnings, nil
}

// seccompFile writes the profile among options into a file that the engine reads
// while it creates the container. drop removes it.
func seccompFile(options []string) (path string, drop func(), err error) {
	i := slices.IndexFunc(options, func(o string) bool { return strings.HasPrefix(o, seccompOpt) })
	if i < 0 {
		return "", func() {}, nil
	}
	f, err := os.CreateTemp("", "sandbox-seccomp-*.json")
	if err != nil {
		return "", nil, err
	}
	drop = func() { os.Remove(f.Name()) }
	_, err = io.WriteString(f, strings.TrimPrefix(options[i], seccompOpt))
	if err = errors.Join(err, f.Close()); err != nil {
		drop()
		return "", nil, err
	}
	return f.Name(), drop, nil
}

// isPodman reports whether the engine is a Podman, and which version of Docker's API
// it speaks then. Both answer a ping at once.
func (e *Engine) isPodman(ctx context.Context) (is bool, version string, err error) {
	r, err := e.raw(ctx, http.MethodGet, "/_ping", nil)
	if err != nil {
		return false, "", err
	}
	r.Body.Close()
	return r.Header.Get("Libpod-API-Version") != "", r.Header.Get("API-Version"), nil
}

// podmanPosture asks Podman about itself by its own API. In Docker's form it says, run
// without root, what the kernel has, and not what is delegated to it.
func (e *Engine) podmanPosture(ctx context.Context) (Posture, error) {
	var i struct {
		Host struct {
			CgroupManager     string   `json:"cgroupManager"`
			CgroupVersion     string   `json:"cgroupVersion"`
			CgroupControllers []string `json:"cgroupControllers"`
			CPUs              int      `json:"cpus"`
			Kernel            string   `json:"kernel"`
			Memory            int64    `json:"memTotal"`
			NetworkBackend    string   `json:"networkBackend"`
			IDMappings        struct {
				UIDMap []struct {
					ContainerID int `json:"container_id"`
					HostID      int `json:"host_id"`
				} `json:"uidmap"`
			} `json:"idMappings"`
			OCIRuntime struct {
				Name string `json:"name"`
			} `json:"ociRuntime"`
			Security struct {
				AppArmor bool `json:"apparmorEnabled"`
				Rootless bool `json:"rootless"`
				Seccomp  bool `json:"seccompEnabled"`
			} `json:"security"`
		} `json:"host"`
		Store struct {
			Driver string `json:"graphDriverName"`
			Root   string `json:"graphRoot"`
		} `json:"store"`
		Version struct{ Version string } `json:"version"`
	}
	if err := e.libpod(ctx, http.MethodGet, "/info", nil, &i); err != nil {
		return Posture{}, err
	}
	h := i.Host
	p := Posture{
		Host: e.Host(), Version: i.Version.Version, Podman: true, Storage: i.Store.Driver, RootDir: i.Store.Root, Kernel: h.Kernel,
		CgroupVersion: strings.TrimPrefix(h.CgroupVersion, "v"), CgroupDriver: h.CgroupManager,
		Seccomp: h.Security.Seccomp, AppArmor: h.Security.AppArmor, Rootless: h.Security.Rootless, OwnUsers: h.Security.Rootless,
		Default: h.OCIRuntime.Name, CPUs: h.CPUs, Memory: h.Memory, Networks: h.NetworkBackend, User: -1,
	}
	for _, m := range h.IDMappings.UIDMap {
		if m.ContainerID == 0 {
			p.User = m.HostID
		}
	}
	has := map[string]bool{}
	for name, controller := range map[string]string{"memory": "memory", "swap": "memory", "pids": "pids", "cpu": "cpu"} {
		has[name] = !p.Ungrouped() && slices.Contains(h.CgroupControllers, controller)
	}
	p.lacks(has)
	return p, nil
}

// libpod asks Podman's own API. in and out are JSON; either may be nil.
func (e *Engine) libpod(ctx context.Context, method, path string, in, out any) error {
	r, err := e.raw(ctx, method, libpodAPI+path, in)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxLibpod))
	if err != nil {
		return err
	}
	if r.StatusCode >= 300 {
		return libpodError(r.StatusCode, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// raw sends a request to the engine that Docker's client has no call for.
func (e *Engine) raw(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, body)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	dial := e.api.Dialer()
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	return (&http.Client{Transport: t}).Do(q)
}

// libpodError makes an error of an answer. Podman says 500 of much that Docker has a
// status for.
func libpodError(status int, text []byte) error {
	var said struct{ Message string }
	if json.Unmarshal(text, &said) != nil || said.Message == "" {
		said.Message = http.StatusText(status)
	}
	var kind error = errdefs.ErrUnknown
	switch m := said.Message; {
	case status == http.StatusNotFound, strings.Contains(m, "image not known"), strings.Contains(m, "no such container"):
		kind = errdefs.ErrNotFound
	case status == http.StatusConflict, strings.Contains(m, "already in use"):
		kind = errdefs.ErrConflict
	case strings.HasPrefix(m, "statfs "): // of the source of a mount
		kind = errdefs.ErrInvalidArgument
	case status == http.StatusForbidden:
		kind = errdefs.ErrPermissionDenied
	case status == http.StatusBadRequest:
		kind = errdefs.ErrInvalidArgument
	}
	return fmt.Errorf("%s%w", said.Message, silent{kind})
}

// silent is an error that adds no words to the message that it is wrapped in.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// A libpodContainer is what Podman says of a container, as far as it is compared.
type libpodContainer struct {
	BoundingCaps  []string
	EffectiveCaps []string
	Mounts        []struct {
		Type, Destination string
		RW                bool
	}
	HostConfig *struct {
		ReadonlyRootfs bool
		Privileged     bool
		NetworkMode    string
		SecurityOpt    []string
		Memory         int64
		MemorySwap     int64
		CPUQuota       int64 `json:"CpuQuota"`
		PidsLimit      int64
		Ulimits        []struct {
			Name       string
			Soft, Hard int64
		}
		Tmpfs map[string]string
	}
}

// takenLibpod returns an error unless Podman has taken the plan as it was asked.
func (e *Engine) takenLibpod(ctx context.Context, id string, p Plan) error {
	const op = "create container"
	var c libpodContainer
	if err := e.libpod(ctx, http.MethodGet, "/containers/"+id+"/json", nil, &c); err != nil {
		return e.fail(ctx, "inspect container", p.Name, err)
	}
	field, what := c.differs(p)
	if field == "" {
		return nil
	}
	return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: op, Field: field, Resource: p.Name,
		Message: "the engine has made the container otherwise than asked: " + what, Hint: "use another version of the engine; see docs/podman.md"}
}

// differs returns the setting that c does not have as p asks for it, or "".
func (c libpodContainer) differs(p Plan) (field, what string) {
	h, want := c.HostConfig, p.Host
	if h == nil {
		return "docker", "it says nothing of the container"
	}
	pids := int64(0)
	if want.PidsLimit != nil {
		pids = *want.PidsLimit
	}
	switch {
	case h.Privileged:
		return "docker.privileged", "it is privileged"
	case h.ReadonlyRootfs != want.ReadonlyRootfs:
		return "docker.readOnlyRoot", fmt.Sprint("read-only root: ", h.ReadonlyRootfs)
	case want.NetworkMode == "none" && h.NetworkMode != "none":
		return "docker.network", "its network is " + h.NetworkMode
	case slices.Contains(want.SecurityOpt, noNewPrivileges) && !slices.ContainsFunc(h.SecurityOpt, func(o string) bool { return strings.HasPrefix(o, "no-new-privileges") }):
		return "docker", "programs inside may get new privileges"
	case slices.Contains(want.CapDrop, "ALL") && len(c.BoundingCaps)+len(c.EffectiveCaps) > 0:
		return "docker.capDrop", "it keeps " + strings.Join(append(c.BoundingCaps, c.EffectiveCaps...), " ")
	case h.Memory != want.Memory:
		return "docker.memory", fmt.Sprintf("memory of %d bytes", h.Memory)
	case want.MemorySwap > 0 && h.MemorySwap != want.MemorySwap:
		return "docker.memorySwap", fmt.Sprintf("memory and swap of %d bytes", h.MemorySwap)
	case want.NanoCPUs > 0 && h.CPUQuota != want.NanoCPUs*cpuPeriod/1e9:
		return "docker.cpus", fmt.Sprintf("a quota of processors of %d µs", h.CPUQuota)
	case h.PidsLimit != pids && (pids > 0 || h.PidsLimit > 0):
		return "docker.pidsLimit", fmt.Sprintf("%d processes", h.PidsLimit)
	}
	for _, u := range want.Ulimits {
		i := slices.IndexFunc(h.Ulimits, func(have struct {
			Name       string
			Soft, Hard int64
		}) bool {
			return strings.EqualFold(strings.TrimPrefix(have.Name, "RLIMIT_"), u.Name)
		})
		if i < 0 || h.Ulimits[i].Soft != u.Soft || h.Ulimits[i].Hard != u.Hard {
			return "docker.ulimits." + u.Name, "the limit is another one, or missing"
		}
	}
	for _, m := range want.Mounts {
		i := slices.IndexFunc(c.Mounts, func(have struct {
			Type, Destination string
			RW                bool
		}) bool {
			return have.Destination == m.Target
		})
		if i < 0 || c.Mounts[i].RW == m.ReadOnly {
			return "docker.binds", m.Target + " is missing, or can be written"
		}
	}
	for target := range want.Tmpfs {
		if size := "size="; !strings.Contains(h.Tmpfs[target], size) {
			return "docker.tmpfs", target + " has no bound"
		}
	}
	for target := range h.Tmpfs {
		if _, ok := want.Tmpfs[target]; !ok {
			return "docker.tmpfs", target + " is a folder in memory that was not asked for"
		}
	}
	return "", ""
}
