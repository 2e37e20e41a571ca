package manager_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// imageWith builds an image on the one of the tests from lines of a recipe, and
// returns its name. It is removed with the test.
func (r *rig) imageWith(lines ...string) string {
	r.t.Helper()
	base, err := config.Resolve(mustParse(r.t, "{}"), who("s"), nil)
	must(r.t, err)
	recipe := strings.Join(append([]string{"FROM " + base.Docker.Image}, lines...), "\n")
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	must(r.t, w.WriteHeader(&tar.Header{Name: "Dockerfile", Size: int64(len(recipe)), Mode: 0o644}))
	_, err = io.WriteString(w, recipe)
	must(r.t, err)
	must(r.t, w.Close())
	tag := "sandbox-test-manager:" + strings.ToLower(rand.Text())
	ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
	defer done()
	api := r.dial()
	answer, err := api.ImageBuild(ctx, &files, build.ImageBuildOptions{Tags: []string{tag}, Remove: true, ForceRemove: true, NetworkMode: "none"})
	must(r.t, err)
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	must(r.t, err)
	if _, err := api.ImageInspect(ctx, tag); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	r.t.Cleanup(func() {
		if _, err := api.ImageRemove(context.Background(), tag, image.RemoveOptions{Force: true, PruneChildren: true}); err != nil {
			r.t.Error(err)
		}
	})
	return tag
}

func mustParse(t testing.TB, settings string) *config.Settings {
	t.Helper()
	s, err := config.Parse("test", []byte(settings))
	must(t, err)
	return s
}

// TestJavaOptionsOfTheImage holds that what an image sets JAVA_TOOL_OPTIONS to stays
// in front of the options for the proxy, unless the settings
// or the call set others; and that the proxy's own variables replace the image's.
func TestJavaOptionsOfTheImage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tag := r.imageWith("ENV JAVA_TOOL_OPTIONS=-Xmx1g NO_PROXY=.corp.test HTTP_PROXY=http://proxy.corp.test")
	o := &outward{t: t, net: testenv.NewInternet(t), who: who("s")}
	r.change = func(opts *manager.Options) { o.open(opts, r.state) }
	o.Manager = r.manager(`{"agents": {"defaults": {"sandbox": {"docker": {"image": "` + tag + `"}}}}}`)
	const line = `echo "$JAVA_TOOL_OPTIONS"; echo "$NO_PROXY"; echo "$HTTP_PROXY"`
	lines := func(out []byte) []string { return append(strings.Split(string(out), "\n"), "", "") }

	got, err := o.try(o.allowing("web.test"), line)
	must(t, err)
	said := lines(got.Stdout)
	if !strings.HasPrefix(said[0], "-Xmx1g -Dhttp.proxyHost=127.0.0.1 ") || said[1] != "localhost,127.0.0.1,::1" || !strings.Contains(said[2], "@127.0.0.1:") {
		t.Errorf("%s%s", got.Stdout, got.Stderr)
	}
	got, err = o.try(o.allowing("web.test"), line, func(r *manager.Request) { r.Command.Env = map[string]string{"JAVA_TOOL_OPTIONS": "-Da=b"} })
	must(t, err)
	if said := lines(got.Stdout); !strings.HasPrefix(said[0], "-Da=b -Dhttp.proxyHost=") {
		t.Errorf("a call's own: %s%s", got.Stdout, got.Stderr)
	}
	got, err = o.try(nil, line)
	must(t, err)
	if said := lines(got.Stdout); said[0] != "-Xmx1g" || said[1] != ".corp.test" {
		t.Errorf("without a proxy: %s%s", got.Stdout, got.Stderr)
	}
}
