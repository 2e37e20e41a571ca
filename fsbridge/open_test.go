package fsbridge_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

// A serving is a local sandbox that is a FileServer.
type serving struct {
	*local
	files sandbox.Files
	err   error
}

func (s serving) Files(context.Context) (sandbox.Files, error) { return s.files, s.err }

// A noted is the files of a server that knows what is less than it could be.
type noted struct{ sandbox.Files }

func (noted) Note() string { return "weaker here" }

func TestOpenChoosesTransport(t *testing.T) {
	box := &local{bin: toolbox(t, "dash")}
	unsupported := &sandbox.Error{Code: sandbox.CodeUnsupported}
	down := &sandbox.Error{Code: sandbox.CodeUnavailable}
	for _, c := range []struct {
		name string
		sb   sandbox.Sandbox
		by   sandbox.FSTransport
		want string
		why  string
		note string
		code sandbox.Code
	}{
		{"server", serving{local: box, files: noted{}}, "", fsbridge.TransportGuest, "the guest serves files", "weaker here", ""},
		{"no server", box, sandbox.FSAuto, fsbridge.TransportScript, "the sandbox serves no files itself", "the sandbox serves no files itself", ""},
		{"server that cannot", serving{local: box, err: unsupported}, sandbox.FSAuto, fsbridge.TransportScript, "the guest cannot serve files", "the guest cannot serve files", ""},
		{"server in trouble", serving{local: box, err: down}, sandbox.FSAuto, "", "", "", sandbox.CodeUnavailable},
		{"guest chosen", serving{local: box, files: noted{}}, sandbox.FSGuest, fsbridge.TransportGuest, "fsTransport is guest", "weaker here", ""},
		{"guest chosen, no server", box, sandbox.FSGuest, "", "", "", sandbox.CodeUnsupported},
		{"guest chosen, server that cannot", serving{local: box, err: unsupported}, sandbox.FSGuest, "", "", "", sandbox.CodeUnsupported},
		{"guest chosen, server in trouble", serving{local: box, err: down}, sandbox.FSGuest, "", "", "", sandbox.CodeUnavailable},
		{"script chosen", serving{local: box, files: noted{}}, sandbox.FSScript, fsbridge.TransportScript, "fsTransport is script", "", ""},
		{"script chosen, server in trouble", serving{local: box, err: down}, sandbox.FSScript, fsbridge.TransportScript, "fsTransport is script", "", ""},
		{"an unknown word", serving{local: box, files: noted{}}, "Guest", "", "", "", sandbox.CodeValidation},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := fsbridge.OpenBy(t.Context(), c.by, c.sb, nil, nil)
			if sandbox.CodeOf(err) != c.code {
				t.Fatalf("%v, want %q", err, c.code)
			}
			if err != nil {
				if e, is := errors.AsType[*sandbox.Error](err); c.code != sandbox.CodeUnavailable && (!is || e.Field != "fsTransport" || e.Hint == "") {
					t.Errorf("the error names no setting or nothing to do: %#v", err)
				}
				return
			}
			if got := b.Transport(); got.Name != c.want || got.Reason != c.why || got.Note != c.note {
				t.Errorf("transport %+v, want %s, %q, %q", got, c.want, c.why, c.note)
			}
		})
	}
}

func TestMissingUtilities(t *testing.T) {
	_, err := fsbridge.Open(t.Context(), &local{bin: toolbox(t, "dash", "stat", "wc")}, nil, nil)
	if sandbox.CodeOf(err) != sandbox.CodeUnsupported || !strings.Contains(err.Error(), "stat, wc") {
		t.Errorf("without stat and wc: %v", err)
	}
}

