package workspace

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// A rig is a media folder, a workspace, and what brings files from one to the
// other.
type rig struct {
	folder, work string
	src          *Folders
	stager       *mediaStager
}

// owner is whom the tests give files to: root can give them to anybody.
func owner() Owner {
	if os.Geteuid() == 0 {
		return Owner{UID: 0x70000001, GID: 0x70000001}
	}
	return Owner{UID: os.Geteuid(), GID: os.Getegid()}
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return rigIn(t, base, filepath.Join(base, "work"), change...)
}

// rigIn makes a rig whose media folder lies in base and whose workspace is work.
func rigIn(t *testing.T, base, work string, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{folder: filepath.Join(base, "received"), work: work}
	must(t, os.MkdirAll(r.folder, 0o755))
	must(t, os.MkdirAll(r.work, 0o755))
	var err error
	r.src, err = NewFolders(r.folder)
	must(t, err)
	o := Options{Workspace: r.work, Owner: owner()}
	for _, c := range change {
		c(&o)
	}
	r.stager, err = New(o)
	must(t, err)
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes a file into the media folder and returns its ref.
func (r *rig) put(t *testing.T, name, content string) string {
	t.Helper()
	p := filepath.Join(r.folder, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(content), 0o600))
	return p
}

func (r *rig) stage(t *testing.T, refs ...string) ([]Staged, error) {
	t.Helper()
	return r.stager.Stage(t.Context(), r.src, refs)
}

// host is where s lies on the host.
func (r *rig) host(t *testing.T, s Staged) string {
	t.Helper()
	rel, ok := strings.CutPrefix(s.Path, sandbox.WorkspaceDir+"/")
	if !ok || !strings.HasPrefix(s.Path, InboundDir+"/") {
		t.Fatalf("%q does not lie below %s", s.Path, InboundDir)
	}
	return filepath.Join(r.work, rel)
}

// inbound lists what lies in the folder that files are staged in.
func (r *rig) inbound(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.work, "media/inbound"))
	if os.IsNotExist(err) {
		return nil
	}
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func wantCode(t *testing.T, what string, err error, code sandbox.Code) {
	t.Helper()
	if sandbox.CodeOf(err) != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// source is a Source by a function.
type source func(ctx context.Context, ref string) (io.ReadCloser, Info, error)

func (s source) Open(ctx context.Context, ref string) (io.ReadCloser, Info, error) {
	return s(ctx, ref)
}
