package images

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
)

func TestLanguageRecipes(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range languageRecipes() {
		packages := packagesOf(r.dockerfile)
		if len(packages) <= len(packagesOf(sandbox.DockerfileSandbox)) || seen[r.digest()] || r.ref == "" {
			t.Errorf("%s has the packages %q", r.ref, packages)
		}
		seen[r.digest()] = true
		if on := r.on("trixie"); strings.Contains(on.dockerfile, "cargo-web") || len(packagesOf(on.dockerfile)) != len(packages) {
			t.Errorf("%s on another suite has the packages %q", r.ref, packagesOf(on.dockerfile))
		}
	}
	if len(seen) != len(sandbox.Languages()) {
		t.Errorf("%d recipes for %q", len(seen), sandbox.Languages())
	}
}

func TestReadDockerfile(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		args map[string]string
		want []string
	}{
		"one":               {"FROM a:1\nRUN x", nil, []string{"a:1"}},
		"stages":            {"FROM a AS b\nFROM b\nCOPY --from=b /x /y\nCOPY --from=0 /x /y", nil, []string{"a"}},
		"another image":     {"from a\ncopy --from=c:2 /x /y", nil, []string{"a", "c:2"}},
		"an argument":       {"ARG V=1\nFROM a:${V}", nil, []string{"a:1"}},
		"one that is set":   {"ARG V=1\nFROM a:${V}", map[string]string{"V": "2"}, []string{"a:2"}},
		"a whole one":       {"ARG I=\"a:1\"\nFROM $I", nil, []string{"a:1"}},
		"continued":         {"FROM \\\n  # a comment\n  a", nil, []string{"a"}},
		"platform":          {"FROM --platform=linux/amd64 a", nil, []string{"a"}},
		"scratch":           {"FROM scratch\nCOPY x /", nil, nil},
		"files are added":   {"FROM a\nADD x.tar /\nADD [\"y\", \"/\"]\nADD --chown=1:1 z /", nil, []string{"a"}},
		"an escape is \\":   {"# escape=\\\nFROM a", nil, []string{"a"}},
		"an address in RUN": {"FROM a\nRUN curl https://b", nil, []string{"a"}},
	} {
		got, err := readDockerfile(tt.text, tt.args)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q and %v, want %q", name, got, err, tt.want)
		}
	}
}

// The engine itself would fetch what these name, over the network of the host.
func TestReadDockerfileRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"an address":               "FROM a\nADD http://169.254.169.254/ /x",
		"in capitals":              "FROM a\nadd HTTPS://b /x",
		"as JSON":                  `FROM a` + "\n" + `ADD ["http://b", "/x"]`,
		"as escaped JSON":          `FROM a` + "\n" + `ADD ["\u0068ttp://b", "/x"]`,
		"in quotes":                `FROM a` + "\n" + `ADD "ht"tp://b /x`,
		"escaped":                  `FROM a` + "\n" + `ADD ht\tp://b /x`,
		"over two lines":           "FROM a\nADD \\\n http://b /x",
		"in a variable":            "FROM a\nARG U\nADD $U /x",
		"after a flag":             "FROM a\nADD --chown=1 http://b /x",
		"a repository":             "FROM a\nADD git@b:c /x",
		"a repository by its name": "FROM a\nADD github.com/a/b /x",
		"a trigger":                "FROM a\nONBUILD RUN x",
		"another escape":           "# escape=`\nFROM a\nADD `\n http://b /x",
		"an unknown base":          "FROM ${X}",
		"an unknown source":        "FROM a\nCOPY --from=$X a b",
		"after tabs":               "FROM a\nADD\thttp://b /x",
	} {
		if _, err := readDockerfile(text, nil); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readDockerfile("RUN x", nil); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("no FROM: %v", err)
	}
}

// packed writes files below a folder, packs it, and returns the names in the archive.
func packed(t *testing.T, dir, dockerfile string) ([]string, string, error) {
	t.Helper()
	p, err := packProject(t.Context(), about.Project{Dockerfile: filepath.Join(dir, dockerfile), Context: dir})
	if err != nil {
		return nil, "", err
	}
	defer p.remove()
	f := p.open()
	var names []string
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	return names, p.digest, nil
}

