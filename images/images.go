// Package images makes sure that an image is there before a sandbox is made
// from it: it looks, pulls, builds, or, where no registry can be reached,
// bootstraps a base from the host's own package sources.
//
// An image's identity is its ID, never its tag: a tag that was moved by a
// rebuild is a different image. A Store does the work; concurrent callers in
// one process share one pull or build, and processes that share a lock
// folder wait for each other instead of doing the same twice.
package images

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
)

// The references that this package makes itself. They are never pulled: a
// registry that happened to offer these names would otherwise be trusted
// with the content of every sandbox.
const (
	// DefaultImage is the image of a sandbox when settings name none. It
	// is built from Dockerfile.sandbox.
	DefaultImage = about.DefaultImage
	// BrowserImage is the image of browsers, built from Dockerfile.browser.
	BrowserImage = about.BrowserImage
	// CodeImage is the image of the code interpreter, built from
	// Dockerfile.code.
	CodeImage = about.CodeImage
	// BaseImage is what all are built on where it can be had.
	BaseImage = about.BaseImage

	setupRepo = "sandbox-setup" // tagged with a digest of base and commands
)

// API is the part of the Docker client that this package uses.
type API interface {
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageList(ctx context.Context, o image.ListOptions) ([]image.Summary, error)
	ImagePull(ctx context.Context, ref string, o image.PullOptions) (io.ReadCloser, error)
	ImageImport(ctx context.Context, src image.ImportSource, ref string, o image.ImportOptions) (io.ReadCloser, error)
	ImageBuild(ctx context.Context, files io.Reader, o build.ImageBuildOptions) (build.ImageBuildResponse, error)
	ImageRemove(ctx context.Context, id string, o image.RemoveOptions) ([]image.DeleteResponse, error)
	ContainerList(ctx context.Context, o container.ListOptions) ([]container.Summary, error)
	ContainerRemove(ctx context.Context, id string, o container.RemoveOptions) error
	ContainerCreate(ctx context.Context, c *container.Config, h *container.HostConfig, n *network.NetworkingConfig, p *ocispec.Platform, name string) (container.CreateResponse, error)
	CopyFromContainer(ctx context.Context, id, path string) (io.ReadCloser, container.PathStat, error)
}

var _ API = (client.APIClient)(nil)

// Config holds what a Store needs besides the engine. The zero value works:
// no lock across processes, default timeouts.
type Config struct {
	// LockDir is a folder for lock files that other processes use too.
	// It is made when missing. Empty means no lock across processes.
	LockDir  string
	Timeouts Timeouts
}

// Timeouts bound how long a Store waits. Zero fields take the default.
type Timeouts struct {
	Call      time.Duration // one short engine call, such as inspect: 10 s
	Operation time.Duration // one pull, build or bootstrap as a whole: 15 min
	Idle      time.Duration // without any progress of one: 5 min
	PullStart time.Duration // until a registry has answered at all: 20 s
}

func (t Timeouts) withDefaults() Timeouts {
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Call, 10 * time.Second},
		{&t.Operation, 15 * time.Minute},
		{&t.Idle, 5 * time.Minute},
		{&t.PullStart, 20 * time.Second},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return t
}

// A Store makes and finds images on one engine. It is safe for concurrent
// use; a process should have one per engine, since only callers of the same
// Store share their work.
type Store struct {
	api     API
	cfg     Config
	flights flights

	// The world, replaced in tests.
	recipes  []recipe // the default image's comes first
	host     fs.FS    // the host's root folder
	getenv   func(string) string
	look     func(string) (string, error)
	now      func() time.Time
	platform about.Platform
	newID    func() string
	rootfs   func(ctx context.Context, p plan, log func(line string), w io.Writer) error
}

// New returns a Store that talks to the engine behind api.
func New(api API, cfg Config) *Store {
	cfg.Timeouts = cfg.Timeouts.withDefaults()
	return &Store{
		api:      api,
		cfg:      cfg,
		recipes:  ourRecipes(),
		host:     os.DirFS("/"),
		getenv:   os.Getenv,
		look:     exec.LookPath,
		now:      time.Now,
		platform: ownPlatform(),
		newID:    randomID,
		rootfs:   makeRootfs,
	}
}

// Ensure returns the image ref and makes it first when the engine has none:
// [DefaultImage], [BrowserImage] and [CodeImage] are built, a bootstrapped base is
// bootstrapped, anything else is pulled. When the image is there the cost is
// one engine call; a stale image of ours is used as it is (List tells, Build
// renews). o.Image has no meaning here.
//
// Errors: CodeValidation for a malformed ref, CodeUnavailable when the image
// cannot be had or the engine does not answer, CodeTimeout.
func (s *Store) Ensure(ctx context.Context, ref string, o Options) (Image, error) {
	img, err := s.Inspect(ctx, ref)
	if err == nil || !sandbox.IsNotFound(err) {
		return img, err
	}
	switch kind, r := s.classify(ref); kind {
	case refRecipe:
		return s.build(ctx, r, o, true)
	case refBootstrap:
		return s.bootstrapTag(ctx, r, ref, o)
	case refOurs:
		return Image{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "ensure image", Resource: ref,
			Message: "image " + printable(ref) + " is not there and names of this program are never pulled",
			Hint:    "use " + DefaultImage + ", or tag an image of your own with another name"}
	default:
		return s.pull(ctx, ref, o, true)
	}
}
