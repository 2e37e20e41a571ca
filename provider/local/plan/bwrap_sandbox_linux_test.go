package plan_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// TestSandbox verifies with a real bwrap that the sandbox closes what the plan
// closes.
func TestSandbox(t *testing.T) {
	ws, mask, world := hostile(t)
	w := raise(t, world, mask)
	const (
		denied   = "Permission denied"
		readOnly = "Read-only file system"
		busy     = "Device or resource busy"
	)
	tests := []struct{ name, line, want string }{
		{"reads what is free", "cat free && cat a/b/code", "freecode"},
		{"writes what is free", "echo x > a/new && cat a/new", "x"},
		{"masked file", "cat a/b/.env", denied},
		{"masked file by its host path", "cat " + ws + "/a/b/.env", denied},
		{"masked file through root", "cat /proc/self/root" + ws + "/a/b/.env", denied},
		{"masked file through dots", "cat a/../a/b/./.env", denied},
		{"masked file by a link", "ln -s /workspace/a/b/.env l; cat l", denied},
		{"hard link of a masked file", "ln a/b/.env h && cat h", "failed to create hard link"},
		{"write to a masked file", "echo x > a/b/.env", readOnly},
		{"chmod of a masked file", "chmod 777 a/b/.env", readOnly},
		{"removal of a masked file", "rm -f a/b/.env", busy},
		{"masked folder", "ls vault", denied},
		{"below a masked folder", "cat vault/key", denied},
		{"write into a masked folder", "touch vault/x", denied},
		{"chmod of a masked folder", "chmod 777 vault", readOnly},
		{"view of what lies in it", "ls /deep", denied},
		{"rename of a folder above", "mv a z", busy},
		{"rename of the next folder above", "mv a/b a/z", busy},
		{"rename of the repository", "mv .git z", busy},
		{"rename by the host path", "mv " + ws + "/.git " + ws + "/z", busy},
		{"new hook", "touch .git/hooks/pre-commit", readOnly},
		{"old hook", "echo x > .git/hooks/x", readOnly},
		{"config", "echo x > .git/config", readOnly},
		{"config by replacing", "echo x > .git/c && mv .git/c .git/config", busy},
		{"index", "echo x > .git/index && cat .git/index", "x"},
		{"missing file that is kept", "echo x > .mcp.json", readOnly},
		{"missing file, made another way", "echo x > m && mv m .mcp.json", busy},
		{"missing folder that is kept", "mkdir -p .claude/skills", readOnly},
		{"missing folder, moved away", "mv .claude z", busy},
		{"unmount", "umount a/b/.env", "umount"},
		{"remount", "mount -o remount,rw,bind /workspace/.git/hooks", "mount"},
		{"namespace of its own", "unshare -Ur true", "unshare"},
		{"root", "touch /x", readOnly},
		{"made parents", "touch " + filepath.Dir(ws) + "/x", readOnly},
		{"devices", "touch /dev/x", readOnly},
		{"system", "touch /usr/x", readOnly},
		{"null", "echo x > /dev/null && echo fine", "fine"},
		{"size of shm", "head -c 100000 /dev/zero > /dev/shm/x", "No space left"},
		{"size of tmp", "head -c 2000000 /dev/zero > /var/tmp/x", "No space left"},
		{"processes", "ls -d /proc/[0-9]*", "/proc/1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := w.sh(t, "exec 2>&1; "+tt.line); !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %q, want %q", tt.line, got, tt.want)
			}
		})
	}
	for p, want := range map[string]string{"a/b/.env": "secret", ".git/config": "config", ".git/hooks/x": "hook", "vault/key": "key", ".mcp.json": ""} {
		if got, err := os.ReadFile(filepath.Join(ws, p)); err != nil || string(got) != want {
			t.Errorf("%s holds %q afterwards: %v", p, got, err)
		}
	}
}

// TestFrozenFolder verifies that a link that must stay does stay, and that the
// files beside it are writable.
func TestFrozenFolder(t *testing.T) {
	ws, mask, world := hostile(t)
	if err := os.Symlink("a/b/code", filepath.Join(ws, ".envrc")); err != nil {
		t.Fatal(err)
	}
	world.Denies = []plan.Deny{{Path: ws + "/.envrc", Keep: true, Rule: "start-up"}}
	w := raise(t, world, mask)
	for line, want := range map[string]string{
		"rm -f .envrc":              "Read-only file system",
		"echo x > .envrc":           "Read-only file system",
		"echo x > a/b/code":         "Read-only file system",
		"echo x > new":              "Read-only file system",
		"mv a z":                    "Read-only file system",
		"echo x > free && cat free": "x",
		"echo x > a/n && cat a/n":   "x",
	} {
		if got := w.sh(t, "exec 2>&1; "+line); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestRootShownByName verifies that a sandbox can show the whole host.
func TestRootShownByName(t *testing.T) {
	ws, mask, world := hostile(t)
	world.Views = []plan.View{
		{Source: "/", Target: "/", Optional: true, Why: "filesystem.allowRead: /"},
		{Source: ws, Target: "/workspace", Write: true, Why: "workspace"},
	}
	world.Tmpfs = nil
	w := raise(t, world, mask)
	for line, want := range map[string]string{
		"cat " + ws + "/free":         "free",
		"echo x > " + ws + "/free":    "Read-only file system",
		"cat " + ws + "/a/b/.env":     "Permission denied",
		"cat /workspace/a/b/.env":     "Permission denied",
		"echo x > a/n && cat a/n":     "x",
		"touch /etc/x; touch /x":      "Read-only file system",
		"ls /proc | grep -c '^[0-9]'": "\n",
	} {
		if got := w.sh(t, "exec 2>&1; "+line); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
