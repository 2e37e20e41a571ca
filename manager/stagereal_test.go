package manager_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestStagedFilesAreTheSandboxes has a real sandbox read, change and remove what
// was staged before it was made and while it runs, with each access to the
// agent's folder.
func TestStagedFilesAreTheSandboxes(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	for access, in := range map[string]string{"none": "", "ro": "", "rw": "agent"} {
		t.Run(access, func(t *testing.T) {
			r := newRig(t)
			inbox, agent := tempDir(t, 0o700), filepath.Join(tempDir(t, 0o755), "agent")
			must(t, os.WriteFile(inbox+"/first letter.txt", []byte("one"), 0o600))
			must(t, os.WriteFile(inbox+"/second", []byte("two"), 0o600))
			m := r.manager(fmt.Sprintf(`{"agents": {"defaults": {"sandbox": {"workspaceAccess": %q}}, "list": [{"id": "main", "workspace": %q}]}, "media": {"folders": [%q]}}`, access, agent, inbox))
			before, err := m.Stage(t.Context(), who("s"), []string{inbox + "/first letter.txt"})
			must(t, err)
			quoted := "'" + before[0].Path + "'"
			out, o := mustRun(t, m, "s", "cat "+quoted+" && echo more >> "+quoted+" && wc -c < "+quoted+" && stat -c %u "+quoted+" && id -u")
			words := strings.Fields(out)
			if len(words) != 3 || words[0] != "one8" || words[1] != words[2] {
				t.Errorf("inside it said %q", out)
			}
			while, err := m.Stage(t.Context(), who("s"), []string{inbox + "/second"})
			must(t, err)
			if out, again := mustRun(t, m, "s", "cat "+while[0].Path+" && rm "+while[0].Path+" "+quoted); out != "two" || again.Created || !o.Created {
				t.Errorf("inside it said %q; made anew %v", out, again.Created)
			}
			if _, err := os.Stat(agent + "/media"); (err == nil) != (in == "agent") {
				t.Errorf("the agent's own folder has media: %v", err)
			}
		})
	}
}
