// Package container is a client of a Docker engine for containers: create,
// start, pause, exec, inspect, list, remove, statistics and events; and for the
// networks that belong to one container each.
//
// Every call has a deadline of its own beside the caller's context, and
// every failure is a *sandbox.Error: [sandbox.CodeNotFound] only when the
// engine itself said that there is no such container, [sandbox.CodeTimeout]
// when it did not answer in time, [sandbox.CodeUnavailable] when it could
// not be reached or failed.
package container

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"

	"github.com/bulkhead-dev/sandbox"
)

// Deadlines bound engine calls. A zero field takes the default, which is some
// hundred times what a call takes at rest: an engine answers one question after
// the other while it starts many containers.
type Deadlines struct {
	Query  time.Duration // inspect, list, ping, info; default 30 s
	Create time.Duration // create; default 60 s
	Change time.Duration // pause, kill, remove; default 60 s
	Start  time.Duration // start, which waits for the runtime; default 120 s
}

func (d Deadlines) withDefaults() Deadlines {
	if d.Query == 0 {
		d.Query = 30 * time.Second
	}
	if d.Create == 0 {
		d.Create = 60 * time.Second
	}
	if d.Change == 0 {
		d.Change = 60 * time.Second
	}
	if d.Start == 0 {
		d.Start = 120 * time.Second
	}
	return d
}

// An Engine is a connection to a Docker engine, safe for concurrent use.
type Engine struct {
	api   client.APIClient
	limit Deadlines

	ungrouped bool

	mu    sync.Mutex
	known Posture
	asked time.Time // zero until known is
}

// New returns an Engine that talks through api.
func New(api client.APIClient, d Deadlines) *Engine {
	return &Engine{api: api, limit: d.withDefaults(), ungrouped: ungrouped(api.DaemonHost())}
}

// Groups reports whether containers of the engine have control groups, without which
// they cannot be paused and what they use is not known. It asks the engine nothing.
func (e *Engine) Groups() bool { return !e.ungrouped }

// Host is the address of the engine.
func (e *Engine) Host() string { return e.api.DaemonHost() }

// Close releases idle connections.
func (e *Engine) Close() error { return e.api.Close() }

// Create makes a container from p without starting it and returns its id with
// the engine's warnings. It returns [sandbox.CodeCapabilityBlocked] for a
// volume that the image declares and to which the plan gives no folder, because
// the engine would give it a writable, unbounded folder on the host's disk, and
// for an AppArmor profile at an engine without AppArmor, which would silently
// ignore it.
func (e *Engine) Create(ctx context.Context, p Plan) (id string, warnings []string, err error) {
	if p.Host.NetworkMode == sandbox.NetworkOwn {
		return "", nil, sandbox.Errorf(sandbox.CodeInternal, "create container", "%s is to have a network of its own, and none was made", p.Name)
	}
	has, err := e.Known(ctx)
	if err != nil {
		return "", nil, err
	}
	if err := confines(has, p); err != nil {
		return "", nil, err
	}
	p, weaker, err := p.fits(has)
	if err != nil {
		return "", nil, err
	}
	ctx, done := context.WithTimeout(ctx, e.limit.Create)
	defer done()
	if has.Podman {
		id, warnings, err = e.createLibpod(ctx, p, has)
	} else {
		var r container.CreateResponse
		r, err = e.api.ContainerCreate(ctx, p.Config, p.Host, p.Network, nil, p.Name)
		id, warnings, err = r.ID, r.Warnings, e.fail(ctx, "create container", p.Name, err)
	}
	if err != nil {
		return "", nil, err
	}
	err = e.refuseVolumes(ctx, id, p.Name)
	if err == nil && has.Podman {
		err = e.takenLibpod(ctx, id, p)
	}
	if err != nil {
		clean, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer done()
		return "", nil, errors.Join(err, e.Remove(clean, id))
	}
	return id, append(weaker, warnings...), nil
}

// confines refuses a profile that nothing would hold the container to.
func confines(has Posture, p Plan) error {
	i := slices.IndexFunc(p.Host.SecurityOpt, func(o string) bool { return strings.HasPrefix(o, appArmorOpt) })
	if i < 0 || has.AppArmor {
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: "create container", Field: "docker.apparmorProfile", Resource: strings.TrimPrefix(p.Host.SecurityOpt[i], appArmorOpt),
		Message: "the engine's kernel has no AppArmor, so the profile would confine nothing", Hint: "leave the setting out, or boot the host with AppArmor; see: sandbox doctor",
	}
}

func (e *Engine) refuseVolumes(ctx context.Context, id, name string) error {
	c, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return e.fail(ctx, "inspect container", name, err)
	}
	for _, m := range c.Mounts {
		if m.Type == mount.TypeVolume {
			return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create container", Field: "docker.image", Resource: name,
				Message: "the image declares the volume " + strconv.Quote(m.Destination) + ", which would be an unbounded folder on the host's disk",
				Hint:    "use an image without volumes"}
		}
	}
	return nil
}

