package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// projectDir makes a folder with these files.
func projectDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRunFromDockerfile(t *testing.T) {
	dir := projectDir(t, map[string]string{"Dockerfile": "FROM a", "ci/Dockerfile": "FROM a"})
	for _, tt := range []struct{ flag, file, context string }{
		{"--from-dockerfile", "Dockerfile", ""},
		{"--from-dockerfile=" + filepath.Join(dir, "ci"), "ci/Dockerfile", ""},
		{"--from-dockerfile=" + filepath.Join(dir, "ci", "Dockerfile"), "ci/Dockerfile", ""},
	} {
		f := &fake{}
		r := call(t, f, "run", "--workspace", dir, tt.flag, "--", "true")
		if r.status != 0 || f.project.Dockerfile != filepath.Join(dir, tt.file) || f.project.Context != filepath.Join(dir, tt.context) {
			t.Errorf("%s: status %d, %s; the build gets %+v", tt.flag, r.status, r.stderr, f.project)
			continue
		}
		if p := f.project; p.Network != "none" || p.Timeout != 15*time.Minute || p.Size != 8<<30 || p.Memory != 2<<30 || p.CPUs != 2 {
			t.Errorf("the build is bounded by %+v", p)
		}
		if *f.request.Flags.Docker.Image != "sandbox-project:x" {
			t.Errorf("the image is %s", *f.request.Flags.Docker.Image)
		}
	}
}

func TestRunFromDockerfileRefuses(t *testing.T) {
	other := projectDir(t, map[string]string{"Dockerfile": "FROM a", "secret": "s"})
	dir := projectDir(t, map[string]string{"devcontainer.json": "{}"})
	if err := os.Symlink(filepath.Join(other, "Dockerfile"), filepath.Join(dir, "Dockerfile")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a link to another folder": {[]string{"--workspace", dir, "--from-dockerfile"}, "is a link"},
		"none":                     {[]string{"--workspace", filepath.Dir(dir), "--from-dockerfile"}, "there is no Dockerfile"},
		"an image beside it":       {[]string{"--workspace", other, "--image", "a", "--from-dockerfile"}, "give one of them"},
		"both files":               {[]string{"--workspace", other, "--devcontainer", "--from-dockerfile"}, "give one of them"},
		"the local provider":       {[]string{"--workspace", other, "--provider", "local", "--from-dockerfile"}, "built by an engine"},
	} {
		f := &fake{}
		r := call(t, f, append(append([]string{"run"}, tt.args...), "--", "true")...)
		if r.status == 0 || !strings.Contains(r.stderr, tt.want) || f.project.Dockerfile != "" {
			t.Errorf("%s: status %d, %s; built is %+v", name, r.status, r.stderr, f.project)
		}
	}
}

func TestRunDevcontainer(t *testing.T) {
	dir := projectDir(t, map[string]string{
		".devcontainer/devcontainer.json": `{"build": {"dockerfile": "Dockerfile", "context": "..", "args": {"A": "1"}, "target": "dev"},
			"containerEnv": {"C": "1"}, "remoteEnv": {"R": "2", "S": "3"}, "postCreateCommand": "make", "remoteUser": "vscode", "forwardPorts": [3000]}`,
		".devcontainer/Dockerfile": "FROM a",
	})
	f := &fake{}
	var ran []manager.Request
	f.run = func(_ context.Context, r manager.Request) (manager.Outcome, error) {
		ran = append(ran, r)
		return manager.Outcome{}, nil
	}
	r := call(t, f, "run", "--rm", "--workspace", dir, "--devcontainer", "-e", "S=4", "--", "true")
	if r.status != 0 || f.project.Dockerfile != filepath.Join(dir, ".devcontainer", "Dockerfile") || f.project.Context != dir || f.project.Target != "dev" || f.project.Args["A"] != "1" {
		t.Fatalf("status %d, %s; the build gets %+v", r.status, r.stderr, f.project)
	}
	if len(ran) != 2 || !strings.Contains(strings.Join(ran[0].Command.Args, " "), "( make\n)") || ran[0].Remove || !ran[1].Remove || ran[0].Who != ran[1].Who {
		t.Fatalf("ran %+v", ran)
	}
	q := ran[1]
	if q.Flags.Docker.Env["C"] != "1" || q.Command.Env["R"] != "2" || q.Command.Env["S"] != "4" {
		t.Errorf("variables are %q and %q", q.Flags.Docker.Env, q.Command.Env)
	}
	for _, want := range []string{"remoteUser", "sandbox port forward 3000"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is not in %s", want, r.stderr)
		}
	}
}

