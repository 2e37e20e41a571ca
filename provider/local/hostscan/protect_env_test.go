package hostscan

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestGitEnv holds that a look at a hostile repository on the host starts
// nothing of it, with the environment as with the arguments, and that it does
// without them.
func TestGitEnv(t *testing.T) {
	evil := func(r protectRig, dir string) {
		r.git(dir, "config", "core.fsmonitor", "touch "+r.at("ran")+"; false")
		r.git(dir, "config", "core.pager", "touch "+r.at("ran")+"; cat")
	}
	tests := []struct {
		name  string
		make  func(r protectRig)
		dir   string
		fails bool // git must not take it for a repository
	}{
		{"repository", func(r protectRig) { r.repo("w"); evil(r, "w"); r.write("w/file", "changed") }, "w", false},
		{"repository that the index of another names", func(r protectRig) {
			r.repo("w")
			r.repo("w/s")
			r.git("w", "add", "s")
			evil(r, "w/s")
			r.write("w/s/file", "changed")
		}, "w", false},
		{"planted bare repository", func(r protectRig) {
			r.dir("w")
			r.git("w", "init", "-q", "--bare")
			r.git("w", "config", "core.bare", "false")
			r.git("w", "config", "core.worktree", r.at("w"))
			evil(r, "w")
		}, "w", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := protectNewRig(t)
			tt.make(r)
			run := func(env, args []string) error {
				var first error
				for _, sub := range [][]string{{"status"}, {"diff", "--no-ext-diff", "--no-textconv"}} {
					cmd := exec.Command("git", append(slices.Clone(args), sub...)...)
					cmd.Dir, cmd.Env = r.at(tt.dir), append(env, "HOME="+r.root)
					if out, err := cmd.CombinedOutput(); err != nil && first == nil {
						t.Logf("git %s: %v\n%s", sub, err, out)
						first = err
					}
				}
				return first
			}
			ran := func() bool {
				_, err := os.Stat(r.at("ran"))
				os.Remove(r.at("ran"))
				return err == nil
			}
			hostile := append(os.Environ(), "GIT_CONFIG_PARAMETERS='core.fsmonitor'='touch "+r.at("ran")+"'", "GIT_EXTERNAL_DIFF=touch "+r.at("ran"))
			for name, err := range map[string]error{"environment": run(gitEnv(hostile), nil), "arguments": run(os.Environ(), gitArgs())} {
				if (err != nil) != tt.fails {
					t.Errorf("by %s: %v", name, err)
				}
			}
			if ran() {
				t.Error("a program of the repository ran")
			}
			run(os.Environ(), nil)
			if !ran() {
				t.Error("without the settings nothing runs either, so this test shows nothing")
			}
		})
	}
	if env := gitEnv([]string{"A=b", "GIT_DIR=/x"}); env[0] != "A=b" || strings.Contains(strings.Join(env, " "), "GIT_DIR") {
		t.Errorf("%q", env)
	}
}