func TestPackProject(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Dockerfile": "FROM a", "src/a.go": "a", "secret/key": "k", "secret/keep": "k", ".dockerignore": "secret/*\n!secret/keep\nDockerfile\n",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.WriteFile(outside, []byte("o"), 0o644), os.Symlink(outside, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	names, digest, err := packed(t, dir, "Dockerfile")
	want := []string{".dockerignore", "Dockerfile", "link", "secret/", "secret/keep", "src/", "src/a.go"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("%v; the build gets %q, want %q", err, names, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret", "key"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, same, _ := packed(t, dir, "Dockerfile"); same != digest {
		t.Error("a file that the build does not get changes the digest")
	}
	if err := os.WriteFile(filepath.Join(dir, "src", "a.go"), []byte("b"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, other, _ := packed(t, dir, "Dockerfile"); other == digest {
		t.Error("a file that changes leaves the digest as it is")
	}
	// A Dockerfile that is a link to another folder is not read.
	if err := os.Symlink(outside, filepath.Join(dir, "Linked")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := packed(t, dir, "Linked"); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a link out of the folder: %v", err)
	}
	if _, _, err := packed(t, filepath.Join(dir, "src"), "../Dockerfile"); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a Dockerfile outside of the context: %v", err)
	}
}

func TestBuildProjectOfFakeEngine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM base:1\nRUN x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.put("base:1", nil)
	s := fakeStore(t, f, Config{})
	p := about.Project{Dockerfile: filepath.Join(dir, "Dockerfile"), Context: dir, Network: "none", Memory: 1 << 30, CPUs: 1.5, Size: 1 << 30}
	img, err := s.BuildProject(t.Context(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := f.builds[0]
	if o.NetworkMode != "none" || o.Memory != 1<<30 || o.CPUQuota != 150000 || len(o.BuildArgs) != 0 || o.Labels[labelKind] != string(OriginProject) || !strings.HasPrefix(img.Ref, projectRepo+":") {
		t.Errorf("the build has %+v, the image %+v", o, img)
	}
	if _, err := s.BuildProject(t.Context(), p, Options{}); err != nil || f.asked("build") != 1 {
		t.Errorf("the same again: %v after %d builds", err, f.asked("build"))
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.BuildProject(t.Context(), p, Options{}); err != nil || f.asked("build") != 2 {
		t.Errorf("with another file: %v after %d builds", err, f.asked("build"))
	}
	if kind, _ := s.classify(img.Ref); kind != refOurs {
		t.Error("an image of a Dockerfile would be pulled when it is gone")
	}
	// Triggers of the base would run instructions that were not looked at.
	r := f.images["base:1"]
	r.Config.OnBuild = []string{"ADD http://a /"}
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.BuildProject(t.Context(), p, Options{}); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("a base with triggers: %v", err)
	}
}

func FuzzReadDockerfile(f *testing.F) {
	f.Add("FROM a\nADD http://b /x")
	f.Add("ARG A=b\nFROM ${A} AS c\nCOPY --from=c / /")
	f.Fuzz(func(t *testing.T, text string) {
		refs, err := readDockerfile(text, nil)
		for _, line := range strings.Split(text, "\n") {
			words := strings.Fields(line)
			if err == nil && len(words) == 3 && words[0] == "ADD" && strings.HasPrefix(words[1], "http://") && !strings.Contains(text, "\\") {
				t.Errorf("%q fetches an address and gives %q", text, refs)
			}
		}
	})
}

func TestProjectBuildNotesWhatItMakes(t *testing.T) {
	var b projectBuild
	for _, line := range []string{"Step 1/3 : FROM a", "---> aaa", "Step 2/3 : RUN x", "---> Using cache", "---> bbb", "Step 3/3 : RUN y", "---> Running in ccc", "Removing intermediate container ccc", "---> ddd"} {
		b.note(line)
	}
	if !slices.Equal(b.layers, []string{"aaa", "ddd"}) || b.last() != "ccc" {
		t.Errorf("made are %q and %q", b.layers, b.containers)
	}
}
