package violation_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
)

// TestHostileOutput checks that the work is bounded whatever a command writes.
func TestHostileOutput(t *testing.T) {
	big := func(s string) []byte { return []byte(strings.Repeat(s, 10<<20/len(s))) }
	for name, out := range map[string][]byte{
		"one line":       big("a"),
		"one word":       big("/"),
		"quotes":         big(" '"),
		"quoted words":   big(" '/home/u/x"),
		"typed quotes":   big(" ‘"),
		"line feeds":     big("\n"),
		"escapes":        big("\x1b["),
		"colons":         big(": "),
		"denied names":   big("cat: /home/u/x: Permission denied\n"),
		"names":          big("/home/u/1 /home/u/2 /home/u/3 "),
		"backslashes":    big(" '\\"),
		"invalid":        big("\xff\xe2"),
		"denials":        big("permission denied: /home/u/x: "),
		"tags":           big("<sandbox_violations"),
		"tags with rest": big("</ / /sandbox_violations>"),
	} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := processor(t)
			j := &rules{}
			f := violation.Classify(j, violation.Ending{Exit: sandbox.Exit{Code: 1}, Dir: "/workspace", Stderr: out})
			if took := processor(t) - start; took > 5*time.Second {
				t.Errorf("judged in %s", took)
			}
			if len(f.Violations) > violation.MaxViolations || j.asked > 1<<10 {
				t.Errorf("%d violations, %d questions", len(f.Violations), j.asked)
			}
			start = processor(t)
			if got := violation.Strip(violation.Annotate(out, f.Violations)); !slices.Equal(got, out) {
				t.Error("it does not come back as it was")
			}
			if took := processor(t) - start; took > 10*time.Second {
				t.Errorf("annotated and back in %s", took)
			}
		})
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
