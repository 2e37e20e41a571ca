package operation_test

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/operation"
)

func TestAllot(t *testing.T) {
	r := inMemory(t)
	s := operation.NewSpaceExecutor(r.files, "/tmp")
	c := r.call(time.Now().Add(time.Hour))
	out, err := s.Execute(t.Context(), c, allotment(1<<20))
	spaceMust(t, err)
	if !regexp.MustCompile(`^/tmp/sbx-[0-9a-f]{16}$`).MatchString(out.Path) {
		t.Errorf("the folder is %q", out.Path)
	}
	info, err := r.files.Stat(t.Context(), out.Path)
	spaceMust(t, err)
	if !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
	if effects, _ := c.Effects(); len(effects) != 1 || effects[0] != (evidence.Effect{Kind: grant.EffectFilesystem, Path: out.Path}) {
		t.Errorf("effects %+v", effects)
	}
	if other := r.allot(s, 1<<20); other == out.Path {
		t.Error("two folders have one name")
	}
	spaceMust(t, s.Release(t.Context()))
	if left := r.sh("ls -A /tmp"); left != "" {
		t.Errorf("left: %q", left)
	}
	_, err = r.try(s, 1)
	r.fails("after the end", err, sandbox.CodePermissionDeny, "")
	spaceMust(t, s.Release(t.Context()))
}

func TestAllotBounds(t *testing.T) {
	const limit, count = "profile.limits.maxTmpBytes", "space"
	for _, tt := range []struct {
		name              string
		limit, capability int64
		asked             []int64
		field             string // of the refusal of the last one
	}{
		{"one of all", 100, 0, []int64{100}, ""},
		{"one byte too many", 100, 0, []int64{101}, limit},
		{"many that are too much together", 100, 0, []int64{50, 50, 1}, limit},
		{"by the capability", 100, 60, []int64{60, 1}, limit},
		{"overflow", 100, 0, []int64{1, 1<<63 - 1}, limit},
		{"nothing", 100, 0, []int64{0}, limit},
		{"less than nothing", 100, 0, []int64{-1}, limit},
		{"many", 100, 0, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, ""},
		{"too many", 100, 0, []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, count},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := inMemory(t)
			r.limits.MaxTmpBytes, r.bytes = tt.limit, tt.capability
			s := operation.NewSpaceExecutor(r.files, "/tmp")
			for i, n := range tt.asked {
				_, err := r.try(s, n)
				if i == len(tt.asked)-1 && tt.field != "" {
					r.fails("the last", err, sandbox.CodeCapabilityBlocked, tt.field)
				} else {
					spaceMust(t, err)
				}
			}
		})
	}
}

// TestAllotFails checks that what could not be made leaves nothing, and can be
// asked for again.
func TestAllotFails(t *testing.T) {
	r := inMemory(t)
	r.limits.MaxTmpBytes = 100
	s := operation.NewSpaceExecutor(r.files, "/tmp")
	r.sh("chmod 555 /workspace")
	closed := operation.NewSpaceExecutor(r.files, "/workspace")
	_, err := r.try(closed, 100)
	r.fails("in a closed folder", err, sandbox.CodeCapabilityBlocked, "path")
	r.sh("chmod 755 /workspace")
	if left := r.sh("ls -A /workspace"); left != "" {
		t.Errorf("left: %q", left)
	}
	r.allot(closed, 100)
	_, err = s.Execute(t.Context(), r.call(time.Now().Add(time.Hour)), grant.Vetted{Operation: grant.Operation{Kind: grant.OpFsRead}})
	r.fails("another kind", err, sandbox.CodeValidation, "op.kind")
	_, err = r.try(operation.NewSpaceExecutor(r.files, "/nowhere"), 1)
	r.fails("beyond every mount", err, sandbox.CodeCapabilityBlocked, "path")
}

