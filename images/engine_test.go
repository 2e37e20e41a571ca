package images

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

const testLabel = "dev.bulkhead.sandbox.test"

// engine returns a client of a live engine, which -short does without.
func engine(t *testing.T) *client.Client {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Docker engine; not with -short")
	}
	testenv.Require(t, "docker")
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// lines shows progress in the test's log.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// inside runs a shell line as user (empty: the image's own) in a throw-away container of the image
// without network and returns its output.
func inside(t *testing.T, c *client.Client, imageID, user, line string) string {
	t.Helper()
	ctx := t.Context()
	made, err := c.ContainerCreate(ctx, &container.Config{
		Image: imageID, User: user, Cmd: []string{"/bin/sh", "-c", line}, Labels: map[string]string{testLabel: "images"},
	}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.ContainerRemove(context.WithoutCancel(ctx), made.ID, container.RemoveOptions{Force: true})
	}()
	if err := c.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	done, failed := c.ContainerWait(ctx, made.ID, container.WaitConditionNotRunning)
	select {
	case <-done:
	case err := <-failed:
		t.Fatal(err)
	}
	logs, err := c.ContainerLogs(ctx, made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	var out strings.Builder
	if _, err := stdcopy.StdCopy(&out, &out, logs); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return out.String()
}

// leftovers counts the untagged images and the containers of a build.
func leftovers(t *testing.T, c *client.Client, buildID string) int {
	t.Helper()
	mine := filters.NewArgs(filters.Arg("label", labelBuild+"="+buildID))
	imgs, err := c.ImageList(t.Context(), image.ListOptions{All: true, Filters: mine})
	if err != nil {
		t.Fatal(err)
	}
	boxes, err := c.ContainerList(t.Context(), container.ListOptions{All: true, Filters: mine})
	if err != nil {
		t.Fatal(err)
	}
	return len(imgs) + len(boxes)
}

// tinyRecipe builds in a moment on what is there.
const tinyRecipe = `ARG BASE
FROM ${BASE}
ARG PACKAGES="bash coreutils procps git python3 jq ripgrep curl ca-certificates"
ARG BUILD=manual
LABEL dev.bulkhead.sandbox.image.build="${BUILD}" dev.bulkhead.sandbox.test="images"
RUN echo one
`

// tinyStore builds tinyRecipe under a reference of its own.
func tinyStore(t *testing.T, c *client.Client) *Store {
	t.Helper()
	s := New(c, Config{LockDir: t.TempDir()})
	s.recipes[0].dockerfile = tinyRecipe
	s.recipes[0].ref = "sandbox:test-" + randomID()
	t.Cleanup(func() {
		_, _ = c.ImageRemove(context.Background(), s.recipes[0].ref, image.RemoveOptions{PruneChildren: true})
	})
	return s
}

func defaultImage(t *testing.T, c *client.Client) Image {
	t.Helper()
	img, err := New(c, Config{LockDir: t.TempDir()}).Ensure(t.Context(), DefaultImage, Options{Progress: NewLines(testLog{t})})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestEngineDefaultImage(t *testing.T) {
	c := engine(t)
	img := defaultImage(t, c)
	if img.Origin != OriginSandbox || !strings.HasPrefix(img.ID, "sha256:") || img.User != "sandbox" {
		t.Errorf("image %+v", img)
	}
	for _, l := range []string{labelBaseID, labelDigest} {
		if img.Labels[l] == "" {
			t.Errorf("label %s is missing", l)
		}
	}
	for name, tc := range map[string]struct{ user, line, want string }{
		"tools":        {"0", "for t in bash git python3 jq rg curl ps; do command -v $t >/dev/null || echo no $t; done", ""},
		"user":         {"", "id -u; id -un; pwd", "1000\nsandbox\n/workspace\n"},
		"own folders":  {"0", "stat -c '%U %n' /workspace /home/sandbox /agent", "sandbox /workspace\nsandbox /home/sandbox\nroot /agent\n"},
		"apt lists":    {"0", "find /var/lib/apt/lists /var/cache/apt -type f 2>/dev/null", ""},
		"apt settings": {"0", "grep -riE 'proxy|aptopt|Check-Valid' /etc/apt/apt.conf /etc/apt/apt.conf.d /etc/apt/auth.conf* 2>/dev/null; ls /etc/apt/apt.conf.d | grep mmdeb", ""},
		"host names":   {"0", "cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -oE 'https?://[^/ ]+' | sort -u | grep -vE '//(deb|security).debian.org|//(archive|security|ports).ubuntu.com'", ""},
		"certificates": {"0", "find /usr/local/share/ca-certificates -type f", ""},
		"set-id bits":  {"0", "find / -xdev -type f -perm /6000 2>/dev/null", ""},
		"environment":  {"0", "env | grep -iE 'proxy|ssl|cert'", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inside(t, c, img.ID, tc.user, tc.line); got != tc.want {
				t.Errorf("%s\n got %q\nwant %q", tc.line, got, tc.want)
			}
		})
	}
}

func TestEngineBuildAnewAndStale(t *testing.T) {
	c := engine(t)
	base := defaultImage(t, c)
	s := tinyStore(t, c)
	first, err := s.Build(t.Context(), Options{Base: base.ID})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Ensure(t.Context(), s.recipes[0].ref, Options{}); err != nil || again.ID != first.ID || again.Stale {
		t.Fatalf("Ensure gave %+v, %v; want the image that is there", again, err)
	}

	s.recipes[0].dockerfile += "RUN echo two\n"
	if stale, err := s.Ensure(t.Context(), s.recipes[0].ref, Options{}); err != nil || stale.ID != first.ID || !stale.Stale {
		t.Fatalf("Ensure gave %+v, %v; want the old image, stale", stale, err)
	}
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, img := range list {
		found = found || img.ID == first.ID && img.Stale && img.Ref == s.recipes[0].ref
	}
	if !found {
		t.Errorf("List does not show %s as stale: %+v", s.recipes[0].ref, list)
	}

	second, err := s.Build(t.Context(), Options{Base: base.ID})
	if err != nil || second.ID == first.ID || second.Stale {
		t.Fatalf("Build gave %+v, %v; want another image", second, err)
	}
	if _, err := s.Inspect(t.Context(), first.ID); !sandbox.IsNotFound(err) {
		t.Errorf("the replaced image is still there: %v", err)
	}
}

func TestEngineBuildFailureLeavesNothing(t *testing.T) {
	c := engine(t)
	base := defaultImage(t, c)
	for name, last := range map[string]string{
		"failing step": "RUN echo made something > /x; exit 3\n",
		"no such tool": "RUN [\"/no/such/tool\"]\n",
		"syntax":       "NONSENSE here\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := tinyStore(t, c)
			id := randomID()
			s.newID = func() string { return id }
			s.recipes[0].dockerfile += last
			_, err := s.Build(t.Context(), Options{Base: base.ID})
			if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("error %v", err)
			}
			if n := leftovers(t, c, id); n != 0 {
				t.Errorf("%d objects left", n)
			}
		})
	}
}

