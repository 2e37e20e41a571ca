package docker_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// TestBehindOurBack does to a container what others do to containers.
func TestBehindOurBack(t *testing.T) {
	t.Parallel()
	tests := map[string]func(ctx context.Context, r *dockertest.Rig, name string) error{
		"paused": func(ctx context.Context, r *dockertest.Rig, name string) error { return r.Engine.Pause(ctx, name) },
		"killed": func(ctx context.Context, r *dockertest.Rig, name string) error { return r.Engine.Kill(ctx, name) },
		"stopped": func(_ context.Context, _ *dockertest.Rig, name string) error {
			return exec.Command("docker", "stop", "-t", "5", name).Run()
		},
		"restarted": func(_ context.Context, _ *dockertest.Rig, name string) error {
			return exec.Command("docker", "restart", "-t", "5", name).Run()
		},
	}
	for what, do := range tests {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := dockertest.New(t)
			if what == "paused" {
				needGroups(t, r)
			}
			s := r.Spec(what)
			s.OnStart = []string{"echo started >> /workspace/starts"}
			sb := r.Create(s)
			ctx := context.Background()
			must(t, do(ctx, r, s.Name))
			if what != "paused" {
				// The old handle fails in bounded time and says so.
				p, err := sb.Start(ctx, sandbox.Command{Args: []string{"true"}})
				if err == nil {
					_, err = p.Wait()
				}
				if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
					t.Errorf("the handle from before says %v", err)
				}
			}
			again := r.Reopen(s)
			if out, code := sh(t, again, "echo back"); out != "back" || code != 0 {
				t.Errorf("%q, %d", out, code)
			}
			want := "2"
			if what == "paused" {
				want = "1"
			}
			if out, _ := sh(t, again, "grep -c started /workspace/starts"); out != want {
				t.Errorf("start commands ran %s times, want %s", out, want)
			}
		})
	}
}

func TestRemovedBehindOurBack(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	sb, s := r.Open("gone")
	ctx := context.Background()
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sleep", "60"}})
	must(t, err)
	must(t, r.Engine.Remove(ctx, s.Name))
	if _, err := p.Wait(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("the running command ends with %v", err)
	}
	if _, err := r.P.Open(ctx, s); !sandbox.IsNotFound(err) {
		t.Errorf("open says %v", err)
	}
	must(t, r.P.Remove(ctx, s.Name))
}

// TestCreateLeavesNothing makes each step of create fail.
func TestCreateLeavesNothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(*sandbox.Spec)
		wrap  func(docker.Engine) docker.Engine
		code  sandbox.Code
	}{
		"image is not there":  {spoil: func(s *sandbox.Spec) { s.ImageID = "sandbox-no-such-image:none" }, code: sandbox.CodeNotFound},
		"source is not there": {spoil: func(s *sandbox.Spec) { os.RemoveAll(workspaceOf(*s)) }, code: sandbox.CodeValidation},
		"start command fails": {spoil: func(s *sandbox.Spec) { s.OnStart = []string{"exit 7"} }, code: sandbox.CodeExecution},
		"engine fails at start": {wrap: func(e docker.Engine) docker.Engine {
			return failing{Engine: e, start: errors.New("no start today")}
		}, code: sandbox.CodeInternal},
		"answer to create is lost": {wrap: func(e docker.Engine) docker.Engine {
			return failing{Engine: e, create: sandbox.Errorf(sandbox.CodeTimeout, "create", "no answer")}
		}, code: sandbox.CodeTimeout},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := dockertest.New(t)
			s := r.Spec("nothing")
			if tt.spoil != nil {
				tt.spoil(&s)
			}
			p := r.P
			if tt.wrap != nil {
				p = docker.New(tt.wrap(r.Engine), docker.Options{Sockets: r.State, World: r.World})
			}
			_, err := p.Create(context.Background(), s)
			if sandbox.CodeOf(err) != tt.code {
				t.Errorf("got %v, want code %s", err, tt.code)
			}
			infos, err := r.Engine.List(context.Background(), sandbox.Filter{Instance: r.State.Instance()})
			if err != nil || len(infos) != 0 {
				t.Errorf("left behind: %+v, %v", infos, err)
			}
		})
	}
}

// failing is an engine that loses answers.
type failing struct {
	docker.Engine
	create, start error
}

func (f failing) Create(ctx context.Context, p container.Plan) (string, []string, error) {
	id, w, err := f.Engine.Create(ctx, p)
	if err == nil && f.create != nil {
		return "", nil, f.create
	}
	return id, w, err
}

func (f failing) Start(ctx context.Context, name string) error {
	if f.start != nil {
		return f.start
	}
	return f.Engine.Start(ctx, name)
}

// withoutIPv6 is an engine on a kernel without IPv6.
type withoutIPv6 struct {
	docker.Engine
	asked map[string]bool // containers made with a setting of IPv6
}

func (w withoutIPv6) Create(ctx context.Context, p container.Plan) (string, []string, error) {
	id, warnings, err := w.Engine.Create(ctx, p)
	w.asked[id] = len(p.Host.Sysctls) > 0
	return id, warnings, err
}

