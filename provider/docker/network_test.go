package docker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// ownSpec is the Spec for key with a network of its own.
func ownSpec(r *dockertest.Rig, key string) sandbox.Spec {
	if r.Posture.Podman { // see TestOwnNetworkOfPodman
		testenv.Lack(r.T, "dockerd", "Podman makes no network for a sandbox alone")
	}
	s := r.Spec(key)
	s.Network = sandbox.NetworkOwn
	return s
}

// TestOwnNetworkOfPodman holds that Podman is refused what it does not isolate, before
// anything is made.
func TestOwnNetworkOfPodman(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := r.Spec("podman")
	s.Network = sandbox.NetworkOwn
	p := docker.New(asPodman{r.Engine}, docker.Options{Sockets: r.State, Instance: r.State.Instance(), World: r.World})
	_, err := p.Create(t.Context(), s)
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeUnsupported || e.Field != "docker.network" {
		t.Errorf("got %v", err)
	}
	if _, err := r.Engine.Inspect(t.Context(), s.Name); !sandbox.IsNotFound(err) {
		t.Errorf("a container was made: %v", err)
	}
	noNetworks(t, r)
}

// asPodman is an engine that says that it is Podman.
type asPodman struct{ *container.Engine }

func (e asPodman) Known(ctx context.Context) (container.Posture, error) {
	p, err := e.Engine.Known(ctx)
	p.Podman = true
	return p, err
}

// networksOf returns the engine's networks of that name.
func networksOf(t testing.TB, r *dockertest.Rig, name string) []container.Network {
	t.Helper()
	all, err := r.Engine.Networks(context.Background())
	must(t, err)
	var out []container.Network
	for _, n := range all {
		if n.Name == name {
			out = append(out, n)
		}
	}
	return out
}

// noNetworks fails when a network of the test's instance is there.
func noNetworks(t testing.TB, r *dockertest.Rig) {
	t.Helper()
	all, err := r.Engine.Networks(context.Background())
	must(t, err)
	for _, n := range all {
		if n.Labels.Owner.Instance == r.State.Instance() {
			t.Errorf("the network %s is left", n.Name)
		}
	}
}