func TestRoom(t *testing.T) {
	r := inMemory(t)
	s := operation.NewSpaceExecutor(r.files, "/tmp")
	const bound = 100 << 10
	dir := r.allot(s, bound)
	other := r.allot(operation.NewSpaceExecutor(r.files, "/tmp"), bound)
	room := func(path string) int64 {
		t.Helper()
		n, within, err := s.Room(t.Context(), path)
		spaceMust(t, err)
		if within != strings.HasPrefix(path, dir) {
			t.Errorf("%s is within: %v", path, within)
		}
		return n
	}
	if got := room(dir + "/f"); got != 96<<10 {
		t.Errorf("of 100 KiB a first file may have %d", got)
	}
	if got := room(dir + "/a/b/f"); got != 88<<10 {
		t.Errorf("below two folders it may have %d", got)
	}
	room("/workspace/f")
	room("/tmp/f")
	room(other[:len(other)-1])
	r.sh(`cd "$1"; printf x >f; mkdir d; ln -s / link; head -c 5000 /dev/zero >d/g`, dir)
	// Five KiB for a byte, a folder (which has no size here) and a link, nine
	// for 5000 bytes, and one for the name of what is to come.
	if got := room(dir + "/h"); got != (100-5-1-5-9-1)/4*4<<10 {
		t.Errorf("beside others a file may have %d", got)
	}
	r.sh(`cd "$1"; i=0; while [ $i -lt 100 ]; do : >e$i; i=$((i+1)); done`, dir)
	if got := room(dir + "/h"); got != 0 {
		t.Errorf("beside a hundred empty files a file may have %d", got)
	}
	for _, path := range []string{other, other + "/f", "/tmp/." + strings.TrimPrefix(other, "/tmp/") + ".until"} {
		if _, _, err := s.Room(t.Context(), path); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
			t.Errorf("%s, of another call: %v", path, err)
		}
	}
	r.sh(`rm -r "$1"`, dir)
	if got := room(dir + "/f"); got != 96<<10 {
		t.Errorf("when all was removed there is room for %d", got)
	}
}

// TestClaim checks that of writes at once none is given what another was.
func TestClaim(t *testing.T) {
	r := inMemory(t)
	s := operation.NewSpaceExecutor(r.files, "/tmp")
	const each = 10 << 10 // which counts 13 KiB
	dir := r.allot(s, 5*13<<10)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var releases []func()
	for range 20 {
		wg.Go(func() {
			release, room, err := s.Claim(t.Context(), dir+"/f", each)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if room >= each {
				releases = append(releases, release)
			}
		})
	}
	wg.Wait()
	if len(releases) > 5 {
		t.Errorf("%d writes were told that there is room for 5", len(releases))
	}
	for _, release := range releases {
		release()
		release()
	}
	for i := range 6 {
		release, room, err := s.Claim(t.Context(), dir+"/f", each)
		spaceMust(t, err)
		if (room >= each) != (i < 5) {
			t.Errorf("write %d is told of %d bytes", i, room)
		}
		if room < each {
			release()
		}
	}
	if _, room, err := s.Claim(t.Context(), "/workspace/f", 1<<40); err != nil || room < 1<<40 {
		t.Errorf("beyond the space: %d, %v", room, err)
	}
}

func TestSweep(t *testing.T) {
	r := inMemory(t)
	s := operation.NewSpaceExecutor(r.files, "/tmp")
	out, err := s.Execute(t.Context(), r.call(time.Now().Add(time.Hour)), allotment(1<<20))
	spaceMust(t, err)
	live := out.Path
	r.sh(`cd "$1"; mkdir -p d/e; printf x >d/e/f`, live)
	// Names that are not ours, marks that say nothing, a mark without folder.
	r.sh(`mkdir sbx-0123456789abcdef sbx-fedcba9876543210 sbx-1111111111111111 sbx-short other
		printf 'temporary space until 1\n' >.sbx-short.until; printf 'temporary space until never\n' >.sbx-fedcba9876543210.until
		printf 'temporary space until 1\n' >.sbx-2222222222222222.until; ln -s .sbx-2222222222222222.until .sbx-1111111111111111.until`)
	removed, err := operation.Sweep(t.Context(), r.files, "/tmp", time.Now())
	spaceMust(t, err)
	if removed != 1 {
		t.Errorf("%d went, want the mark without folder", removed)
	}
	r.sh(`test -f "$1/d/e/f"`, live)
	removed, err = operation.Sweep(t.Context(), r.files, "/tmp", time.Now().Add(time.Hour+2*time.Minute))
	spaceMust(t, err)
	if removed != 1 {
		t.Errorf("%d went, want the one whose call is over", removed)
	}
	want := ".sbx-1111111111111111.until\n.sbx-fedcba9876543210.until\n.sbx-short.until\nother\nsbx-0123456789abcdef\nsbx-1111111111111111\nsbx-fedcba9876543210\nsbx-short\n"
	if left := r.sh("ls -A"); left != want {
		t.Errorf("left: %q", left)
	}
	if n, err := operation.Sweep(t.Context(), r.files, "/workspace/nothing", time.Now()); n != 0 || err != nil {
		t.Errorf("where nothing is: %d, %v", n, err)
	}
	spaceMust(t, s.Release(t.Context()))
}
