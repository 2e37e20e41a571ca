package docker_test

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// losing is an engine that makes networks and loses the answer.
type losing struct{ docker.Engine }

func (l losing) CreateNetwork(ctx context.Context, p container.NetworkPlan) (string, error) {
	if _, err := l.Engine.CreateNetwork(ctx, p); err != nil {
		return "", err
	}
	return "", sandbox.Errorf(sandbox.CodeTimeout, "create network", "no answer")
}

// TestOwnNetworkFailedCreate makes each step of create fail.
func TestOwnNetworkFailedCreate(t *testing.T) {
	t.Parallel()
	noRange := func() ([]netip.Prefix, error) {
		return []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12")}, nil
	}
	tests := map[string]struct {
		spoil  func(*sandbox.Spec)
		wrap   func(docker.Engine) docker.Engine
		change func(*docker.Options)
		code   sandbox.Code
	}{
		"image is not there":  {spoil: func(s *sandbox.Spec) { s.ImageID = "sandbox-no-such-image:none" }, code: sandbox.CodeNotFound},
		"start command fails": {spoil: func(s *sandbox.Spec) { s.OnStart = []string{"exit 7"} }, code: sandbox.CodeExecution},
		"engine fails at start": {wrap: func(e docker.Engine) docker.Engine {
			return failing{Engine: e, start: errors.New("no start today")}
		}, code: sandbox.CodeInternal},
		"answer to create is lost": {wrap: func(e docker.Engine) docker.Engine {
			return failing{Engine: e, create: sandbox.Errorf(sandbox.CodeTimeout, "create", "no answer")}
		}, code: sandbox.CodeTimeout},
		"answer to the network is lost": {wrap: func(e docker.Engine) docker.Engine { return losing{e} }, code: sandbox.CodeTimeout},
		"no range is left":              {change: func(o *docker.Options) { o.Routes = noRange }, code: sandbox.CodeUnavailable},
		"routes cannot be read": {change: func(o *docker.Options) {
			o.Routes = func() ([]netip.Prefix, error) { return nil, sandbox.Errorf(sandbox.CodeUnavailable, "r", "no") }
		}, code: sandbox.CodeUnavailable},
		"provider of no instance":      {change: func(o *docker.Options) { o.Instance = "" }, code: sandbox.CodeInternal},
		"provider of another instance": {change: func(o *docker.Options) { o.Instance = "ffffffffffffffff" }, code: sandbox.CodeInternal},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := dockertest.New(t)
			s := ownSpec(r, "nothing")
			if tt.spoil != nil {
				tt.spoil(&s)
			}
			o := docker.Options{Sockets: r.State, Instance: r.State.Instance(), World: r.World}
			if tt.change != nil {
				tt.change(&o)
			}
			var e docker.Engine = r.Engine
			if tt.wrap != nil {
				e = tt.wrap(e)
			}
			if _, err := docker.New(e, o).Create(context.Background(), s); sandbox.CodeOf(err) != tt.code {
				t.Errorf("got %v, want code %s", err, tt.code)
			}
			infos, err := r.P.List(context.Background(), sandbox.Filter{Instance: r.State.Instance()})
			if err != nil || len(infos) != 0 {
				t.Errorf("left behind: %+v, %v", infos, err)
			}
			noNetworks(t, r)
		})
	}
}

// slowToShow is an engine that is busy making the container: it has taken the
// name, and shows no container of it until on is closed.
type slowToShow struct {
	docker.Engine
	took chan<- struct{}
	on   <-chan struct{}
}

func (s slowToShow) Create(ctx context.Context, p container.Plan) (string, []string, error) {
	close(s.took)
	<-s.on
	return s.Engine.Create(ctx, p)
}

// TestOwnNetworkOfTheWinner lets a create lose the name to one that the engine
// takes long for: the loser leaves the network to it.
func TestOwnNetworkOfTheWinner(t *testing.T) {
	t.Parallel()
	r, ctx := dockertest.New(t), context.Background()
	s := ownSpec(r, "winner")
	took, on := make(chan struct{}), make(chan struct{})
	opts := docker.Options{Sockets: r.State, Instance: r.State.Instance(), World: r.World}
	first := make(chan error, 1)
	go func() {
		_, err := docker.New(slowToShow{Engine: r.Engine, took: took, on: on}, opts).Create(ctx, s)
		first <- err
	}()
	<-took
	taken := sandbox.Errorf(sandbox.CodeBusy, "create", "the name is taken")
	if _, err := docker.New(refusing{r.Engine, taken}, opts).Create(ctx, s); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("the second says %v", err)
	}
	close(on)
	must(t, <-first)
	if out, code := sh(t, r.Reopen(s), "echo ran"); out != "ran" || code != 0 {
		t.Errorf("%q, %d", out, code)
	}
	must(t, r.P.Remove(ctx, s.Name))
	noNetworks(t, r)
}

