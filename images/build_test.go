package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	sandbox "github.com/bulkhead-dev/sandbox"
)

func TestBuildChoosesItsBase(t *testing.T) {
	unreachable := func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("no such host") }
	own := ourRecipes()[0].bootstrapRef("bookworm")
	for name, tc := range map[string]struct {
		there   []string
		pull    func(context.Context, string) (io.ReadCloser, error)
		stale   bool // the bootstrapped base has other packages
		base    string
		network string
		pulls   int
		imports int
	}{
		"official is there":              {there: []string{BaseImage, own}, base: BaseImage, network: "host"},
		"bootstrapped is there":          {there: []string{own}, base: own, network: "none"},
		"pulled":                         {base: BaseImage, network: "host", pulls: 1},
		"no registry":                    {pull: unreachable, base: own, network: "none", pulls: 1, imports: 1},
		"bootstrapped is of other kinds": {there: []string{own}, stale: true, pull: unreachable, base: own, network: "none", pulls: 1, imports: 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.onPull = tc.pull
			for _, ref := range tc.there {
				labels := map[string]string(nil)
				if ref == own {
					labels = map[string]string{labelKind: string(OriginBootstrap), labelPackages: recipe{dockerfile: tinyRecipe}.packages()}
					if tc.stale {
						labels[labelPackages] = "other"
					}
				}
				f.put(ref, labels)
			}
			s := fakeStore(t, f, Config{LockDir: t.TempDir()})
			s.getenv = func(k string) string { return map[string]string{"http_proxy": "http://u:p@proxy:1"}[k] }
			img, err := s.Ensure(t.Context(), DefaultImage, Options{})
			if err != nil {
				t.Fatal(err)
			}
			o := f.builds[0]
			if want := f.images[tc.base].ID; *o.BuildArgs["BASE"] != want || img.Labels[labelBaseID] != want || img.Labels[ocispec.AnnotationBaseImageName] != tc.base {
				t.Errorf("built on %s, labels %v; want %s", *o.BuildArgs["BASE"], img.Labels, tc.base)
			}
			if o.NetworkMode != tc.network || o.Version != build.BuilderV1 || !o.ForceRemove {
				t.Errorf("options %+v", o)
			}
			if *o.BuildArgs["http_proxy"] != "http://u:p@proxy:1" || strings.Contains(fmt.Sprint(o.Labels), "proxy") {
				t.Errorf("proxy: args %v labels %v", o.BuildArgs, o.Labels)
			}
			if f.asked("pull") != tc.pulls || f.asked("import") != tc.imports {
				t.Errorf("calls %v", f.calls)
			}
		})
	}
}

func TestBuildFallsBackToHostSources(t *testing.T) {
	f := newFake()
	f.put(BaseImage, nil)
	f.onBuild = func(_ context.Context, o build.ImageBuildOptions) (string, error) {
		if o.NetworkMode == "host" {
			return stepLine(1, 2) + stepLine(2, 2) + outLine("E: no mirror\n") + errLine("returned a non-zero code: 100"), nil
		}
		return stepLine(1, 1) + auxLine, nil
	}
	var said []string
	s := fakeStore(t, f, Config{})
	img, err := s.Build(t.Context(), Options{Progress: hear(func(e Event) { said = append(said, e.Text) })})
	if err != nil || img.Labels[ocispec.AnnotationBaseImageName] != ourRecipes()[0].bootstrapRef("bookworm") {
		t.Fatalf("got %+v, %v", img, err)
	}
	if !strings.Contains(strings.Join(said, "\n"), "using the host's package sources instead") {
		t.Errorf("the change of base was not said: %q", said)
	}
	// A base that was asked for is not exchanged.
	if _, err := s.Build(t.Context(), Options{Base: BaseImage}); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "E: no mirror") {
		t.Errorf("got %v", err)
	}
}

func TestBuildWithoutAnyBase(t *testing.T) {
	f := newFake()
	f.onPull = func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("no such \x1b host") }
	s := fakeStore(t, f, Config{})
	s.look = func(string) (string, error) { return "", errors.New("none") }
	_, err := s.Ensure(t.Context(), DefaultImage, Options{})
	text := fmt.Sprint(err)
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(text, "no such") || !strings.Contains(text, "mmdebstrap") || strings.ContainsRune(text, 0x1b) {
		t.Errorf("got %q", text)
	}
}