// A postCreateCommand that fails ends the call, and --rm still holds.
func TestRunDevcontainerPostCreateFails(t *testing.T) {
	dir := projectDir(t, map[string]string{".devcontainer.json": `{"image": "a", "postCreateCommand": "exit 3"}`})
	f := &fake{}
	var ran []manager.Request
	f.run = func(_ context.Context, r manager.Request) (manager.Outcome, error) {
		ran = append(ran, r)
		return manager.Outcome{Exit: sandbox.Exit{Code: 3}}, nil
	}
	r := call(t, f, "run", "--rm", "--workspace", dir, "--devcontainer", "--", "never")
	if r.status != 125 || !strings.Contains(r.stderr, "postCreateCommand") || len(ran) != 2 || !ran[1].Remove || slices.Contains(ran[1].Command.Args, "never") {
		t.Errorf("status %d, %s, ran %+v", r.status, r.stderr, ran)
	}
}

// The file belongs to the project: what it names must lie in the project.
func TestRunDevcontainerStaysInside(t *testing.T) {
	other := projectDir(t, map[string]string{"Dockerfile": "FROM a", "secret": "s"})
	for name, build := range map[string]string{
		"a context above":      `{"dockerfile": "Dockerfile", "context": "../.."}`,
		"an absolute context":  `{"dockerfile": "Dockerfile", "context": "` + strings.Repeat("../", 20) + other + `"}`,
		"a Dockerfile outside": `{"dockerfile": "` + strings.Repeat("../", 20) + other + `/Dockerfile"}`,
		"a link":               `{"dockerfile": "Dockerfile", "context": "../link"}`,
	} {
		dir := projectDir(t, map[string]string{".devcontainer/devcontainer.json": `{"build": ` + build + `}`, ".devcontainer/Dockerfile": "FROM a"})
		if err := os.Symlink(other, filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		f := &fake{}
		r := call(t, f, "run", "--workspace", dir, "--devcontainer", "--", "true")
		if r.status == 0 || !strings.Contains(r.stderr, "outside of the project") || f.project.Dockerfile != "" {
			t.Errorf("%s: status %d, %s; built is %+v", name, r.status, r.stderr, f.project)
		}
	}
}

func TestRunCachesAndRegistries(t *testing.T) {
	f := &fake{}
	r := call(t, f, "run", "--image", "node", "--cache", "npm,pypi", "--cache", "go", "--allow", "npm,pip", "--allow", "crates", "--", "true")
	if r.status != 0 || !slices.Equal(f.request.Flags.Cache.Tools, []string{"npm", "pip", "go"}) || !slices.Equal(f.request.Flags.Network.Registries, []string{"npm", "pypi", "cargo"}) {
		t.Errorf("status %d, %s; flags are %+v", r.status, r.stderr, f.request.Flags)
	}
	if r := call(t, f, "run", "--cache", "npm,x", "--", "true"); r.status != 2 {
		t.Errorf("an unknown cache: status %d, %s", r.status, r.stderr)
	}
}

func TestListCaches(t *testing.T) {
	f := &fake{caches: []manager.Cache{{Name: "c-1", Agent: "main", Tools: []string{"npm"}, Bytes: 1 << 20, Size: 10 << 30, UsedAt: time.Now()}}}
	if r := call(t, f, "list", "--caches"); r.status != 0 || !strings.Contains(r.stdout, "c-1") || !strings.Contains(r.stdout, "1MiB") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	if r := call(t, f, "prune", "--caches"); r.status != 0 || !f.prune.Caches {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}
