//go:build linux

package manager_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/copy"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestReadOnlyAccess holds that workspaceAccess ro refuses every change by the
// file operations of a session, in the words in which it refuses the tool write,
// and that reading, and what commands write into the session's own workspace,
// stay as they are.
func TestReadOnlyAccess(t *testing.T) {
	t.Parallel()
	settings := func(wall string) string {
		agent := t.TempDir()
		must(t, os.Chmod(agent, 0o755))
		must(t, os.WriteFile(filepath.Join(agent, "kept"), []byte("text"), 0o644))
		return `{"agents": {"defaults": {"sandbox": {"provider": "` + wall + `", "workspaceAccess": "ro"}}, "list": [{"id": "main", "workspace": "` + agent + `"}]}}`
	}
	t.Run("docker", func(t *testing.T) {
		testReadOnlyAccess(t, newRig(t).manager(settings("docker")))
	})
	t.Run("local", func(t *testing.T) {
		parsed, err := config.Parse("test", []byte(settings("local")))
		must(t, err)
		testReadOnlyAccess(t, newSandboxed(t, func(o *manager.Options, _ *statedir.Dir) { o.Settings = parsed }).Manager)
	})
}

func testReadOnlyAccess(t *testing.T, m *manager.Manager) {
	usable, err := m.Usable(who("s"), nil)
	must(t, err)
	refusal := usable.Tool("write").Err()
	if sandbox.CodeOf(refusal) != sandbox.CodeDenyTool {
		t.Fatalf("the tool write: %v", refusal)
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		if sandbox.CodeOf(err) != sandbox.CodeDenyTool || !strings.Contains(err.Error(), refusal.Error()) {
			t.Errorf("got %v; want %v", err, refusal)
		}
	}
	err = m.Files(t.Context(), manager.Request{Who: who("s"), Changes: true}, func(manager.Share) error {
		t.Error("files were lent that may not be changed")
		return nil
	})
	refused(t, err)
	listed, err := m.List(t.Context(), manager.ListOptions{})
	must(t, err)
	if len(listed.Containers) > 0 {
		t.Errorf("a refused change has made %d sandboxes", len(listed.Containers))
	}

	if out, _ := mustRun(t, m, "s", "mkdir -p dir && echo own > dir/file && ln -s dir alias && cat dir/file /agent/kept"); out != "own\ntext" {
		t.Fatalf("a command: %q", out)
	}
	text := func() *strings.Reader { return strings.NewReader("x") }
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	must(t, w.WriteHeader(&tar.Header{Name: "from-archive", Mode: 0o644, Size: 1}))
	_, err = w.Write([]byte("x"))
	must(t, err)
	must(t, w.Close())
	for name, do := range map[string]func(context.Context, manager.Share) error{
		"write": func(ctx context.Context, f manager.Share) error {
			return f.Write(ctx, "new", text(), sandbox.WriteOptions{})
		},
		"replace": func(ctx context.Context, f manager.Share) error {
			return f.Write(ctx, "dir/file", text(), sandbox.WriteOptions{})
		},
		"write by link": func(ctx context.Context, f manager.Share) error {
			return f.Write(ctx, "alias/new", text(), sandbox.WriteOptions{})
		},
		"write, /tmp": func(ctx context.Context, f manager.Share) error {
			return f.Write(ctx, "/tmp/new", text(), sandbox.WriteOptions{})
		},
		"write, /agent": func(ctx context.Context, f manager.Share) error {
			return f.Write(ctx, "/agent/new", text(), sandbox.WriteOptions{})
		},
		"exclusive":   func(ctx context.Context, f manager.Share) error { return f.CreateExclusive(ctx, "new", text(), 0o644) },
		"mkdir":       func(ctx context.Context, f manager.Share) error { return f.Mkdir(ctx, "new", 0o755) },
		"mkdir -p":    func(ctx context.Context, f manager.Share) error { return fsbridge.MkdirAll(ctx, f, "a/b", 0o755) },
		"remove":      func(ctx context.Context, f manager.Share) error { return f.Remove(ctx, "dir/file", false) },
		"remove tree": func(ctx context.Context, f manager.Share) error { return f.Remove(ctx, "dir", true) },
		"clear":       func(ctx context.Context, f manager.Share) error { return f.Clear(ctx, "dir") },
		"rename":      func(ctx context.Context, f manager.Share) error { return f.Rename(ctx, "dir", "other") },
		"move":        func(ctx context.Context, f manager.Share) error { return fsbridge.Move(ctx, f, "dir/file", "other") },
		"copy":        func(ctx context.Context, f manager.Share) error { return fsbridge.Copy(ctx, f, "dir", "other") },
		"symlink":     func(ctx context.Context, f manager.Share) error { return f.Symlink(ctx, "dir", "other") },
		"by host's path": func(ctx context.Context, f manager.Share) error {
			return f.Inside().Write(ctx, "/workspace/new", text(), sandbox.WriteOptions{})
		},
		"without links": func(ctx context.Context, f manager.Share) error {
			plain, err := f.WithoutLinks()
			if err == nil {
				err = plain.Write(ctx, "/workspace/new", text(), sandbox.WriteOptions{})
			}
			return err
		},
		"unpack": func(ctx context.Context, f manager.Share) error {
			return copy.Unpack(ctx, io.NopCloser(bytes.NewReader(archive.Bytes())), copy.Target{Files: f, Dir: "/workspace"}, &copy.Tally{})
		},
	} {
		t.Run(name, func(t *testing.T) { refused(t, withFiles(t, m, "s", do)) })
	}
	s, err := m.Open(t.Context(), manager.Request{Who: who("s")})
	must(t, err)
	refused(t, s.Files.Write(t.Context(), "new", text(), sandbox.WriteOptions{}))
	must(t, s.Close())

	must(t, withFiles(t, m, "s", func(ctx context.Context, f manager.Share) error {
		for _, name := range []string{"dir/file", "/agent/kept"} {
			r, err := f.Read(ctx, name, 0, -1)
			must(t, err)
			r.Close()
		}
		list, err := f.ReadDir(ctx, ".")
		if len(list) != 2 {
			t.Errorf("the workspace holds %v", list)
		}
		return err
	}))
}

// TestReadOnlyAccessOfBrowsers holds that downloads come into no workspace where
// workspaceAccess is ro.
func TestReadOnlyAccessOfBrowsers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for access, want := range map[string]sandbox.Code{"none": "", "ro": sandbox.CodeDenyTool, "rw": ""} {
		agent := t.TempDir()
		must(t, os.Chown(agent, 12345, 12345))
		m := r.manager(`{"agents": {"defaults": {"sandbox": {"workspaceAccess": "` + access + `", "browser": {"enabled": true, "allowDownloads": true}}}, "list": [{"id": "main", "workspace": "` + agent + `"}]}}`)
		place, err := m.BrowserWorkspace(t.Context(), who(access), nil)
		must(t, err)
		if got := sandbox.CodeOf(place.Refusal); place.Refusal == nil != (want == "") || want != "" && got != want {
			t.Errorf("%s: %v", access, place.Refusal)
		}
	}
}
