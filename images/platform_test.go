package images

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
)

// TestPlatform holds that no sandbox is made from an image for another platform,
// and that the error names both, on each way to an image.
func TestPlatform(t *testing.T) {
	amd, arm := about.Platform{OS: "linux", Architecture: "amd64"}, about.Platform{OS: "linux", Architecture: "arm64"}
	tests := map[string]struct {
		image, machine about.Platform
		says           string // empty: it is taken
	}{
		"same":             {amd, amd, ""},
		"not told":         {about.Platform{}, amd, ""},
		"variant":          {about.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}, arm, ""},
		"32 bits":          {about.Platform{OS: "linux", Architecture: "386"}, amd, ""},
		"32 bits of arm":   {about.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}, arm, ""},
		"arm on amd":       {about.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}, amd, "is made for linux/arm64/v8, and this machine runs linux/amd64"},
		"amd on arm":       {amd, arm, "is made for linux/amd64, and this machine runs linux/arm64"},
		"small arm on amd": {about.Platform{OS: "linux", Architecture: "arm"}, amd, "is made for linux/arm,"},
		"other system":     {about.Platform{OS: "windows", Architecture: "amd64"}, amd, "is made for windows/amd64"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			id := f.put("own/image:1", nil)
			r := f.images[id]
			r.Os, r.Architecture, r.Variant = tc.image.OS, tc.image.Architecture, tc.image.Variant
			f.images["own/image:1"], f.images[id] = r, r
			s := fakeStore(t, f, Config{LockDir: t.TempDir()})
			s.platform = tc.machine
			check := func(way string, err error) {
				t.Helper()
				var se *sandbox.Error
				switch {
				case tc.says == "" && err != nil:
					t.Errorf("%s: %v", way, err)
				case tc.says != "" && (!errors.As(err, &se) || se.Code != sandbox.CodeValidation || se.Field != "docker.image" ||
					!strings.Contains(se.Message, tc.says) || !strings.Contains(se.Hint, "--platform "+tc.machine.OS+"/"+tc.machine.Architecture)):
					t.Errorf("%s: got %v, want %q", way, err, tc.says)
				}
			}
			_, err := Source{Store: s}.Current(t.Context(), "own/image:1", nil)
			check("current", err)
			_, err = Source{Store: s}.Ensure(t.Context(), "own/image:1", []string{"true"})
			check("ensure", err)
			_, err = s.Build(t.Context(), Options{Base: "own/image:1"})
			check("base of a build", err)
		})
	}
}

// TestAnnotations holds that each image of ours carries the annotations of the
// image specification as labels, and none of the image below it.
func TestAnnotations(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600))
	f := newFake()
	f.put(BaseImage, map[string]string{ocispec.AnnotationVersion: "24.04", ocispec.AnnotationTitle: "ubuntu"})
	s := fakeStore(t, f, Config{LockDir: t.TempDir()})
	s.now = func() time.Time { return now }
	built, err := s.Build(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	layer, err := s.EnsureSetup(t.Context(), built, []string{"true"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		img                  Image
		title, version, base string
	}{
		"built": {built, DefaultImage, s.recipes[0].digest(), BaseImage},
		"setup": {layer, layer.Ref, SetupKey(built.ID, []string{"true"}), DefaultImage},
	} {
		for key, want := range map[string]string{
			"org.opencontainers.image.title": tc.title, "org.opencontainers.image.version": tc.version,
			"org.opencontainers.image.base.name": tc.base, "org.opencontainers.image.created": "2026-03-04T04:06:07Z",
		} {
			if got := tc.img.Labels[key]; got != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got, want)
			}
		}
	}
	boot, err := s.Bootstrap(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`LABEL org.opencontainers.image.title="` + boot.Ref + `"`, `LABEL org.opencontainers.image.version="bookworm"`,
		`LABEL org.opencontainers.image.created="2026-03-04T04:06:07Z"`,
	} {
		if !slices.Contains(f.changes, want) {
			t.Errorf("no %s in %q", want, f.changes)
		}
	}
	if strings.Contains(strings.Join(f.changes, "\n"), "base.name") {
		t.Errorf("an image built on none names a base: %q", f.changes)
	}
}
