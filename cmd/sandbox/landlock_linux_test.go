package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestLandlockInDocker runs the attacks of doctor in containers that were started by a
// plain docker run, as an ordinary user and as root, and holds that nine in ten are
// stopped and that each of the others has a code.
func TestLandlockInDocker(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	testenv.Require(t, "landlock")
	guest, err := os.ReadFile(testenv.Guest(t))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "sandbox-guest"), guest, 0o755); err != nil {
		t.Fatal(err)
	}
	buildProgram(t, filepath.Join(bin, "sandbox"), "sandbox_engine")
	if err := os.WriteFile(filepath.Join(bin, "settings.json"), []byte(`{"agents": {"defaults": {"sandbox": {"workspaceRoot": "/var/workspaces"}}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, user, before string }{
		{"user", "1000:1000", "export HOME=/tmp/home; mkdir $HOME; config="},
		{"root", "0:0", "mkdir -m 755 /var/workspaces; config='--config /opt/sandbox/settings.json'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := tt.before + "; exec /opt/sandbox/sandbox $config --provider landlock doctor --attack -o json"
			ctx, done := context.WithTimeout(t.Context(), 10*time.Minute)
			defer done()
			run := exec.CommandContext(ctx, "docker", "run", "--rm", "--label", "sandbox-test=landlock", "--user", tt.user, "--workdir", "/tmp",
				"-v", bin+":/opt/sandbox:ro", images.DefaultImage, "sh", "-c", script)
			var complaints strings.Builder
			run.Stderr = &complaints
			out, err := run.Output()
			var report struct {
				Attempts []struct{ Name, Outcome, Seen string } `json:"attempts"`
			}
			if bad := json.Unmarshal(out, &report); bad != nil || len(report.Attempts) == 0 {
				t.Fatalf("doctor: %v, %v\n%s\n%s", err, bad, out, complaints.String())
			}
			stopped, total := 0, len(report.Attempts)
			for _, r := range report.Attempts {
				switch {
				case r.Outcome == "contained":
					stopped++
				case r.Outcome == "skipped" && (strings.Contains(r.Seen, "landlock.") || strings.HasPrefix(r.Seen, "warning: ")):
				default:
					t.Errorf("%s: %s: %s", r.Name, r.Outcome, r.Seen)
				}
			}
			t.Logf("%d of %d are stopped", stopped, total)
			if stopped*10 < total*9 {
				t.Errorf("%d of %d are stopped, less than nine in ten", stopped, total)
			}
		})
	}
}
