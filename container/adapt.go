package container

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/bulkhead-dev/sandbox"
)

// postureFor is how long an answer of the engine about itself counts.
const postureFor = time.Minute

// Known returns what the engine says of itself, at most a minute old: what a
// container needs to know of it changes only with the engine.
func (e *Engine) Known(ctx context.Context) (Posture, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.asked) < postureFor {
		return e.known, nil
	}
	p, err := e.Posture(ctx)
	if err == nil {
		e.known, e.asked = p, time.Now()
	}
	return p, err
}

// ungrouped reports whether the engine at address gives containers no control groups:
// it runs without root, so that its socket belongs to an ordinary user, and this
// machine has no control groups of version 2, which alone can be delegated.
func ungrouped(address string) bool { return socketOwner(address) > 0 && !unifiedCgroups() }

func noGroups(op, name string) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: op, Resource: name,
		Message: "the engine runs without root on control groups of version 1, so its containers have none", Hint: "see docs/podman.md"}
}

// limitSettings are the settings of limits, by their names in
// [Posture.MissingLimits].
func limitSettings(name string) string {
	return map[string]string{"memory": "docker.memory", "pids": "docker.pidsLimit", "cpu": "docker.cpus"}[name]
}

// Missing returns the settings of limits that an engine of this posture cannot
// enforce, sorted, and what each is.
func (p Posture) Missing() []string {
	var out []string
	for _, name := range p.MissingLimits {
		if name == "pids" && p.OwnUsers {
			continue // RLIMIT_NPROC counts the container's user alone
		}
		if s := limitSettings(name); s != "" {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// Refusal is the error for the settings of limits that the engine cannot enforce,
// nil where there are none.
func (p Posture) Refusal(op, name string) error {
	missing := p.Missing()
	if len(missing) == 0 {
		return nil
	}
	why := "the control groups of its machine"
	switch {
	case p.Rootless && p.CgroupVersion == "1":
		why = "it runs without root, and control groups of version 1 cannot be delegated to it"
	case p.Rootless:
		why = "it runs without root, and their control group controllers are not delegated to it"
	}
	hint := "boot the machine with the control group controllers"
	if p.Rootless {
		hint = "boot the machine with control groups of version 2 and have systemd delegate cpu, memory and pids to users"
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: op, Field: missing[0], Resource: name,
		Message: "the engine cannot enforce " + strings.Join(missing, " and ") + ": " + why,
		Hint:    hint + " (see docs/podman.md), use an engine with root, or accept it: docker.dangerouslyAllowMissingLimits",
	}
}

// Weaker says, a sentence each, what containers of this engine have less of than those
// of a Docker with root, limits left out.
func (p Posture) Weaker() []string {
	var out []string
	if p.Rootless {
		out = append(out, "the engine runs without root: all its sandboxes run as its own user on the host, and share the kernel's budgets for that user")
	}
	if p.Ungrouped() {
		out = append(out, "the engine gives containers no control groups: they cannot be paused, and what one uses is not known")
		if p.OwnUsers {
			out = append(out, "docker.pidsLimit is enforced by RLIMIT_NPROC in the user namespace of the container")
		}
	}
	return out
}

// fits returns p as the engine takes it, and in words what is weaker there. It
// returns [sandbox.CodeUnsupported] for what the engine cannot enforce.
func (p Plan) fits(has Posture) (Plan, []string, error) {
	if !has.Rootless && len(has.Missing()) == 0 {
		return p, nil, nil
	}
	if has.Rootless && has.User >= 0 && has.User != os.Geteuid() {
		return p, nil, &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "create container", Field: "DOCKER_HOST", Resource: p.Name,
			Message: fmt.Sprintf("the engine at %s runs as uid %d and we as uid %d: it cannot give a sandbox the folders of another user", has.Host, has.User, os.Geteuid()),
			Hint:    "run as the user of the engine, or use an engine with root",
		}
	}
	if has.Rootless && !has.Podman {
		return p, nil, &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "create container", Field: "DOCKER_HOST", Resource: p.Name,
			Message: "the engine at " + has.Host + " is a Docker without root, which maps its user to the root of a container alone, and a sandbox never runs as root",
			Hint:    "use Podman, which needs no root either (see docs/podman.md), or an engine with root",
		}
	}
	host := *p.Host
	p.Host = &host
	var weaker []string
	if missing := has.Missing(); len(missing) > 0 {
		if !p.Unlimited {
			return p, nil, has.Refusal("create container", p.Name)
		}
		weaker = append(weaker, "weaker here: no limit by "+strings.Join(missing, ", ")+", as docker.dangerouslyAllowMissingLimits allows")
	}
	for _, name := range has.MissingLimits {
		switch name {
		case "memory":
			host.Memory, host.MemorySwap = 0, 0
		case "cpu":
			host.NanoCPUs = 0
		case "pids":
			if has.OwnUsers && host.PidsLimit != nil && *host.PidsLimit > 0 {
				host.Ulimits = append(slices.Clone(host.Ulimits), &container.Ulimit{Name: "nproc", Soft: *host.PidsLimit, Hard: *host.PidsLimit})
			}
			host.PidsLimit = nil
		}
	}
	return p, weaker, nil
}
