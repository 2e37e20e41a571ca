package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/build"
	types "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// imageOf builds an image from the lines of a recipe on the one of the tests, and
// returns its id. The engine is asked directly.
func imageOf(t *testing.T, lines ...string) (api *client.Client, id string) {
	t.Helper()
	api, err := container.Dial()
	must(t, err)
	t.Cleanup(func() { api.Close() })
	recipe := strings.Join(append([]string{"FROM " + dockertest.Image, "USER 0"}, lines...), "\n")
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	must(t, w.WriteHeader(&tar.Header{Name: "Dockerfile", Size: int64(len(recipe)), Mode: 0o644}))
	_, err = w.Write([]byte(recipe))
	must(t, err)
	must(t, w.Close())
	tag := "sandbox-test-folders:" + strings.ToLower(rand.Text())
	ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
	defer done()
	r, err := api.ImageBuild(ctx, &files, build.ImageBuildOptions{Tags: []string{tag}, Remove: true, ForceRemove: true, NetworkMode: "none"})
	must(t, err)
	defer r.Body.Close()
	out, err := io.ReadAll(r.Body)
	must(t, err)
	got, err := api.ImageInspect(ctx, tag)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		_, err := api.ImageRemove(context.WithoutCancel(t.Context()), got.ID, image.RemoveOptions{Force: true, PruneChildren: true})
		if err != nil {
			t.Error(err)
		}
	})
	return api, got.ID
}

// TestImageFolders holds that what an image has below /run and in its volumes is
// there at each start, belongs to the sandbox, and leaves nothing at the engine.
func TestImageFolders(t *testing.T) {
	t.Parallel()
	r, pipe := dockertest.New(t), "mkfifo /data/pipe"
	if r.Posture.Podman { // whose archives break off there; see TestImageFoldersWhole
		pipe = "true"
	}
	api, id := imageOf(t,
		"RUN mkdir -p /run/postgresql /data/in && chmod 1777 /run/postgresql && ln -s /run/postgresql /run/pg",
		"RUN echo content >/data/in/f && ln /data/in/f /data/hard && ln -s in/f /data/soft && "+pipe+" && chmod 600 /data/in/f && chmod 555 /data/in && chown -R 999:999 /data && chmod 2750 /data",
		`VOLUME ["/data", "/none"]`)
	before := volumes(t, api)
	images := filepath.Join(t.TempDir(), "images")
	p := docker.New(r.Engine, docker.Options{Sockets: r.State, Images: images, World: r.World})
	s := r.Spec("folders")
	s.ImageID = id
	s.Tmpfs[3].Image = sandbox.ImageContent
	for _, target := range []string{"/data", "/none"} {
		s.Tmpfs = append(s.Tmpfs, sandbox.Tmpfs{Target: target, Size: 4 << 20, Exec: true, Mode: 0o755, Owned: true, Image: sandbox.ImageVolume})
	}
	// What code inside left for the next start is not followed.
	dir, err := r.State.SocketDir(s.Name, s.UID, s.GID)
	must(t, err)
	victim := filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(victim, []byte("kept"), 0o600))
	must(t, os.Symlink(victim, filepath.Join(dir, "image.tar")))

	_, err = p.Create(t.Context(), s)
	must(t, err)
	for _, start := range []string{"first", "second"} {
		sb, err := p.Open(t.Context(), s)
		must(t, err)
		if out, code := sh(t, sb, `set -e
			test "$(stat -c %a /run/postgresql)" = 1777; test "$(readlink /run/pg)" = /run/postgresql; touch /run/postgresql/x
			test "$(cat /data/soft)" = content; test "$(stat -c %a /data /data/in /data/in/f | tr '\n' ' ')" = "750 755 600 "
			test /data/hard -ef /data/in/f; test ! -e /data/pipe; test ! -e /data/new; echo >/data/new; echo >/none/new
			test -z "$(find /data /none /run ! -uid $(id -u))"
			grep -E ' /(data|none) ' /proc/mounts | grep -c nosuid,nodev.*size=4096k`); code != 0 || out != "2" {
			t.Errorf("%s start: %d, %s", start, code, out)
		}
		must(t, sb.Close())
		if start == "first" {
			must(t, r.Engine.Kill(t.Context(), s.Name))
			testenv.Until(t, "the container has ended", func() bool {
				info, err := r.Engine.Inspect(t.Context(), s.Name)
				return err == nil && info.Status == sandbox.StatusStopped
			})
		}
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "kept" {
		t.Errorf("a file of the host holds %q, %v", b, err)
	}
	must(t, p.Remove(t.Context(), s.Name))
	for _, v := range volumes(t, api) {
		if !slices.Contains(before, v) {
			t.Errorf("the volume %s was left", v)
		}
	}
	left, err := api.ContainerList(t.Context(), types.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("ancestor", id))})
	if err != nil || len(left) != 0 {
		t.Errorf("left of the image: %d containers, %v", len(left), err)
	}
	if kept, err := os.ReadDir(images); err != nil || len(kept) != 1 {
		t.Errorf("%d archives are kept, %v", len(kept), err)
	}
}

// TestImageFolderTooLarge holds that content which does not fit is an error that
// names the folder and the setting, and that no sandbox is left.
func TestImageFolderTooLarge(t *testing.T) {
	t.Parallel()
	_, id := imageOf(t, "RUN mkdir /run/big && head -c 3000000 /dev/zero >/run/big/file")
	r := dockertest.New(t)
	s := r.Spec("large")
	s.ImageID = id
	s.Tmpfs[3].Image, s.Tmpfs[3].Size = sandbox.ImageContent, 2<<20
	_, err := r.P.Create(t.Context(), s)
	if sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), "docker.tmpfs") || !strings.Contains(err.Error(), "/run") {
		t.Errorf("got %v", err)
	}
	if _, err := r.Engine.Inspect(t.Context(), s.Name); !sandbox.IsNotFound(err) {
		t.Errorf("the sandbox is there: %v", err)
	}
}

// volumes are the names of the engine's volumes.
func volumes(t *testing.T, api *client.Client) []string {
	t.Helper()
	list, err := api.VolumeList(t.Context(), volume.ListOptions{})
	must(t, err)
	var names []string
	for _, v := range list.Volumes {
		names = append(names, v.Name)
	}
	return names
}
