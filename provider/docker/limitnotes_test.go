package docker

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
)

// describing is an engine that describes itself and does nothing else.
type describing struct {
	Engine
	posture container.Posture
	err     error
}

func (d describing) Known(context.Context) (container.Posture, error) { return d.posture, d.err }

// TestPlanOfSampledLimits holds that the plan of a sandbox says when its bound of
// processes is held by looking from time to time.
func TestPlanOfSampledLimits(t *testing.T) {
	t.Parallel()
	bounded := sandbox.Limits{Processes: 30}
	for _, tt := range []struct {
		limits          sandbox.Limits
		kernel, runtime string
		usual, why      string
	}{
		{bounded, "6.1.0", "", "runc", ""},
		{bounded, "5.0.0-rc1", "runc", "runsc", ""},
		{bounded, "4.19.0-27-amd64", "", "runc", "the kernel 4.19.0-27-amd64"},
		{bounded, "6.1.0", "runsc", "runc", "the runtime runsc"},
		{bounded, "6.1.0", "", "runsc", "the runtime runsc"},
		{bounded, "", "", "", ""},
		{sandbox.Limits{}, "4.19.0", "", "runc", ""},
	} {
		p := &Provider{engine: describing{posture: container.Posture{Kernel: tt.kernel, Default: tt.usual}}}
		plan, err := p.Plan(context.Background(), sandbox.Spec{Limits: tt.limits, Runtime: tt.runtime})
		said := strings.Join(plan.Notes, "\n")
		if err != nil || (said == "") != (tt.why == "") || !strings.Contains(said, tt.why) || tt.why != "" && !strings.Contains(said, "limits.processes is held by looking from time to time") {
			t.Errorf("%+v: %q, %v", tt, said, err)
		}
	}
	p := &Provider{engine: describing{err: errors.New("no answer")}}
	if plan, err := p.Plan(context.Background(), sandbox.Spec{Limits: bounded}); err != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "not known: no answer") {
		t.Errorf("an engine that does not answer: %+v, %v", plan, err)
	}
}

// TestPlanOfMissingLimits holds that the plan says which limits the engine does not
// enforce, and whether a sandbox is made all the same.
func TestPlanOfMissingLimits(t *testing.T) {
	t.Parallel()
	rootless := container.Posture{Podman: true, Rootless: true, OwnUsers: true, CgroupVersion: "1", MissingLimits: []string{"cpu", "memory", "pids", "swap"}, Kernel: "6.1.0"}
	for _, tt := range []struct {
		posture   container.Posture
		dangerous []string
		says      []string
	}{
		{rootless, nil, []string{"no sandbox can be made: SANDBOX.UNSUPPORTED", "docker.cpus and docker.memory", "share the kernel's budgets", "cannot be paused", "RLIMIT_NPROC"}},
		{rootless, []string{"dangerouslyAllowMissingLimits"}, []string{"not enforced by this engine", "docker.cpus, docker.memory"}},
		{container.Posture{Rootless: true, CgroupVersion: "2", CgroupDriver: "systemd", Kernel: "6.1.0"}, nil, []string{"runs without root"}},
		{container.Posture{MissingLimits: []string{"memory", "swap"}, Kernel: "6.1.0"}, nil, []string{"no sandbox can be made", "docker.memory"}},
	} {
		p := &Provider{engine: describing{posture: tt.posture}}
		plan, err := p.Plan(context.Background(), sandbox.Spec{Security: sandbox.Security{Dangerous: tt.dangerous}})
		said := strings.Join(plan.Notes, "\n")
		for _, want := range tt.says {
			if err != nil || !strings.Contains(said, want) {
				t.Errorf("%+v: %v, %q lacks %q", tt.posture, err, said, want)
			}
		}
	}
}