// TestWithoutSync holds that a write says that it is not durable, and works.
func TestWithoutSync(t *testing.T) {
	work := ownFolder(t)
	mounts := []sandbox.Mount{{Source: work, Target: work, Role: sandbox.RoleBind}}
	b, err := fsbridge.Open(t.Context(), &local{bin: toolbox(t, "dash", "sync", "link")}, mounts, nil)
	must(t, err)
	if got := b.Transport(); got.Durable || !strings.Contains(got.Note, "writes are not durable: no sync FILE") {
		t.Errorf("transport %+v", got)
	}
	must(t, b.Write(t.Context(), work+"/f", strings.NewReader("x"), sandbox.WriteOptions{}))
	// Without link, too, exclusive creation is exclusive.
	must(t, b.CreateExclusive(t.Context(), work+"/g", strings.NewReader("x"), 0))
	if err := b.CreateExclusive(t.Context(), work+"/g", strings.NewReader("y"), 0); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the second creation: %v", err)
	}
	// A caller that chose scripts gets no write that is weaker than the guest's.
	strict, err := fsbridge.OpenBy(t.Context(), sandbox.FSScript, &local{bin: toolbox(t, "dash", "sync", "link")}, mounts, nil)
	must(t, err)
	err = strict.Write(t.Context(), work+"/f", strings.NewReader("y"), sandbox.WriteOptions{})
	if e, is := errors.AsType[*sandbox.Error](err); !is || e.Code != sandbox.CodeUnsupported || e.Field != "fsTransport" || e.Hint == "" {
		t.Errorf("a write that is not durable: %v", err)
	}
	if got := strict.Transport(); got.Durable || !strings.Contains(got.Note, "writes are refused") {
		t.Errorf("transport %+v", got)
	}
	for _, name := range []string{"f", "g"} {
		if got, err := os.ReadFile(filepath.Join(work, name)); err != nil || string(got) != "x" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestReadOnlyMount holds that nothing is even started for a change there.
func TestReadOnlyMount(t *testing.T) {
	work := ownFolder(t)
	mounts := []sandbox.Mount{{Source: work, Target: work, Role: sandbox.RoleBind, ReadOnly: true}}
	b, err := fsbridge.Open(t.Context(), &local{bin: toolbox(t, "dash")}, mounts, nil)
	must(t, err)
	ctx := t.Context()
	for name, err := range map[string]error{
		"write":   b.Write(ctx, work+"/f", strings.NewReader("x"), sandbox.WriteOptions{}),
		"mkdir":   b.Mkdir(ctx, work+"/d", 0),
		"remove":  b.Remove(ctx, work+"/f", true),
		"rename":  b.Rename(ctx, work+"/f", work+"/g"),
		"symlink": b.Symlink(ctx, "x", work+"/l"),
	} {
		if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !errors.Is(err, syscall.EROFS) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFileMount serves a single file that is mounted.
func TestFileMount(t *testing.T) {
	work := ownFolder(t)
	file := filepath.Join(work, "config")
	must(t, os.WriteFile(file, []byte("content"), 0o666))
	must(t, os.WriteFile(filepath.Join(work, "neighbour"), []byte("secret"), 0o666))
	b, err := fsbridge.Open(t.Context(), &local{bin: toolbox(t, "dash")}, []sandbox.Mount{{Source: file, Target: file, Role: sandbox.RoleBind}}, nil)
	must(t, err)
	ctx := t.Context()
	got, err := fs.ReadFile(fsbridge.SubFS(ctx, b, file), ".")
	if err != nil || string(got) != "content" {
		t.Errorf("read: %q, %v", got, err)
	}
	if info, err := b.Stat(ctx, file); err != nil || info.Size() != 7 || info.Name() != "config" {
		t.Errorf("stat: %v, %v", info, err)
	}
	for name, err := range map[string]error{
		"write":     b.Write(ctx, file, strings.NewReader("x"), sandbox.WriteOptions{}),
		"remove":    b.Remove(ctx, file, false),
		"readdir":   func() error { _, err := b.ReadDir(ctx, file); return err }(),
		"below":     func() error { _, err := b.Stat(ctx, file+"/x"); return err }(),
		"neighbour": func() error { _, err := b.Stat(ctx, file+"/../neighbour"); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	must(t, os.Remove(file))
	must(t, os.Symlink("neighbour", file))
	if got, err := fs.ReadFile(fsbridge.SubFS(ctx, b, file), "."); err == nil {
		t.Errorf("a link in the place of the file was followed: %q", got)
	}
}

// ownFolder is a folder that the commands of a local sandbox can write in.
func ownFolder(t testing.TB) string {
	t.Helper()
	dir := openFolder(t)
	must(t, os.Chmod(dir, 0o777))
	return dir
}

func ExampleOpen() {
	// In a program, a provider opens the sandbox, and its Spec has the mounts.
	var sb sandbox.Sandbox = &local{bin: "/nowhere"}
	mounts := []sandbox.Mount{{Source: "/srv/chat-42", Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}}
	_, err := fsbridge.Open(context.Background(), sb, mounts, nil)
	fmt.Println(sandbox.CodeOf(err))
	// Output: TOOL.EXECUTION_FAILED
}

// fullFiles has no room for anything.
type fullFiles struct{ sandbox.Files }

func (fullFiles) Write(_ context.Context, path string, _ io.Reader, _ sandbox.WriteOptions) error {
	return fsbridge.NewError("write", path, syscall.ENOSPC)
}
func (fullFiles) Mkdir(_ context.Context, path string, _ fs.FileMode) error {
	return fsbridge.NewError("mkdir", path, syscall.EDQUOT)
}

// TestFullDisk holds that a full disk of the machine is no budget of the
// sandbox, and that its own bounds are.
func TestFullDisk(t *testing.T) {
	mounts := []sandbox.Mount{
		{Source: "/host/bounded", Target: "/workspace", Role: sandbox.RoleWorkspace},
		{Source: "/host/shared", Target: "/data", Role: sandbox.RoleBind},
	}
	table, err := fsbridge.NewMountTable(mounts, []sandbox.Tmpfs{{Target: "/tmp"}})
	must(t, err)
	plain := fsbridge.New(table, fullFiles{}, fsbridge.Transport{})
	reported := plain.OnDisk(func(host string) bool { return host == "/host/shared" })
	for _, tt := range []struct {
		b    *fsbridge.Bridge
		path string
		want sandbox.Code
	}{
		{reported, "/workspace/f", sandbox.CodeBudgetExceeded},
		{reported, "/data/f", sandbox.CodeUnavailable},
		{reported.Inside(), "/data/f", sandbox.CodeUnavailable},
		{reported, "/tmp/f", sandbox.CodeBudgetExceeded},
		{plain, "/data/f", sandbox.CodeBudgetExceeded},
	} {
		err := tt.b.Write(t.Context(), tt.path, strings.NewReader("x"), sandbox.WriteOptions{})
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != tt.want || !errors.Is(err, syscall.ENOSPC) || e.Retryable != (tt.want == sandbox.CodeUnavailable) {
			t.Errorf("%s: %v, want %s", tt.path, err, tt.want)
		}
	}
	if err := reported.Mkdir(t.Context(), "/data/d", 0o700); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded { // a quota says so itself
		t.Errorf("a quota of the disk: %v", err)
	}
}
