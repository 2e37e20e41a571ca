package manager_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/copy"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestFilesObeyPaths holds that the files which a caller acquires do nothing that
// the policy for paths denies, whatever name the file is given, and that names
// and everything else stay as they are.
func TestFilesObeyPaths(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(`{"agents": {"defaults": {"sandbox": {"filesystem": {"denyRead": ["private"], "denyWrite": ["frozen"]}}}}}`)
	must(t, withFiles(t, m, "s", func(ctx context.Context, f manager.Share) error {
		for _, name := range []string{"plain", "tree/plain", "repo/hooks/inner"} {
			must(t, f.Write(ctx, name, strings.NewReader("text"), sandbox.WriteOptions{}))
		}
		for name, target := range map[string]string{
			"alias": ".env", "absolute": "/workspace/.env", "up": "tree/../.env", "chain": "alias", "into": ".git/hooks", "folder": "private", "harmless": "plain",
		} {
			must(t, f.Symlink(ctx, target, name))
		}
		return nil
	}))
	dirs, err := filepath.Glob(filepath.Join(r.state.Workspaces(), "sbx-*"))
	must(t, err)
	if len(dirs) != 1 {
		t.Fatalf("workspaces: %q", dirs)
	}
	for _, name := range []string{".env", "tree/.env", "private/x"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dirs[0], name)), 0o777))
		must(t, os.WriteFile(filepath.Join(dirs[0], name), []byte("secret"), 0o666))
	}
	write := func(name string) func(context.Context, manager.Share) error {
		return func(ctx context.Context, f manager.Share) error {
			return f.Write(ctx, name, strings.NewReader("x"), sandbox.WriteOptions{})
		}
	}
	read := func(name string) func(context.Context, manager.Share) error {
		return func(ctx context.Context, f manager.Share) error {
			c, err := f.Read(ctx, name, 0, -1)
			if err == nil {
				c.Close()
			}
			return err
		}
	}
	closed := map[string]func(context.Context, manager.Share) error{
		"read":                        read(".env"),
		"read, absolute":              read("/workspace/.env"),
		"read, dots":                  read("./tree/../.env"),
		"read, host's name":           read(dirs[0] + "/.env"),
		"read, link":                  read("alias"),
		"read, absolute link":         read("absolute"),
		"read, link with dots":        read("up"),
		"read, chain of links":        read("chain"),
		"read, below a linked folder": read("folder/x"),
		"list":                        func(ctx context.Context, f manager.Share) error { _, err := f.ReadDir(ctx, "private"); return err },
		"list, link":                  func(ctx context.Context, f manager.Share) error { _, err := f.ReadDir(ctx, "folder"); return err },
		"write":                       write(".env"),
		"write, below":                write("private/deep/x"),
		"write, denyWrite":            write("frozen/x"),
		"write, link":                 write("alias"),
		"write, dangling chain":       write("chain"),
		"write, hook":                 write(".git/hooks/pre-commit"),
		"write, hook by link":         write("into/pre-commit"),
		"write, config":               write("tree/.git/config"),
		"write, worktree's config":    write(".git/config.worktree"),
		"write, agent":                write(".claude/settings.json"),
		"exclusive": func(ctx context.Context, f manager.Share) error {
			return f.CreateExclusive(ctx, ".env", strings.NewReader(""), 0)
		},
		"mkdir":                    func(ctx context.Context, f manager.Share) error { return f.Mkdir(ctx, "frozen", 0o755) },
		"mkdir, hooks":             func(ctx context.Context, f manager.Share) error { return fsbridge.MkdirAll(ctx, f, "into/deep", 0o755) },
		"remove":                   func(ctx context.Context, f manager.Share) error { return f.Remove(ctx, ".env", false) },
		"remove tree":              func(ctx context.Context, f manager.Share) error { return f.Remove(ctx, "tree", true) },
		"clear tree":               func(ctx context.Context, f manager.Share) error { return f.Clear(ctx, "tree") },
		"rename from":              func(ctx context.Context, f manager.Share) error { return f.Rename(ctx, ".env", "x") },
		"rename to":                func(ctx context.Context, f manager.Share) error { return f.Rename(ctx, "plain", ".env") },
		"rename to, by link":       func(ctx context.Context, f manager.Share) error { return f.Rename(ctx, "plain", "into/pre-commit") },
		"rename of a tree with it": func(ctx context.Context, f manager.Share) error { return f.Rename(ctx, "tree", "other") },
		"rename that makes hooks":  func(ctx context.Context, f manager.Share) error { return f.Rename(ctx, "repo", ".git") },
		"symlink":                  func(ctx context.Context, f manager.Share) error { return f.Symlink(ctx, "plain", ".claude") },
		"copy":                     func(ctx context.Context, f manager.Share) error { return fsbridge.Copy(ctx, f, ".env", "x") },
		"without links": func(ctx context.Context, f manager.Share) error {
			plain, err := f.WithoutLinks()
			if err == nil {
				_, err = plain.Read(ctx, "/workspace/.env", 0, -1)
			}
			return err
		},
		"inside, paying": func(ctx context.Context, f manager.Share) error {
			_, err := f.Inside().Read(ctx, "/workspace/.env", 0, -1)
			return err
		},
	}
	for name, do := range closed {
		t.Run(name, func(t *testing.T) {
			err := withFiles(t, m, "s", do)
			if !fsbridge.IsClosed(err) || sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !strings.Contains(err.Error(), "(") {
				t.Errorf("got %v; want %s with path and rule", err, sandbox.CodeCapabilityBlocked)
			}
		})
	}
	t.Run("what is open", func(t *testing.T) {
		must(t, withFiles(t, m, "s", func(ctx context.Context, f manager.Share) error {
			for _, name := range []string{"plain", "harmless", "tree/plain"} {
				must(t, read(name)(ctx, f))
			}
			must(t, write("harmless")(ctx, f))
			_, err := f.Stat(ctx, ".env")
			must(t, err)
			list, err := f.ReadDir(ctx, ".")
			must(t, err)
			var names []string
			for _, e := range list {
				names = append(names, e.Name())
			}
			if !strings.Contains(strings.Join(names, " "), ".env") {
				t.Errorf("the listing hides names: %q", names)
			}
			must(t, f.Rename(ctx, "repo", "renamed"))
			return f.Remove(ctx, "renamed", true)
		}))
	})
	t.Run("an archive leaves out what is closed, and says so", func(t *testing.T) {
		must(t, withFiles(t, m, "s", func(ctx context.Context, f manager.Share) error {
			var tally copy.Tally
			var archive bytes.Buffer
			must(t, copy.Pack(ctx, copy.Source{Files: f, Path: "tree"}, "", &archive, &tally))
			left := tally.Left()
			if len(left) != 1 || !strings.HasSuffix(left[0].Path, "tree/.env") || !strings.Contains(left[0].Reason, "closed") {
				t.Errorf("left out: %+v", left)
			}
			if bytes.Contains(archive.Bytes(), []byte("secret")) {
				t.Error("the archive holds the secret")
			}
			if err := copy.Pack(ctx, copy.Source{Files: f, Path: ".env"}, "e", io.Discard, &tally); !fsbridge.IsClosed(err) {
				t.Errorf("the closed file itself: %v", err)
			}
			return nil
		}))
	})
	t.Run("a tree that comes in leaves out what is closed, and says so", func(t *testing.T) {
		dir := t.TempDir()
		for name, text := range map[string]string{"a": "1", ".git/hooks/pre-commit": "evil", ".git/HEAD": "ref: x", "z": "2"} {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		root, err := os.OpenRoot(dir)
		must(t, err)
		defer root.Close()
		from := fsbridge.NewHostFiles(root, dir)
		must(t, withFiles(t, m, "s", func(ctx context.Context, f manager.Share) error {
			var tally copy.Tally
			must(t, copy.Copy(ctx, copy.Source{Files: from, Path: "."}, copy.Target{Files: f, Dir: "/workspace/in", Name: ""}, &tally))
			if left := tally.Left(); len(left) != 2 || tally.Count().Files != 3 { // the folder and what is in it
				t.Errorf("left out: %+v, counted %+v", left, tally.Count())
			}
			for name, want := range map[string]error{"in/a": nil, "in/z": nil, "in/.git/HEAD": nil, "in/.git/hooks/pre-commit": fs.ErrNotExist} {
				if _, err := f.Stat(ctx, name); (err != nil) != (want != nil) {
					t.Errorf("%s: %v", name, err)
				}
			}
			err := copy.Copy(ctx, copy.Source{Files: from, Path: "."}, copy.Target{Files: f, Dir: "/workspace", Name: ".claude"}, &tally)
			if !fsbridge.IsClosed(err) {
				t.Errorf("a tree with a closed name: %v", err)
			}
			return nil
		}))
	})
}
