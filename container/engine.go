package container

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"golang.org/x/sys/unix"
)

// A Posture is what an engine says of itself, as far as it matters for
// isolation.
type Posture struct {
	Host          string
	Version       string
	APIVersion    string
	Storage       string // storage driver
	RootDir       string // where the engine keeps its data
	Kernel        string // release of the kernel that the engine runs on
	CgroupVersion string
	CgroupDriver  string
	Seccomp       bool
	AppArmor      bool
	Podman        bool
	Rootless      bool
	UserNS        bool
	Runtimes      []string
	Default       string // default runtime
	CPUs          int
	Memory        int64 // bytes
	Time          string
	MissingLimits []string // limits that the engine does not enforce: "cpu", "memory", "pids", "swap"
	OwnUsers      bool     // each container has a user namespace of its own
	Networks      string   // what makes Podman's networks
	User          int      // on the host, of a rootless engine; -1 where that is not known
}

// Ungrouped reports whether the engine cannot pause a container, nor say what one uses:
// it gives containers no control groups.
func (p Posture) Ungrouped() bool {
	return p.Rootless && (p.CgroupVersion == "1" || p.CgroupDriver == "none")
}

// Uncounted returns why processes in a container of the runtime, which may be
// empty for the default one, cannot be counted before they are made, and ""
// where nothing is known to prevent it. The guest then enforces a limit of
// processes by polling, and a burst exceeds it for a moment. The guest
// determines the same by itself and reports it when a sandbox starts; Uncounted
// is for callers that need to know before.
func (p Posture) Uncounted(runtime string) string {
	if runtime == "" {
		runtime = p.Default
	}
	var major, minor int
	switch n, _ := fmt.Sscanf(p.Kernel, "%d.%d", &major, &minor); {
	case strings.Contains(runtime, "runsc"):
		return "the runtime " + runtime + " hands no system calls to listeners"
	case n == 2 && major < 5:
		return "the kernel " + p.Kernel + " hands no system calls to listeners, which 5.0 and later do"
	}
	return ""
}

// Ping asks whether the engine answers.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, e.limit.Query)
	defer done()
	_, err := e.api.Ping(ctx)
	return e.fail(ctx, "ping engine", "", err)
}

// Posture asks the engine about itself.
func (e *Engine) Posture(ctx context.Context) (Posture, error) {
	ctx, done := context.WithTimeout(ctx, e.limit.Query)
	defer done()
	podman, version, err := e.isPodman(ctx)
	if err != nil {
		return Posture{}, e.fail(ctx, "ask engine", "", err)
	}
	if podman {
		p, err := e.podmanPosture(ctx)
		p.APIVersion = version
		return p, e.fail(ctx, "ask engine", "", err)
	}
	i, err := e.api.Info(ctx)
	if err != nil {
		return Posture{}, e.fail(ctx, "ask engine", "", err)
	}
	p := Posture{
		Host: e.Host(), Version: i.ServerVersion, APIVersion: e.api.ClientVersion(),
		Storage: i.Driver, RootDir: i.DockerRootDir, Kernel: i.KernelVersion,
		CgroupVersion: i.CgroupVersion, CgroupDriver: i.CgroupDriver,
		Default: i.DefaultRuntime, CPUs: i.NCPU, Memory: i.MemTotal, Time: i.SystemTime,
	}
	for name := range i.Runtimes {
		p.Runtimes = append(p.Runtimes, name)
	}
	for _, o := range i.SecurityOptions {
		switch {
		case strings.HasPrefix(o, "name=seccomp"):
			p.Seccomp = true
		case strings.HasPrefix(o, "name=apparmor"):
			p.AppArmor = true
		case strings.HasPrefix(o, "name=rootless"):
			p.Rootless = true
		case strings.HasPrefix(o, "name=userns"):
			p.UserNS = true
		}
	}
	p.User = -1
	if p.Rootless {
		p.User = socketOwner(e.Host())
	}
	p.lacks(map[string]bool{"memory": i.MemoryLimit, "swap": i.SwapLimit, "pids": i.PidsLimit, "cpu": i.CPUCfsQuota})
	return p, nil
}

// lacks notes which limits are missing.
func (p *Posture) lacks(has map[string]bool) {
	for name, have := range has {
		if !have {
			p.MissingLimits = append(p.MissingLimits, name)
		}
	}
	slices.Sort(p.MissingLimits)
}

// socketOwner returns the user to whom the socket of an engine belongs, -1 for an
// address that is none.
func socketOwner(address string) int {
	path, ok := strings.CutPrefix(address, "unix://")
	var st unix.Stat_t
	if !ok || unix.Stat(path, &st) != nil {
		return -1
	}
	return int(st.Uid)
}

// An Event is a change in the life of one of our containers.
type Event struct {
	Name   string // the container
	Action string // "start", "die", "pause", "destroy", …
}

// Events sends the changes of containers that carry our labels until ctx
// ends or the stream breaks; the error channel then receives one value.
func (e *Engine) Events(ctx context.Context) (<-chan Event, <-chan error) {
	in, inErr := e.api.Events(ctx, events.ListOptions{Filters: filters.NewArgs(
		filters.Arg("type", string(events.ContainerEventType)), filters.Arg("label", labelFormat))})
	out, errs := make(chan Event), make(chan error, 1)
	go func() {
		defer close(out)
		for {
			select {
			case m := <-in:
				select {
				case out <- Event{Name: m.Actor.Attributes["name"], Action: string(m.Action)}:
				case <-ctx.Done():
				}
			case err := <-inErr:
				errs <- e.fail(ctx, "watch events", "", err)
				return
			}
		}
	}()
	return out, errs
}
