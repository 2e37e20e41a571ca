package testenv

import (
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Repository is the path of the repository on [Git]. Its one file, README,
// holds [Content].
const Repository = "/greeting.git"

// ServeGit makes the repository and has git's own program for web servers
// serve it on [Git]. It takes some runs of git, so only who needs it does it.
func (n *Internet) ServeGit() {
	n.t.Helper()
	t := n.t
	git, err := exec.LookPath("git")
	must(t, err)
	libexec, err := exec.Command(git, "--exec-path").Output()
	must(t, err)
	root := t.TempDir()
	work := filepath.Join(root, "work")
	must(t, os.Mkdir(work, 0o755))
	must(t, os.WriteFile(filepath.Join(work, "README"), []byte(Content), 0o644))
	run := func(dir string, args ...string) {
		t.Helper()
		c := exec.Command(git, args...)
		c.Dir, c.Env = dir, gitEnv(root)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	run(work, "init", "--quiet", "--initial-branch=main")
	run(work, "add", "README")
	run(work, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=greet")
	run(root, "clone", "--quiet", "--bare", "work", strings.TrimPrefix(Repository, "/"))
	n.Handle(Git, &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(libexec)), "git-http-backend"), Root: "/",
		Env: append(gitEnv(root), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
	})
}

// gitEnv returns an environment without the git settings of the user that runs
// the tests.
func gitEnv(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
}
