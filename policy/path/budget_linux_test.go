package path_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/policy/path"
)

// TestJudgeGlobIsBounded holds that no pattern costs much. The bound is
// generous, and of the processor, so that it holds on a busy machine too.
func TestJudgeGlobIsBounded(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := compiled(t, path.Options{DenyRead: []string{"**/*a*b*c*d*e", "/**/x/**/y/**/z"}})
	for _, glob := range []string{
		"/" + strings.Repeat("*a", 2000), "/" + strings.Repeat("?*", 2000), strings.Repeat("/*", 120), strings.Repeat("/**", 120), strings.Repeat("/[a-z]*", 120),
		strings.Repeat("/*x*/**", 60), "/home/u/" + strings.Repeat("[!a]", 1000), strings.Repeat("/*", 2000), strings.Repeat("/"+strings.Repeat("*a", 15), 120),
	} {
		start := processor(t)
		d := p.JudgeGlob(write, glob)
		if spent := processor(t) - start; spent > 2*time.Second {
			t.Errorf("%.40s… took %v", glob, spent)
		} else {
			t.Logf("%.20s… %v", glob, spent)
		}
		if d.Verdict == allow {
			t.Errorf("%.40s… is allowed outside of the roots", glob)
		}
	}
}

// processor returns the time that the thread has had of a processor, which
// does not grow because others are busy.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
