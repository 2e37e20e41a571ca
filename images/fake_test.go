package images

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// fakeEngine is an engine in memory. The hooks replace what an operation
// does; the counters tell how often it was asked.
type fakeEngine struct {
	mu      sync.Mutex
	images  map[string]image.InspectResponse // by full or short reference and by ID
	calls   map[string]int
	builds  []build.ImageBuildOptions
	recipes []string
	pulled  []string
	removed []string
	changes []string // of the image imported last
	listed  []image.Summary
	serial  int

	onInspect func(ctx context.Context, ref string) error
	onPull    func(ctx context.Context, ref string) (io.ReadCloser, error)
	onBuild   func(ctx context.Context, o build.ImageBuildOptions) (string, error) // the stream
}

func newFake() *fakeEngine {
	return &fakeEngine{images: map[string]image.InspectResponse{}, calls: map[string]int{}}
}

func (f *fakeEngine) count(op string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
}

func (f *fakeEngine) asked(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *fakeEngine) put(ref string, labels map[string]string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serial++
	id := fmt.Sprintf("sha256:%064x", f.serial)
	r := image.InspectResponse{ID: id, RepoTags: []string{ref}, Config: &dockerspec.DockerOCIImageConfig{}}
	r.Config.Labels = labels
	f.images[ref], f.images[id] = r, r
	return id
}

func (f *fakeEngine) ImageInspect(ctx context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	f.count("inspect")
	if f.onInspect != nil {
		if err := f.onInspect(ctx, ref); err != nil {
			return image.InspectResponse{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, ok := f.images[ref]; ok {
		return r, nil
	}
	return image.InspectResponse{}, fmt.Errorf("No such image: %s: %w", ref, cerrdefs.ErrNotFound)
}

func (f *fakeEngine) ImageList(context.Context, image.ListOptions) ([]image.Summary, error) {
	f.count("list")
	return f.listed, nil
}

func (f *fakeEngine) ImagePull(ctx context.Context, ref string, _ image.PullOptions) (io.ReadCloser, error) {
	f.count("pull")
	f.mu.Lock()
	f.pulled = append(f.pulled, ref)
	f.mu.Unlock()
	if f.onPull != nil {
		return f.onPull(ctx, ref)
	}
	f.put(strings.TrimPrefix(ref, "docker.io/library/"), nil)
	return io.NopCloser(strings.NewReader(`{"status":"Pulling"}` + "\r\n" + `{"status":"Downloading","id":"ab","progressDetail":{"current":5,"total":10}}` + "\r\n")), nil
}

func (f *fakeEngine) ImageImport(ctx context.Context, src image.ImportSource, ref string, o image.ImportOptions) (io.ReadCloser, error) {
	f.count("import")
	if _, err := io.Copy(io.Discard, src.Source); err != nil {
		return nil, err
	}
	f.changes = o.Changes
	f.put(ref, map[string]string{labelKind: string(OriginBootstrap), labelPackages: recipe{dockerfile: tinyRecipe}.packages()})
	return io.NopCloser(strings.NewReader(`{"status":"sha256:1"}`)), nil
}

func (f *fakeEngine) ImageBuild(ctx context.Context, files io.Reader, o build.ImageBuildOptions) (build.ImageBuildResponse, error) {
	f.count("build")
	t := tar.NewReader(files)
	if _, err := t.Next(); err != nil {
		return build.ImageBuildResponse{}, err
	}
	recipe, err := io.ReadAll(t)
	if err != nil {
		return build.ImageBuildResponse{}, err
	}
	f.mu.Lock()
	f.builds, f.recipes = append(f.builds, o), append(f.recipes, string(recipe))
	f.mu.Unlock()
	stream := stepLine(1, 1) + auxLine
	if f.onBuild != nil {
		if stream, err = f.onBuild(ctx, o); err != nil {
			return build.ImageBuildResponse{}, err
		}
	}
	if strings.Contains(stream, auxLine) {
		f.put(o.Tags[0], o.Labels)
	}
	return build.ImageBuildResponse{Body: io.NopCloser(strings.NewReader(stream))}, nil
}

func (f *fakeEngine) ImageRemove(_ context.Context, id string, _ image.RemoveOptions) ([]image.DeleteResponse, error) {
	f.count("remove")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, id)
	return nil, nil
}

func (f *fakeEngine) ContainerList(context.Context, container.ListOptions) ([]container.Summary, error) {
	f.count("containers")
	return []container.Summary{{ID: "box"}}, nil
}

func (f *fakeEngine) ContainerCreate(context.Context, *container.Config, *container.HostConfig, *network.NetworkingConfig, *ocispec.Platform, string) (container.CreateResponse, error) {
	f.count("create")
	return container.CreateResponse{ID: "reader"}, nil
}

func (f *fakeEngine) CopyFromContainer(context.Context, string, string) (io.ReadCloser, container.PathStat, error) {
	return nil, container.PathStat{}, cerrdefs.ErrNotFound
}

func (f *fakeEngine) ContainerRemove(_ context.Context, id string, _ container.RemoveOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, id)
	return nil
}

const auxLine = `{"aux":{"ID":"sha256:1"}}` + "\n"

func stepLine(n, of int) string {
	b, _ := json.Marshal(map[string]string{"stream": fmt.Sprintf("Step %d/%d : RUN x\n", n, of)})
	return string(b) + "\n"
}

func outLine(text string) string {
	b, _ := json.Marshal(map[string]string{"stream": text})
	return string(b) + "\n"
}

func errLine(text string) string {
	b, _ := json.Marshal(map[string]any{"error": text, "errorDetail": map[string]string{"message": text}})
	return string(b) + "\n"
}

// fakeStore is a Store on f whose host is a bare Debian with mmdebstrap,
// where bootstrapping gives an empty folder.
func fakeStore(t *testing.T, f *fakeEngine, cfg Config) *Store {
	t.Helper()
	s := New(f, cfg)
	s.recipes[0].dockerfile = tinyRecipe
	s.host = fstest.MapFS{
		"etc/os-release": {Data: []byte("ID=debian\nVERSION_CODENAME=bookworm\n")},
		exampleSources:   {Data: []byte("deb http://archive.invalid/debian bookworm main\ndeb http://archive.invalid/debian bookworm-updates main\n")},
	}
	s.getenv = func(string) string { return "" }
	s.look = func(name string) (string, error) { return "/usr/bin/" + name, nil }
	s.rootfs = func(_ context.Context, _ plan, log func(string), w io.Writer) error {
		log("I: making")
		return tar.NewWriter(w).Close()
	}
	return s
}