// givenUp is an engine that removes the network of a sandbox after a container
// was created on it, the given number of times.
type givenUp struct {
	docker.Engine
	name  string
	times *int
}

func (g givenUp) Create(ctx context.Context, p container.Plan) (string, []string, error) {
	id, warnings, err := g.Engine.Create(ctx, p)
	if *g.times--; err != nil || *g.times < 0 {
		return id, warnings, err
	}
	all, err := g.Networks(ctx)
	for _, n := range all {
		if n.Name == g.name {
			err = errors.Join(err, g.RemoveNetwork(ctx, n.ID))
		}
	}
	return id, warnings, err
}

// TestOwnNetworkGivenUp takes the network away between container and start, as
// a process does that has made it and meets another one of that name.
func TestOwnNetworkGivenUp(t *testing.T) {
	t.Parallel()
	for times, want := range map[int]sandbox.Code{1: "", 2: "", 3: sandbox.CodeUnavailable} {
		r, ctx := dockertest.New(t), context.Background()
		s := ownSpec(r, "given-up")
		left := times
		p := docker.New(givenUp{r.Engine, s.Name, &left}, docker.Options{Sockets: r.State, Instance: r.State.Instance(), World: r.World})
		_, err := p.Create(ctx, s)
		if sandbox.CodeOf(err) != want || left > 0 {
			t.Errorf("given up %d times: %v; want %q", times, err, want)
		}
		if want == "" {
			if out, code := sh(t, r.Reopen(s), "echo ran"); out != "ran" || code != 0 {
				t.Errorf("%q, %d", out, code)
			}
			must(t, r.P.Remove(ctx, s.Name))
		}
		noNetworks(t, r)
	}
}

// twin is an engine that has a second network of the name once the container is
// made, for so many looks, and starts no container until it has gone.
type twin struct {
	docker.Engine
	name  string
	made  *bool
	looks *int
}

func (e twin) Create(ctx context.Context, p container.Plan) (string, []string, error) {
	*e.made = true
	return e.Engine.Create(ctx, p)
}

func (e twin) Networks(ctx context.Context) ([]container.Network, error) {
	all, err := e.Engine.Networks(ctx)
	if !*e.made || *e.looks == 0 {
		return all, err
	}
	*e.looks--
	for _, n := range all {
		if n.Name == e.name {
			n.ID = strings.Repeat("0", 64)
			return append(all, n), err
		}
	}
	return all, err
}

func (e twin) Start(ctx context.Context, id string) error {
	if *e.looks > 0 {
		return &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "start container", Resource: e.name,
			Err: errors.New("network " + e.name + " is ambiguous (2 matches found on name)"),
		}
	}
	return e.Engine.Start(ctx, id)
}

// TestOwnNetworkTwin starts a container while another process, which has not got
// the name, still has a network of it. It gives that up in a moment, and the
// container starts then. A second network that stays is an error.
func TestOwnNetworkTwin(t *testing.T) {
	t.Parallel()
	for looks, want := range map[int]sandbox.Code{3: "", 1 << 30: sandbox.CodeBusy} {
		r, ctx := dockertest.New(t), context.Background()
		s := ownSpec(r, "twin")
		made, left := false, looks
		p := docker.New(twin{r.Engine, s.Name, &made, &left}, docker.Options{Sockets: r.State, Instance: r.State.Instance(), World: r.World})
		_, err := p.Create(ctx, s)
		if sandbox.CodeOf(err) != want || left == looks {
			t.Errorf("seen %d times: %v; want %q", looks-left, err, want)
		}
		if want == "" {
			if out, code := sh(t, r.Reopen(s), "echo ran"); out != "ran" || code != 0 {
				t.Errorf("%q, %d", out, code)
			}
			must(t, r.P.Remove(ctx, s.Name))
		}
		noNetworks(t, r)
	}
}

// refusing is an engine that makes no container.
type refusing struct {
	docker.Engine
	err error
}

func (r refusing) Create(context.Context, container.Plan) (string, []string, error) {
	return "", nil, r.err
}

// TestOwnNetworkCancelledCreate ends the caller's context at different moments.
func TestOwnNetworkCancelledCreate(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	for _, after := range []time.Duration{0, 3, 10, 30, 60, 90, 150, 250, 400} {
		s := ownSpec(r, "cancel")
		ctx, cancel := context.WithTimeout(context.Background(), after*time.Millisecond)
		_, err := r.P.Create(ctx, s)
		cancel()
		if err == nil {
			must(t, r.P.Remove(context.Background(), s.Name))
		}
		infos, listErr := r.P.List(context.Background(), sandbox.Filter{Instance: r.State.Instance()})
		must(t, listErr)
		if len(infos) != 0 {
			t.Fatalf("cancelled after %d ms: %v, but left %+v", after, err, infos)
		}
		noNetworks(t, r)
	}
}

