package hostscan

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A protectRig is a folder with files to protect.
type protectRig struct {
	t    *testing.T
	root string
}

func protectNewRig(t *testing.T) protectRig {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return protectRig{t, root}
}

func (r protectRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r protectRig) at(rel string) string { return filepath.Join(r.root, rel) }

func (r protectRig) write(rel, text string) {
	r.t.Helper()
	r.must(os.MkdirAll(filepath.Dir(r.at(rel)), 0o755))
	r.must(os.WriteFile(r.at(rel), []byte(text), 0o644))
}

func (r protectRig) there(rel string) bool {
	_, err := os.Lstat(r.at(rel))
	return err == nil
}

func (r protectRig) dir(rel string) { r.t.Helper(); r.must(os.MkdirAll(r.at(rel), 0o755)) }

func (r protectRig) link(to, rel string) {
	r.t.Helper()
	r.must(os.MkdirAll(filepath.Dir(r.at(rel)), 0o755))
	r.must(os.Symlink(to, r.at(rel)))
}

// git runs git in the folder dir, with an identity and without the machine's
// settings.
func (r protectRig) git(dir string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.at(dir)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q in %s: %v\n%s", args, dir, err, out)
	}
	return string(out)
}

// repo creates a repository with one commit.
func (r protectRig) repo(rel string) {
	r.t.Helper()
	r.dir(rel)
	r.git(rel, "init", "-q", "-b", "main")
	r.write(rel+"/file", "text")
	r.git(rel, "add", ".")
	r.git(rel, "commit", "-q", "-m", "first")
}

func (r protectRig) rules(q ProtectRequest) Rules {
	r.t.Helper()
	f, err := Look(q)
	r.must(err)
	return Decide(f)
}

// lines formats the denies of some rules, or of all if none are given, one a
// line: the path below the root, then "keep" and "dir" if they are set.
func (r protectRig) lines(denies []plan.Deny, rules ...string) []string {
	var out []string
	for _, d := range denies {
		if len(rules) > 0 && !slices.Contains(rules, d.Rule) {
			continue
		}
		if d.Read {
			r.t.Errorf("%s is closed for reading", d.Path)
		}
		s := strings.TrimPrefix(d.Path, r.root+"/")
		if d.Keep {
			s += " keep"
		}
		if d.Dir {
			s += " dir"
		}
		out = append(out, s)
	}
	return out
}

func (r protectRig) want(got []string, want ...string) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// ofGit lists the rules about repositories.
var ofGit = []string{ruleHooks, ruleConfig, ruleLinks, rulePointer, ruleWorktree, ruleNoRepo, ruleNoBare, ruleBare}

func (r protectRig) views(views []plan.View) []string {
	var out []string
	for _, v := range views {
		s := strings.TrimPrefix(v.Source, r.root+"/")
		if v.Write {
			s += " write"
		}
		if v.Target != v.Source {
			s += " at " + v.Target
		}
		out = append(out, s)
	}
	return out
}