// Start starts the container. A running container is left alone.
func (e *Engine) Start(ctx context.Context, name string) error {
	ctx, done := context.WithTimeout(ctx, e.limit.Start)
	defer done()
	return e.fail(ctx, "start container", name, e.api.ContainerStart(ctx, name, container.StartOptions{}))
}

// Pause freezes the container. A runtime gives up, and thaws what it had
// frozen, when processes inside do not freeze in time. Pause retries a few
// times, which the runtime leaves to the caller (runc, pull request 4388), and
// then returns a retryable error.
func (e *Engine) Pause(ctx context.Context, name string) error {
	if e.ungrouped {
		return noGroups("pause container", name)
	}
	ctx, done := context.WithTimeout(ctx, e.limit.Change)
	defer done()
	err := e.api.ContainerPause(ctx, name)
	for wait := 100 * time.Millisecond; isRestless(err) && wait < time.Second && ctx.Err() == nil; wait *= 2 {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			err = e.api.ContainerPause(ctx, name)
		}
	}
	return e.fail(ctx, "pause container", name, err)
}

// Unpause thaws the container.
func (e *Engine) Unpause(ctx context.Context, name string) error {
	ctx, done := context.WithTimeout(ctx, e.limit.Change)
	defer done()
	return e.fail(ctx, "unpause container", name, e.api.ContainerUnpause(ctx, name))
}

// Kill ends the container's first process at once, and everything with it.
func (e *Engine) Kill(ctx context.Context, name string) error {
	ctx, done := context.WithTimeout(ctx, e.limit.Change)
	defer done()
	return e.fail(ctx, "kill container", name, e.api.ContainerKill(ctx, name, "KILL"))
}

// Remove ends and removes the container with its anonymous volumes. It returns
// nil if there is no such container.
func (e *Engine) Remove(ctx context.Context, name string) error {
	ctx, done := context.WithTimeout(ctx, e.limit.Change)
	defer done()
	err := e.api.ContainerRemove(ctx, name, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err = e.fail(ctx, "remove container", name, err); sandbox.IsNotFound(err) {
		return nil
	}
	return err
}

// Inspect returns what the engine knows of a container of ours. One without our
// labels is reported with an empty Owner.
func (e *Engine) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	ctx, done := context.WithTimeout(ctx, e.limit.Query)
	defer done()
	r, err := e.api.ContainerInspect(ctx, name)
	if err != nil {
		return sandbox.Info{}, e.fail(ctx, "inspect container", name, err)
	}
	if r.ContainerJSONBase == nil || r.State == nil || r.Config == nil {
		return sandbox.Info{}, sandbox.Errorf(sandbox.CodeUnavailable, "inspect container", "the engine's answer about %s is incomplete", name)
	}
	if r.State.Status == container.StateRemoving || r.State.Dead {
		return sandbox.Info{}, &sandbox.Error{Code: sandbox.CodeBusy, Op: "inspect container", Resource: name, Message: "the container is being removed", Retryable: true}
	}
	info := fromLabels(r.Config.Labels)
	info.Name = trimName(r.Name)
	info.ID = r.ID
	info.Image = r.Config.Image
	info.ImageID = r.Image
	info.Status = statusOf(r.State.Status)
	info.PID = r.State.Pid
	info.StartedAt = parseTime(r.State.StartedAt)
	if info.CreatedAt.IsZero() {
		info.CreatedAt = parseTime(r.Created)
	}
	return info, nil
}

// List returns the containers that carry our labels and match f, in one engine call.
// The StartedAt of one that was started is not before its CreatedAt, and no more is
// known of it.
func (e *Engine) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	ctx, done := context.WithTimeout(ctx, e.limit.Query)
	defer done()
	rows, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filterArgs(f)})
	if err != nil {
		return nil, e.fail(ctx, "list containers", "", err)
	}
	infos := make([]sandbox.Info, 0, len(rows))
	for _, r := range rows {
		info := fromLabels(r.Labels)
		if len(r.Names) > 0 {
			info.Name = trimName(r.Names[0])
		}
		if info.Format == "" || f.Name != "" && info.Name != f.Name {
			continue
		}
		info.ID = r.ID
		info.Image = r.Image
		info.ImageID = r.ImageID
		info.Status = statusOf(r.State)
		if info.CreatedAt.IsZero() {
			info.CreatedAt = time.Unix(r.Created, 0)
		}
		if r.State != container.StateCreated {
			info.StartedAt = info.CreatedAt // at the earliest; the engine lists no more than that it was
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// statusOf maps the engine's states onto ours. What neither runs nor is
// paused can be started and counts as stopped.
func statusOf(state string) sandbox.Status {
	switch state {
	case "running", "restarting":
		return sandbox.StatusRunning
	case "paused":
		return sandbox.StatusPaused
	case "created", "exited", "dead", "removing":
		return sandbox.StatusStopped
	}
	return sandbox.StatusUnknown
}

func trimName(n string) string {
	if len(n) > 0 && n[0] == '/' {
		return n[1:]
	}
	return n
}

func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}