func TestOtherProcessHasIt(t *testing.T) {
	f := newFake()
	dir := t.TempDir()
	building, release := make(chan struct{}), make(chan struct{})
	f.put(ourRecipes()[0].bootstrapRef("bookworm"), map[string]string{labelKind: string(OriginBootstrap), labelPackages: recipe{dockerfile: tinyRecipe}.packages()})
	f.onBuild = func(context.Context, build.ImageBuildOptions) (string, error) {
		close(building)
		<-release
		return stepLine(1, 1) + auxLine, nil
	}
	// Two Stores share nothing but the lock folder, as two processes do.
	one, two := fakeStore(t, f, Config{LockDir: dir}), fakeStore(t, f, Config{LockDir: dir})
	errs := make(chan error, 2)
	go func() { _, err := one.Ensure(t.Context(), DefaultImage, Options{}); errs <- err }()
	<-building
	waiting := make(chan struct{})
	go func() {
		_, err := two.Ensure(t.Context(), DefaultImage, Options{Progress: hear(func(e Event) {
			if e.Phase == PhaseWait {
				close(waiting)
			}
		})})
		errs <- err
	}()
	<-waiting
	close(release)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := f.asked("build"); n != 1 {
		t.Errorf("%d builds", n)
	}
}

func TestLockFolderCannotBeMade(t *testing.T) {
	f := newFake()
	_, err := fakeStore(t, f, Config{LockDir: "/dev/null/x"}).Ensure(t.Context(), "own/image", Options{})
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || f.asked("pull") != 0 {
		t.Errorf("got %v after %v", err, f.calls)
	}
}

func TestBootstrapFailures(t *testing.T) {
	whole := func(w io.Writer) { tw := tar.NewWriter(w); tw.Close() }
	for name, tc := range map[string]struct {
		rootfs func(ctx context.Context, log func(string), w io.Writer) error
		fail   error // of the import
		text   string
	}{
		"tool fails at once": {rootfs: func(_ context.Context, log func(string), _ io.Writer) error {
			log("E: no \x1b mirror")
			return errors.New("exit status 1")
		}, text: `E: no \x1b mirror`},
		"tool fails half-way": {rootfs: func(_ context.Context, _ func(string), w io.Writer) error {
			_, _ = w.Write(make([]byte, 100))
			return errors.New("exit status 2")
		}, text: "exit status 2"},
		"tool fails at the end": {rootfs: func(_ context.Context, _ func(string), w io.Writer) error {
			whole(w)
			return errors.New("exit status 3")
		}, text: "exit status 3"},
		"tool writes garbage": {rootfs: func(_ context.Context, _ func(string), w io.Writer) error {
			_, err := w.Write([]byte(strings.Repeat("garbage!", 4096)))
			return err
		}, text: "tar"},
		"engine refuses at once": {rootfs: func(ctx context.Context, _ func(string), _ io.Writer) error { <-ctx.Done(); return ctx.Err() }, fail: errors.New("no space"), text: "no space"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			s := fakeStore(t, f, Config{})
			if tc.fail != nil {
				s.api = importFails{f, tc.fail}
			}
			s.rootfs = func(ctx context.Context, _ plan, log func(string), w io.Writer) error { return tc.rootfs(ctx, log, w) }
			_, err := s.Bootstrap(t.Context(), Options{})
			if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(fmt.Sprint(err), tc.text) {
				t.Errorf("got %v; want %q", err, tc.text)
			}
			if len(f.images) != 0 {
				t.Errorf("an image came out: %v", f.images)
			}
		})
	}
}

type importFails struct {
	*fakeEngine
	err error
}

func (i importFails) ImageImport(context.Context, image.ImportSource, string, image.ImportOptions) (io.ReadCloser, error) {
	return nil, i.err
}

func TestSweepSparesAFinishedBuild(t *testing.T) {
	for name, tc := range map[string]struct {
		listed []image.Summary
		want   []string
	}{
		"nothing but a container": {nil, []string{"box"}},
		"untagged layers":         {[]image.Summary{{ID: "a"}, {ID: "b", RepoTags: []string{noTag}}}, []string{"box", "a", "b"}},
		"a tagged image":          {[]image.Summary{{ID: "a"}, {ID: "b", RepoTags: []string{DefaultImage}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.put(BaseImage, nil)
			f.listed = tc.listed
			f.onBuild = func(context.Context, build.ImageBuildOptions) (string, error) { return stepLine(1, 1), nil } // the answer breaks off
			if _, err := fakeStore(t, f, Config{}).Build(t.Context(), Options{Base: BaseImage}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("got %v", err)
			}
			if d := cmp.Diff(tc.want, f.removed); d != "" {
				t.Error(d)
			}
		})
	}
}