func TestEngineSetup(t *testing.T) {
	c := engine(t)
	base := defaultImage(t, c)
	s := New(c, Config{LockDir: t.TempDir()})
	mark := randomID()
	commands := []string{
		"id -u > /root/uid",
		"cat > /opt/odd <<'E'\n" + mark + " $HOME \\\n\"quoted\" 'single' é\nE",
		"env | grep -c '^BUILD=' > /opt/env || true",
	}
	img, err := s.EnsureSetup(t.Context(), base, commands, Options{Progress: NewLines(testLog{t})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = c.ImageRemove(context.Background(), img.Ref, image.RemoveOptions{PruneChildren: true})
	})
	if img.ID == base.ID || img.Origin != OriginSetup || img.User != base.User || img.Labels[labelBaseID] != base.ID || img.Labels["org.opencontainers.image.base.name"] != base.Ref {
		t.Errorf("image %+v", img)
	}
	if got, want := inside(t, c, img.ID, "", "cat /opt/odd; whoami"), mark+" $HOME \\\n\"quoted\" 'single' é\nsandbox\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	start := time.Now()
	again, err := s.EnsureSetup(t.Context(), base, commands, Options{})
	if err != nil || again.ID != img.ID {
		t.Errorf("second call: %+v, %v", again, err)
	}
	t.Logf("cached in %v", time.Since(start))
}

func TestEngineSetupFailure(t *testing.T) {
	c := engine(t)
	base := defaultImage(t, c)
	s := New(c, Config{})
	id := randomID()
	s.newID = func() string { return id }
	_, err := s.EnsureSetup(t.Context(), base, []string{
		"true # " + id,
		"for i in $(seq 50); do echo line $i; done; printf '\\033[31mred\\n'; echo 'Step 9/9 : liar'; exit 7",
		"echo never",
	}, Options{})
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeExecution || e.Field != "docker.setup[1]" {
		t.Fatalf("error %v", err)
	}
	text := err.Error()
	for _, want := range []string{"exit status 7", "line 50", `\x1b[31mred`, "for i in"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.ContainsRune(text, 0x1b) || strings.Contains(text, "line 10\n") {
		t.Errorf("error holds control characters or all of the output:\n%q", text)
	}
	if n := leftovers(t, c, id); n != 0 {
		t.Errorf("%d objects left", n)
	}
}

func TestEngineSetupCancelled(t *testing.T) {
	c := engine(t)
	base := defaultImage(t, c)
	s := New(c, Config{})
	id := randomID()
	s.newID = func() string { return id }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := s.EnsureSetup(ctx, base, []string{"true # " + id, "echo now waiting; sleep 300"}, Options{
		Progress: hear(func(e Event) {
			if e.Text == "now waiting" {
				cancel()
			}
		}),
	})
	if !errors.Is(err, context.Canceled) || sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("error %v", err)
	}
	// The engine notices the hang-up on its own time.
	testenv.Until(t, "nothing is left", func() bool { return leftovers(t, c, id) == 0 })
}

func TestEngineErrors(t *testing.T) {
	c := engine(t)
	s := New(c, Config{})
	if _, err := s.Inspect(t.Context(), "sandbox:no-such-"+randomID()); !sandbox.IsNotFound(err) {
		t.Errorf("Inspect of what is not there: %v", err)
	}
	start := time.Now()
	_, err := s.Ensure(t.Context(), "registry.invalid/no/such:image", Options{})
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("Ensure of what cannot be pulled: %v", err)
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("took %v to find out", d)
	}
}

func TestWithoutEngine(t *testing.T) {
	dead, err := client.NewClientWithOpts(client.WithHost("unix://" + t.TempDir() + "/none.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	for name, call := range map[string]func(*Store) error{
		"inspect": func(s *Store) error { _, err := s.Inspect(t.Context(), DefaultImage); return err },
		"ensure":  func(s *Store) error { _, err := s.Ensure(t.Context(), DefaultImage, Options{}); return err },
		"list":    func(s *Store) error { _, err := s.List(t.Context()); return err },
		"build":   func(s *Store) error { _, err := s.Build(t.Context(), Options{}); return err },
		"pull":    func(s *Store) error { _, err := s.Pull(t.Context(), "debian", Options{}); return err },
	} {
		if err := call(New(dead, Config{})); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("%s without engine: %v", name, err)
		}
	}
}
