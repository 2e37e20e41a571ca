package operation_test

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/operation"
)

// TestReleaseHostile releases folders that code inside has made hard to remove,
// beside one of another call.
func TestReleaseHostile(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) *spaceRig{"docker": inDocker, "local": inLocal} {
		t.Run(name, func(t *testing.T) {
			r := make(t)
			other := operation.NewSpaceExecutor(r.files, "/tmp")
			kept := r.allot(other, 1<<20)
			r.sh(`mkdir "$1/d"; printf kept >"$1/d/f"; chmod 500 "$1/d"`, kept)
			for _, tt := range []struct{ name, line string }{
				{"closed folders", `cd "$1"; mkdir -p a/b/c d/e g; printf x >a/b/c/f; printf x >d/e/f; chmod 000 a/b/c a/b a; chmod 500 d/e d; chmod 600 g; chmod 000 .`},
				// Deeper than a path can say.
				{"very deep", `cd "$1"; n=$(printf %0150d 0); i=0; while [ $i -lt 60 ]; do mkdir $n; cd -P $n; i=$((i+1)); done; : >f; [ $i = 60 ]`},
				{"links to what is kept", `cd "$1"; ln -s "$2" l; ln -s "$2/d" d; mkdir e; ln -s "$2/d/f" e/f; ln "$2/d/f" hard; chmod 000 e`},
				{"strange names", `cd "$1"; : >-rf; : >'a
b'; mkdir ' '; : >"$(printf '\377')"; mkfifo p`},
				{"many", `cd "$1"; seq 5000 | xargs touch`},
				{"removed already", `rm -r "$1"`},
				{"a link in its place", `rm -r "$1"; ln -s "$2" "$1"`},
				{"a file in its place", `rm -r "$1"; : >"$1"`},
				{"without mark", `rm -f /tmp/.sbx-*`},
			} {
				t.Run(tt.name, func(t *testing.T) {
					mine := *r
					mine.TB = t
					s := operation.NewSpaceExecutor(r.files, "/tmp")
					dir := mine.allot(s, 1<<20)
					mine.sh(tt.line, dir, kept)
					spaceMust(t, s.Release(t.Context()))
					if got := mine.sh(`ls /tmp; stat -c %a "$1/d"; cat "$1/d/f"`, kept); got != kept[len("/tmp/"):]+"\n500\nkept" {
						t.Errorf("there is %q", got)
					}
				})
			}
			spaceMust(t, other.Release(t.Context()))
			if left := r.sh("ls -A /tmp"); left != "" {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// TestReleaseAgainstWriter releases a folder that a process goes on filling.
func TestReleaseAgainstWriter(t *testing.T) {
	r := inDocker(t)
	s := operation.NewSpaceExecutor(r.files, "/tmp")
	dir := r.allot(s, 64<<20)
	stop := r.background(`cd "$1"; touch ready; while :; do mkdir -p a/b c/d; : >a/b/$i; : >c/d/$i; : >f$i; i=$((i+1)); done`, dir)
	defer stop()
	r.sh(`while [ ! -e "$1/ready" ]; do :; done`, dir)
	spaceMust(t, s.Release(t.Context()))
	if left := r.sh(`ls -A /tmp`); left != "" {
		t.Errorf("left: %q", left)
	}
}

// TestReleaseIsBounded checks that a release that cannot succeed ends, says so,
// and is tried again by the next one; and that the end of the call is no reason
// to leave anything.
func TestReleaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t)
		stubborn := &refusing{Files: r.files}
		s := operation.NewSpaceExecutor(stubborn, "/tmp")
		r.allot(s, 1<<20)
		begin := time.Now()
		r.fails("release", s.Release(t.Context()), sandbox.CodeExecution, "")
		if took := time.Since(begin); took < 10*time.Second || took > 15*time.Second || stubborn.tried < 20 {
			t.Errorf("it was tried %d times in %v", stubborn.tried, took)
		}
		stubborn.code = sandbox.CodeUnavailable
		begin = time.Now()
		r.fails("release in a sandbox that is gone", s.Release(t.Context()), sandbox.CodeUnavailable, "")
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %v", took)
		}
		stubborn.lets = true
		ended, end := context.WithCancel(t.Context())
		end()
		spaceMust(t, s.Release(ended))
		if left, err := r.files.ReadDir(t.Context(), "/tmp"); err != nil || len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

// refusing are files that remove nothing until they are let.
type refusing struct {
	sandbox.Files
	lets  bool
	tried int
	code  sandbox.Code
}

func (f *refusing) Remove(ctx context.Context, path string, recursive bool) error {
	if f.tried++; !f.lets {
		return &sandbox.Error{Code: cmp.Or(f.code, sandbox.CodeExecution), Op: "remove", Message: "not yet"}
	}
	return f.Files.Remove(ctx, path, recursive)
}
