package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/build"

	sandbox "github.com/bulkhead-dev/sandbox"
)

func TestSetupKeySeparates(t *testing.T) {
	seen := map[string]string{}
	for name, key := range map[string]string{
		"one":            SetupKey("sha256:a", []string{"x y"}),
		"two":            SetupKey("sha256:a", []string{"x", "y"}),
		"other order":    SetupKey("sha256:a", []string{"y", "x"}),
		"other base":     SetupKey("sha256:b", []string{"x", "y"}),
		"shifted border": SetupKey("sha256:ax", []string{"y"}),
	} {
		if other, dup := seen[key]; dup || len(key) != 64 {
			t.Errorf("%s and %s share %s", name, other, key)
		}
		seen[key] = name
	}
	// A key of an earlier program must stay valid, or every layer is rebuilt.
	if got, want := SetupKey("sha256:a", []string{"x", "y"})[:16], "b130905d1c94e26d"; got != want {
		t.Errorf("key is %s, was %s", got, want)
	}
}

func TestSetupRefuses(t *testing.T) {
	base := Image{ID: "sha256:a", User: "sandbox"}
	for name, tc := range map[string]struct {
		base     Image
		commands []string
		field    string
	}{
		"empty command":  {base, []string{"true", " \n"}, "docker.setup[1]"},
		"NUL":            {base, []string{"a\x00b"}, "docker.setup[0]"},
		"invalid UTF-8":  {base, []string{"a\xff"}, "docker.setup[0]"},
		"very long":      {base, []string{strings.Repeat("x", maxSetupLine)}, "docker.setup[0]"},
		"many":           {base, make([]string, maxSetupCommands+1), "docker.setup"},
		"base without":   {Image{}, []string{"true"}, ""},
		"user injection": {Image{ID: "sha256:a", User: "x\nRUN evil"}, []string{"true"}, "docker.image"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			_, err := fakeStore(t, f, Config{}).EnsureSetup(t.Context(), tc.base, tc.commands, Options{})
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != tc.field || f.asked("build") != 0 {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSetupRecipe(t *testing.T) {
	job, _, err := setupJob(Image{Ref: "r", ID: "sha256:a"}, []string{"echo $HOME \\\n<<EOF \"q\"", "true"})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "setup.Dockerfile.golden", job.dockerfile)
}

func TestSetupWithoutCommandsIsTheBase(t *testing.T) {
	f := newFake()
	base := Image{ID: "sha256:a"}
	if img, err := fakeStore(t, f, Config{}).EnsureSetup(t.Context(), base, nil, Options{}); err != nil || img.ID != base.ID || len(f.calls) != 0 {
		t.Errorf("got %+v, %v after %v", img, err, f.calls)
	}
}

func TestSetupDoesNotTrustTheTagAlone(t *testing.T) {
	f := newFake()
	base := Image{ID: "sha256:a"}
	job, key, err := setupJob(base, []string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	f.put(job.ref, map[string]string{labelSetup: strings.Repeat("0", 64)})
	s := fakeStore(t, f, Config{})
	img, err := s.EnsureSetup(t.Context(), base, []string{"true"}, Options{})
	if err != nil || img.Labels[labelSetup] != key || f.asked("build") != 1 {
		t.Errorf("got %+v, %v", img, err)
	}
	if _, err := s.EnsureSetup(t.Context(), base, []string{"true"}, Options{}); err != nil || f.asked("build") != 1 {
		t.Errorf("not cached: %v after %v", err, f.calls)
	}
}

func TestSetupFailureNamesTheCommand(t *testing.T) {
	f := newFake()
	f.onBuild = func(_ context.Context, o build.ImageBuildOptions) (string, error) {
		s := ""
		for i := 1; i <= setupHead+2; i++ {
			s += stepLine(i, setupHead+4)
		}
		return s + outLine("cause\n") + errLine("The command '/bin/sh -ec two' returned a non-zero code: 9"), nil
	}
	_, err := fakeStore(t, f, Config{}).EnsureSetup(t.Context(), Image{ID: "sha256:a"}, []string{"one", "two", "three"}, Options{})
	text := fmt.Sprint(err)
	for _, want := range []string{"docker.setup[1]", "failed: two", "exit status 9", "cause"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if f.asked("list") != 1 || f.asked("containers") != 1 {
		t.Errorf("no clean-up: %v", f.calls)
	}
}

// TestSetupGivenUpShowsTheOutput holds that the end of the output is in the error
// also when commands were given up: nothing else need have shown it.
func TestSetupGivenUpShowsTheOutput(t *testing.T) {
	f := newFake()
	base := f.put("a:b", nil)
	f.onBuild = func(context.Context, build.ImageBuildOptions) (string, error) {
		return stepLine(5, 6) + outLine("waiting for a mirror\n") + "{\"stream", nil // and the connection is gone
	}
	_, err := fakeStore(t, f, Config{}).EnsureSetup(t.Context(), Image{ID: base}, []string{"sleep 1000"}, Options{})
	if err == nil || !strings.Contains(err.Error(), "waiting for a mirror") {
		t.Errorf("got %v", err)
	}
}

// TestSetupTrustsCompany holds that the commands trust the certificates that the
// variable names, that the error still names the right command, and what is refused.
func TestSetupTrustsCompany(t *testing.T) {
	const pemText = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	file := filepath.Join(t.TempDir(), "ca.pem")
	set := func(s *Store, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.getenv = func(k string) string { return map[string]string{caVariable: file}[k] }
	}
	var recipe string
	f := newFake()
	base := f.put("a:b", nil)
	f.onBuild = func(_ context.Context, o build.ImageBuildOptions) (string, error) {
		lines := 0
		for line := range strings.Lines(recipe) {
			lines++
			if strings.HasPrefix(line, `RUN ["/bin/sh","-ec","two"]`) {
				break
			}
		}
		s := ""
		for i := 1; i <= lines; i++ {
			s += stepLine(i, lines+3)
		}
		return s + errLine("The command '/bin/sh -ec two' returned a non-zero code: 9"), nil
	}
	s := fakeStore(t, f, Config{})
	set(s, "before\n"+pemText+"between\n"+pemText)
	job, _, err := setupJob(Image{ID: base, User: "sandbox"}, []string{"one", "two"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.withCA(&job); err != nil {
		t.Fatal(err)
	}
	recipe = job.dockerfile
	if len(job.files) != 1 || job.files[0].content != pemText+pemText {
		t.Errorf("files %+v", job.files)
	}
	at := func(part string) int { return strings.Index(recipe, part) }
	if !(at("USER 0\n") < at("COPY "+caFile) && at("COPY "+caFile) < at("ARG PIP_CERT="+caBundle) && at("ARG PIP_CERT=") < at(`"one"`) && at(`"two"`) < at("RUN rm -f") && at("RUN rm -f") < at("USER sandbox\n")) || strings.Contains(recipe, "ENV") {
		t.Errorf("recipe:\n%s", recipe)
	}
	_, err = s.EnsureSetup(t.Context(), Image{ID: base, User: "sandbox"}, []string{"one", "two"}, Options{})
	if text := fmt.Sprint(err); !strings.Contains(text, "docker.setup[1]") || !strings.Contains(text, "failed: two") {
		t.Errorf("the command is not named: %s", text)
	}
	for name, text := range map[string]string{"a key": pemText + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "none": "text", "large": strings.Repeat(" ", maxCA+1)} {
		set(s, text)
		_, err := s.EnsureSetup(t.Context(), Image{ID: base}, []string{"other"}, Options{})
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != caVariable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