func (w withoutIPv6) Start(ctx context.Context, name string) error {
	if w.asked[name] {
		return sandbox.Errorf(sandbox.CodeUnavailable, "start container", "runc create failed: open /proc/sys/net/ipv6/conf/lo/disable_ipv6: no such file or directory")
	}
	return w.Engine.Start(ctx, name)
}

// TestKernelWithoutIPv6 holds that a sandbox is made all the same, and that the
// operator hears what it lacks.
func TestKernelWithoutIPv6(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := r.Spec("noipv6")
	without := "! grep -q lo /proc/net/if_inet6"
	if r.Posture.Podman { // which takes ::1 away from no container
		without = "true"
	}
	var warned []string
	p := docker.New(withoutIPv6{r.Engine, map[string]bool{}}, docker.Options{
		Sockets: r.State, World: r.World, Warn: func(_, w string) { warned = append(warned, w) },
	})
	_, err := p.Create(context.Background(), s)
	must(t, err)
	if out, code := sh(t, r.Reopen(s), "getent hosts sandbox && "+without); code != 0 {
		t.Errorf("printed %q, exit %d", out, code)
	}
	if !slices.ContainsFunc(warned, func(w string) bool { return strings.Contains(w, "IPv6") }) {
		t.Errorf("warned only of %q", warned)
	}
}

// TestCancelledCreate ends the caller's context at different moments.
func TestCancelledCreate(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	for _, after := range []time.Duration{0, 3, 10, 30, 80, 150, 300} {
		s := r.Spec("cancel")
		ctx, cancel := context.WithTimeout(context.Background(), after*time.Millisecond)
		_, err := r.P.Create(ctx, s)
		cancel()
		infos, listErr := r.Engine.List(context.Background(), sandbox.Filter{Instance: r.State.Instance()})
		must(t, listErr)
		if err != nil && len(infos) != 0 {
			t.Fatalf("cancelled after %d ms: %v, but left %+v", after, err, infos)
		}
		must(t, r.P.Remove(context.Background(), s.Name))
	}
}

func TestCreateOnce(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := r.Spec("once")
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() { _, errs[i] = r.P.Create(context.Background(), s) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		switch sandbox.CodeOf(err) {
		case "":
			made++
		case sandbox.CodeBusy:
		default:
			t.Errorf("unexpected: %v", err)
		}
	}
	if made != 1 {
		t.Errorf("%d creates succeeded, want 1", made)
	}
}

func TestForeignContainer(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := r.Spec("foreign")
	out, err := exec.Command("docker", "create", "--label", "dev.bulkhead.test="+r.State.Instance(), "--name", s.Name, dockertest.Image, "true").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	id := strings.TrimSpace(string(out))
	defer exec.Command("docker", "rm", "-f", id).Run()
	ctx := context.Background()
	if _, err := r.P.Open(ctx, s); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("open says %v", err)
	}
	if err := r.P.Remove(ctx, s.Name); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("remove says %v", err)
	}
	if _, err := r.P.Create(ctx, s); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("create says %v", err)
	}
}

func TestSomebodyElses(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	_, s := r.Open("mine")
	s.Owner.Tenant = "intruder"
	if _, err := r.P.Open(context.Background(), s); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("open says %v", err)
	}
}

// TestRefusedAtCreate checks that the provider itself refuses, for every
// caller.
func TestRefusedAtCreate(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	link := t.TempDir() + "/innocent"
	must(t, os.Symlink("/etc", link))
	tests := map[string]func(*sandbox.Spec){
		"host network":    func(s *sandbox.Spec) { s.Network = "host" },
		"other container": func(s *sandbox.Spec) { s.Network = "container:x" },
		"unconfined":      func(s *sandbox.Spec) { s.Security.Seccomp = "unconfined" },
		"no filter":       func(s *sandbox.Spec) { s.Security.Seccomp = "" },
		"root":            func(s *sandbox.Spec) { s.UID = 0 },
		"capabilities":    func(s *sandbox.Spec) { s.Security.CapDrop = nil },
		"new privileges":  func(s *sandbox.Spec) { s.Security.NoNewPrivileges = false },
		"link to etc":     func(s *sandbox.Spec) { s.Mounts = append(s.Mounts, bind(link, "/data")) },
		"engine socket":   func(s *sandbox.Spec) { s.Mounts = append(s.Mounts, bind("/var/run/docker.sock", "/d.sock")) },
		"state folder":    func(s *sandbox.Spec) { s.Mounts = append(s.Mounts, bind(r.State.Path(), "/data")) },
		"parent of state": func(s *sandbox.Spec) { s.Mounts = append(s.Mounts, bind(r.State.Path()+"/..", "/data")) },
		"agent is etc": func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/etc", Target: "/agent", ReadOnly: true, Role: sandbox.RoleAgent})
		},
		"workspace is root": func(s *sandbox.Spec) { s.Mounts[4].Source = "/" },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := r.Spec("refused")
			spoil(&s)
			if _, err := r.P.Create(context.Background(), s); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Errorf("got %v", err)
			}
			if _, err := r.P.Inspect(context.Background(), s.Name); !sandbox.IsNotFound(err) {
				t.Errorf("something was made: %v", err)
			}
		})
	}
}

func bind(source, target string) sandbox.Mount {
	return sandbox.Mount{Source: source, Target: target, Role: sandbox.RoleBind}
}