// TestForeignNetwork holds that a network which is not ours is neither used
// nor removed, whatever it is called.
func TestForeignNetwork(t *testing.T) {
	t.Parallel()
	r, ctx := dockertest.New(t), context.Background()
	s := ownSpec(r, "foreign")
	ours := []string{"--opt", "com.docker.network.bridge.enable_icc=false", "--subnet", "10.213.255.0/29"}
	for label, value := range map[string]string{"format": "1", "instance": "ffffffffffffffff", "tenant": "t", "kind": "sandbox", "scope": "session", "scope-key": "foreign", "config-hash": "h", "created-at": "2026-11-21T00:00:00Z"} {
		ours = append(ours, "--label", "dev.bulkhead.sandbox."+label+"="+value)
	}
	for what, args := range map[string][]string{"without labels": nil, "of another instance": ours} {
		t.Run(what, func(t *testing.T) {
			id := foreignNetwork(t, r, s.Name, args...)
			var e *sandbox.Error
			if _, err := r.P.Create(ctx, s); !errors.As(err, &e) || e.Code != sandbox.CodeBusy || !strings.Contains(e.Hint, id) {
				t.Errorf("create says %v", err)
			}
			must(t, r.P.Remove(ctx, s.Name))
			if n := networksOf(t, r, s.Name); len(n) != 1 || n[0].ID != id {
				t.Errorf("it was touched: %+v", n)
			}
			if _, err := r.P.Inspect(ctx, s.Name); !sandbox.IsNotFound(err) {
				t.Errorf("something was made: %v", err)
			}
		})
	}
}

// TestSomebodyElsesNetwork holds that no sandbox joins the network that was
// made for another one.
func TestSomebodyElsesNetwork(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := ownSpec(r, "mine")
	r.Create(s)
	other := r.Spec("other")
	other.Network = s.Name
	if _, err := r.P.Create(context.Background(), other); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("create says %v", err)
	}
}

// TestNetworkInUse checks that a network with a foreign container on it is not
// used, and that the error says so.
func TestNetworkInUse(t *testing.T) {
	t.Parallel()
	r, ctx := dockertest.New(t), context.Background()
	s := ownSpec(r, "in-use")
	killAt(t, r, s, "after network")
	guest := dockerCmd(t, "run", "-d", "--rm", "--label", "dev.bulkhead.test="+r.State.Instance(), "--network", networksOf(t, r, s.Name)[0].ID, dockertest.Image, "sleep", "300")
	remove := func() { exec.Command("docker", "rm", "-f", guest).Run() }
	t.Cleanup(remove)
	if _, err := r.P.Create(ctx, s); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("create says %v", err)
	}
	if err := r.P.Remove(ctx, s.Name); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("remove says %v", err)
	}
	remove()
	must(t, r.P.Remove(ctx, s.Name))
	noNetworks(t, r)
}

// TestNetworkRemovedBehindOurBack takes the network of a stopped sandbox away,
// and puts another one of the same name in its place.
func TestNetworkRemovedBehindOurBack(t *testing.T) {
	t.Parallel()
	for what, before := range map[string]func(*testing.T, *dockertest.Rig, sandbox.Spec){
		"started before": func(t *testing.T, r *dockertest.Rig, s sandbox.Spec) {
			r.Create(s)
			dockerCmd(t, "stop", "-t", "5", s.Name)
		},
		"never started": func(t *testing.T, r *dockertest.Rig, s sandbox.Spec) { killAt(t, r, s, "after container") },
	} {
		t.Run(what, func(t *testing.T) {
			r, ctx := dockertest.New(t), context.Background()
			s := ownSpec(r, "removed")
			before(t, r, s)
			dockerCmd(t, "network", "rm", s.Name)
			open := func(when string) {
				var e *sandbox.Error
				if _, err := r.P.Open(ctx, s); !errors.As(err, &e) || e.Code != sandbox.CodeUnavailable || e.Field != "docker.network" || !strings.Contains(e.Hint, "recreate") {
					t.Errorf("%s: open says %v", when, err)
				}
			}
			open("it is gone")
			id := foreignNetwork(t, r, s.Name)
			open("another one has its name")
			must(t, r.P.Remove(ctx, s.Name))
			if n := networksOf(t, r, s.Name); len(n) != 1 || n[0].ID != id {
				t.Errorf("the other one was touched: %+v", n)
			}
		})
	}
}

// TestNamedNetworkMissing holds that a network which is not there is not taken
// for a sandbox which is not there.
func TestNamedNetworkMissing(t *testing.T) {
	t.Parallel()
	r := dockertest.New(t)
	s := r.Spec("named")
	s.Network = "no-such-network"
	var e *sandbox.Error
	if _, err := r.P.Create(context.Background(), s); !errors.As(err, &e) || e.Code != sandbox.CodeUnavailable || e.Field != "docker.network" {
		t.Errorf("create says %v", err)
	}
	if _, err := r.P.Inspect(context.Background(), s.Name); !sandbox.IsNotFound(err) {
		t.Errorf("left behind: %v", err)
	}
}