// dockerCmd runs the engine's own command line.
func dockerCmd(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// foreignNetwork makes a network that is not ours.
func foreignNetwork(t testing.TB, r *dockertest.Rig, name string, args ...string) string {
	t.Helper()
	id := dockerCmd(t, append(append([]string{"network", "create", "--label", "dev.bulkhead.test=" + r.State.Instance()}, args...), name)...)
	t.Cleanup(func() { exec.Command("docker", "network", "rm", id).Run() })
	return id
}

// TestOwnNetwork follows a network from its making to its end.
func TestOwnNetwork(t *testing.T) {
	t.Parallel()
	r, ctx := dockertest.New(t), context.Background()
	s := ownSpec(r, "own")
	sb := r.Create(s)
	n := networksOf(t, r, s.Name)
	if len(n) != 1 || !n[0].AsPlanned || !n[0].Labels.Owner.Same(s.Owner) || n[0].Labels.Kind != s.Kind {
		t.Fatalf("networks %+v", n)
	}
	if n[0].Subnets[0].Bits() < 28 {
		t.Errorf("%s is not small", n[0].Subnets[0])
	}
	out, _ := sh(t, sb, "cat /proc/net/fib_trie; echo; cat /proc/net/if_inet6 2>/dev/null | grep -v ' lo$'; true")
	if !strings.Contains(out, n[0].Subnets[0].Addr().String()) {
		t.Errorf("inside there is no route to %s:\n%s", n[0].Subnets[0], out)
	}
	if _, six, _ := strings.Cut(out, "\n\n"); strings.TrimSpace(six) != "" {
		t.Errorf("inside there is IPv6: %s", six)
	}
	if infos, err := r.P.List(ctx, sandbox.Filter{Instance: r.State.Instance()}); err != nil || len(infos) != 1 || infos[0].Status != sandbox.StatusRunning {
		t.Errorf("list: %+v, %v", infos, err)
	}
	dockerCmd(t, "stop", "-t", "5", s.Name)
	if out, code := sh(t, r.Reopen(s), "echo back"); out != "back" || code != 0 {
		t.Errorf("after a stop: %q, %d", out, code)
	}
	must(t, r.P.Remove(ctx, s.Name))
	must(t, r.P.Remove(ctx, s.Name))
	noNetworks(t, r)
}

// TestOwnNetworkReaches holds what the documentation says of such a network:
// the host's services are in reach at the gateway.
func TestOwnNetworkReaches(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := ownSpec(r, "reaches")
	sb := r.Create(s)
	l, err := net.Listen("tcp4", ":0")
	must(t, err)
	defer l.Close()
	gateway := networksOf(t, r, s.Name)[0].Subnets[0].Addr().Next()
	line := fmt.Sprintf("timeout 60 bash -c 'exec 3<>/dev/tcp/%s/%d' && echo reached", gateway, l.Addr().(*net.TCPAddr).Port)
	if out, _ := sh(t, sb, line); out != "reached" {
		t.Errorf("the host's service is not reached: %s", out)
	}
}

// TestOwnNetworkPeer checks that a foreign container attached to the network
// does not reach the sandbox over it, and that the host does.
func TestOwnNetworkPeer(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := ownSpec(r, "peer")
	sb := r.Create(s)
	l, err := sb.(sandbox.Listener).Listen(context.Background(), "tcp", "0.0.0.0:8123")
	must(t, err)
	defer l.Close()
	id := networksOf(t, r, s.Name)[0].ID
	addr := dockerCmd(t, "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", s.Name)
	connect := func(within string) string {
		return "timeout " + within + " bash -c 'exec 3<>/dev/tcp/" + addr + "/8123'"
	}
	if out, err := exec.Command("sh", "-c", connect("60")).CombinedOutput(); err != nil {
		t.Fatalf("the control fails, the host does not reach the sandbox: %v %s", err, out)
	}
	if out, err := exec.Command("docker", "run", "--rm", "--label", "dev.bulkhead.test="+r.State.Instance(), "--network", id, dockertest.Image, "sh", "-c", connect("3")).CombinedOutput(); err == nil {
		t.Errorf("a neighbour on the network reaches the sandbox: %s", out)
	}
}

// TestOwnNetworksAtOnce makes three at the same moment.
func TestOwnNetworksAtOnce(t *testing.T) {
	r, ctx := dockertest.New(t), context.Background()
	routes, err := container.HostRoutes()
	must(t, err)
	all, err := r.Engine.Networks(ctx)
	must(t, err)
	var wg sync.WaitGroup
	names := make([]string, 3)
	errs := make([]error, len(names))
	for i := range names {
		s := ownSpec(r, fmt.Sprint("at-once-", i))
		names[i] = s.Name
		wg.Go(func() { _, errs[i] = r.P.Create(ctx, s) })
	}
	wg.Wait()
	var taken []netip.Prefix
	for _, p := range routes {
		if p.Bits() >= 8 {
			taken = append(taken, p)
		}
	}
	for _, n := range all {
		taken = append(taken, n.Subnets...)
	}
	for i, name := range names {
		must(t, errs[i])
		n := networksOf(t, r, name)
		if len(n) != 1 {
			t.Fatalf("%s has %d networks", name, len(n))
		}
		for _, p := range taken {
			if p.Overlaps(n[0].Subnets[0]) {
				t.Errorf("%s lies over %s", n[0].Subnets[0], p)
			}
		}
		taken = append(taken, n[0].Subnets...)
		must(t, r.P.Remove(ctx, name))
	}
	noNetworks(t, r)
}

// networksOnly is an engine that makes networks, never a container, and keeps
// what it has made.
type networksOnly struct{ docker.Engine }

func (networksOnly) Create(context.Context, container.Plan) (string, []string, error) {
	return "", nil, sandbox.Errorf(sandbox.CodeExecution, "create", "no container today")
}

func (networksOnly) RemoveNetwork(context.Context, string) error { return nil }

// TestFortyNetworks creates more networks than an engine has default ranges
// for; after that the engine still has one for another client.
func TestFortyNetworks(t *testing.T) {
	r, ctx := dockertest.New(t), context.Background()
	p := docker.New(networksOnly{r.Engine}, docker.Options{Sockets: r.State, Instance: r.State.Instance(), World: r.World})
	for i := range 40 {
		s := ownSpec(r, fmt.Sprint("forty-", i))
		if _, err := p.Create(ctx, s); sandbox.CodeOf(err) != sandbox.CodeExecution {
			t.Fatalf("number %d: %v", i, err)
		}
		if n := networksOf(t, r, s.Name); len(n) != 1 || !n[0].AsPlanned {
			t.Fatalf("number %d: %+v", i, n)
		}
	}
	foreignNetwork(t, r, "sbx-t-by-itself-"+r.State.Instance())
	infos, err := r.P.List(ctx, sandbox.Filter{Instance: r.State.Instance()})
	if err != nil || len(infos) != 40 {
		t.Fatalf("%d remnants, %v", len(infos), err)
	}
	for _, i := range infos {
		if i.Status != sandbox.StatusMissing {
			t.Errorf("%s is %s", i.Name, i.Status)
		}
		must(t, r.P.Remove(ctx, i.Name))
	}
	noNetworks(t, r)
}
