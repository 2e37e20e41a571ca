package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestBashCompletion lets bash itself complete.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		testenv.Lack(t, "bash", err)
	}
	script := filepath.Join(t.TempDir(), "sandbox.bash")
	if err := os.WriteFile(script, []byte(call(t, &fake{}, "completion", "bash").stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ line, want string }{
		{"sandbox re", "recreate"},
		{"sandbox images b", "build bootstrap"},
		{"sandbox --session x pr", "prune"},
		{"sandbox recreate --al", "--all"},
		{"sandbox run --work", "--workspace --workdir"},
		{"sandbox --form", "--format"},
		{"sandbox completion f", "fish"},
		{"sandbox run -- ru", ""},
		{"sandbox fs r", "read rm"},
		{"sandbox fs write --ex", "--exclusive"},
		{"sandbox cp loc", "local"},
		{"sandbox violations c", "clear"},
		{"sandbox violations list --sev", "--severity"},
		{"sandbox evidence v", "verify"},
		{"sandbox evidence list --co", "--code --command --config"},
		{"sandbox evidence r", "replay"},
		{"sandbox fs read loc", ""},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			words := strings.Fields(tt.line)
			cmd := exec.Command(bash, "-c", `. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sandbox; echo "${COMPREPLY[@]}"`, "bash", script)
			cmd.Args = append(cmd.Args, words...)
			cmd.Dir = t.TempDir()
			put(t, cmd.Dir+"/local", "")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got := strings.Fields(string(out))
			for _, w := range strings.Fields(tt.want) {
				if !strings.Contains(" "+strings.Join(got, " ")+" ", " "+w+" ") {
					t.Errorf("offers %q, want %q among them", got, w)
				}
			}
			if len(got) != len(strings.Fields(tt.want)) {
				t.Errorf("offers %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCompletionKnowsEveryCommand(t *testing.T) {
	for _, shell := range []string{"zsh", "fish"} {
		r := call(t, &fake{}, "completion", shell)
		for _, w := range []string{"run", "exec", "shell", "fs", "glob", "cp", "list", "recreate", "prune", "checkpoint", "export", "rollback", "fork", "explain", "stats", "pool", "images", "bootstrap", "config", "schema", "doctor", "violations", "severity", "evidence", "verify", "replay", "token", "revoke", "version", "completion", "allow-domain", "secret", "method"} {
			if !strings.Contains(r.stdout, w) {
				t.Errorf("%s: %s is missing", shell, w)
			}
		}
	}
}
