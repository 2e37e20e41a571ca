package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

// tree makes a folder with the folders real and target, and the link link in
// real that leads to target. It returns its canonical path.
func tree(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "real"), 0o755), os.Mkdir(filepath.Join(root, "target"), 0o755),
		os.Symlink("../target", filepath.Join(root, "real/link"))); err != nil {
		t.Fatal(err)
	}
	return root
}

func isEmpty(t *testing.T, dir string) bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries) == 0
}

func TestEnsureAllowedAgentAsksFirst(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		field string
	}{
		{"a refusal", &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Field: "f", Message: "no"}, "f"},
		{"another error", errors.New("no"), "agents.list[].workspace"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t)
			asked := ""
			_, _, err := EnsureAllowedAgent(filepath.Join(root, "real/link/new/er"), sandbox.AccessRW, someone(), func(canonical string) error {
				asked = canonical
				return tt.err
			})
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != sandbox.CodeCapabilityBlocked || e.Field != tt.field || !errors.Is(err, tt.err) {
				t.Errorf("error %v", err)
			}
			if want := filepath.Join(root, "target/new/er"); asked != want {
				t.Errorf("asked about %s, want %s", asked, want)
			}
			if !isEmpty(t, filepath.Join(root, "target")) {
				t.Error("something was made although it is not allowed")
			}
		})
	}
}

func TestEnsureAllowedAgentMakesWhatWasAllowed(t *testing.T) {
	root, o := tree(t), someone()
	for range 2 {
		asked := ""
		got, owner, err := EnsureAllowedAgent(filepath.Join(root, "real/link/new/er"), sandbox.AccessRW, o, func(canonical string) error {
			asked = canonical
			return nil
		})
		if err != nil || got != asked || got != filepath.Join(root, "target/new/er") || owner != o {
			t.Fatalf("%s for %v, %v; asked about %s", got, owner, err, asked)
		}
		if st := stat(t, got); int(st.Uid) != o.UID || st.Mode&0o7777 != 0o755 {
			t.Errorf("uid %d, mode %o", st.Uid, st.Mode)
		}
		if st := stat(t, filepath.Dir(got)); int(st.Uid) != os.Geteuid() {
			t.Errorf("the parent belongs to %d", st.Uid)
		}
	}
}

func TestEnsureAllowedAgentFollowsNoLinkThatCameMeanwhile(t *testing.T) {
	for _, tt := range []struct{ name, dir, swapped string }{
		{"parent", "real/sub/new", "real/sub"},
		{"parent above what is missing", "real/sub/new/er", "real"},
		{"the folder itself", "real/sub", "real/sub"},
		{"missing parent", "real/none/new", "real/none"},
	} {
		for _, access := range []sandbox.Access{sandbox.AccessRW, sandbox.AccessRO} {
			t.Run(tt.name+" for "+string(access), func(t *testing.T) {
				root := tree(t)
				if err := os.Mkdir(filepath.Join(root, "real/sub"), 0o755); err != nil {
					t.Fatal(err)
				}
				before := stat(t, filepath.Join(root, "target"))
				_, _, err := EnsureAllowedAgent(filepath.Join(root, tt.dir), access, someone(), func(string) error {
					at := filepath.Join(root, tt.swapped)
					_ = os.Rename(at, at+".old")
					return os.Symlink(filepath.Join(root, "target"), at)
				})
				wantError(t, err, sandbox.CodeCapabilityBlocked, "became a link")
				if after := stat(t, filepath.Join(root, "target")); after.Uid != before.Uid || !isEmpty(t, filepath.Join(root, "target")) {
					t.Error("the link was followed")
				}
			})
		}
	}
}

func TestEnsureAllowedAgentLeavesDanglingLinksToTheCheck(t *testing.T) {
	root := tree(t)
	if err := os.Symlink("../target/none", filepath.Join(root, "real/dangling")); err != nil {
		t.Fatal(err)
	}
	asked := ""
	_, _, err := EnsureAllowedAgent(filepath.Join(root, "real/dangling"), sandbox.AccessRO, someone(), func(c string) error { asked = c; return unix.EPERM })
	wantError(t, err, sandbox.CodeCapabilityBlocked, "")
	if asked != filepath.Join(root, "target/none") || !isEmpty(t, filepath.Join(root, "target")) {
		t.Errorf("asked about %s", asked)
	}
}
