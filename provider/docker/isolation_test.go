package docker_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// twoSessions are two handles on one sandbox, as two sessions of a shared
// scope hold them, where the kernel can keep their commands apart.
func twoSessions(t *testing.T, key string, test func(t *testing.T, w *dockertest.Rig, a, b sandbox.Sandbox)) {
	t.Helper()
	overBoth(t, key, func(t *testing.T, w *dockertest.Rig, s sandbox.Spec) {
		ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
		defer done()
		c, err := client.New(ctx, rawConn(t, w, s), client.Options{})
		must(t, err)
		hello := c.Hello()
		c.Close()
		if !hello.Has(wire.FeatureIsolateProc) || !hello.Has(wire.FeatureIsolateSignal) {
			testenv.Lack(t, "landlock", hello.Degraded)
		}
		test(t, w, w.Reopen(s), w.Reopen(s))
	})
}

// attack tries everything that a process can do to another one of its user,
// and says what worked. It spares itself and its own children.
const attack = `
tried=0
for pid in $(ls /proc | grep '^[0-9]*$'); do
	test $pid = $$ && continue
	test "$(awk '{print $4}' /proc/$pid/stat 2>/dev/null)" = $$ && continue
	name=$(tr '\0' ' ' </proc/$pid/cmdline) 2>/dev/null
	test -z "$name" && continue
	case $name in *"ls /proc"*|*"grep ^"*) continue;; esac
	tried=$((tried+1))
	readlink /proc/$pid/fd/1 >/dev/null 2>&1 && echo "looked at descriptors of $pid $name"
	for fd in 0 1 2 3 4 5 6 7 8 9; do
		(echo forged >/proc/$pid/fd/$fd) 2>/dev/null && echo "wrote fd $fd of $pid $name"
		(timeout 1 head -c1 </proc/$pid/fd/$fd) >/dev/null 2>&1 && echo "read fd $fd of $pid $name"
	done
	cat /proc/$pid/environ >/dev/null 2>&1 && echo "environ of $pid $name"
	head -c1 /proc/$pid/mem >/dev/null 2>&1 && echo "mem of $pid $name"
	(echo >/proc/$pid/mem) 2>/dev/null && echo "wrote mem of $pid $name"
	ls /proc/$pid/cwd/ /proc/$pid/root/ >/dev/null 2>&1 && echo "cwd of $pid $name"
	prlimit --pid $pid --cpu=1:1 2>/dev/null && echo "limited $pid $name"
	for sig in 0 STOP CONT TERM INT HUP SEGV ABRT KILL; do kill -$sig $pid 2>/dev/null && echo "sent $sig to $pid $name"; done
	test $pid = 1 && continue # its group would be everybody, which comes last
	kill -KILL -$pid 2>/dev/null && echo "killed the group of $pid $name"
done
kill -9 -1 2>/dev/null # may say that it worked
test $tried -ge 3 && echo tried`

// TestTwoSessionsApart has a command of one session attack those of another:
// it can neither read nor forge their output, nor signal them, nor reach the
// stages and relays that carry them.
func TestTwoSessionsApart(t *testing.T) {
	t.Parallel()
	twoSessions(t, "apart", func(t *testing.T, w *dockertest.Rig, a, b sandbox.Sandbox) {
		out := &watched{seen: make(chan struct{})}
		victim, err := a.Start(context.Background(), sandbox.Command{
			Args: []string{"sh", "-c", `echo ready; read line; echo "got $line"; sleep 86411 & wait`},
			Env:  map[string]string{"SECRET": "hunter2"}, Stdin: &lateReader{after: out.seen, text: "input\n", hold: make(chan struct{})}, Stdout: out,
		})
		must(t, err)
		soon(t, 30*time.Second, "the victim runs", func() bool { return strings.Contains(out.String(), "got input") })
		var before map[int]string
		soon(t, 30*time.Second, "its child is what it is to be", func() bool {
			before = insideOf(t, a.Info().PID)
			for _, name := range before {
				if strings.HasPrefix(name, "sleep 86411") {
					return true
				}
			}
			return false
		})
		if got, _ := sh(t, b, attack); got != "tried" {
			t.Errorf("got through:\n%s", got)
		}
		for pid, name := range before {
			if insideOf(t, a.Info().PID)[pid] != name {
				t.Errorf("%q is gone", name)
			}
		}
		if got, _ := sh(t, a, "echo works"); got != "works" {
			t.Errorf("the victim's session: %q", got)
		}
		must(t, victim.Kill(context.Background()))
		if exit, err := victim.Wait(); err != nil || exit.Signal != "KILL" {
			t.Errorf("%+v, %v", exit, err)
		}
		if out.String() != "ready\ngot input\n" {
			t.Errorf("the victim's output: %q", out)
		}
		emptied(t, a.Info().PID)
	})
}

// lateReader gives text once after is closed, and no end before hold is.
type lateReader struct {
	after <-chan struct{}
	text  string
	hold  chan struct{}
}

func (r *lateReader) Read(p []byte) (int, error) {
	<-r.after
	if r.text == "" {
		<-r.hold // for ever: the command ends first
	}
	n := copy(p, r.text)
	r.text = r.text[n:]
	return n, nil
}

// ways are those out of a process group that user code knows. %d makes the
// sleeps of one command known. One that begins again and again leaves all of them
// behind, so it is slow enough for two to stay below the limit of processes.
var ways = map[string]string{
	"child":       `sleep %d & echo ready; wait`,
	"setsid":      `setsid sleep %d & sleep 0.1; echo ready; wait`,
	"double fork": `(setsid sh -c "sleep %d & sleep $((%[1]d+1)) &" &); sleep 0.1; echo ready; sleep 86499`,
	"deaf":        `trap '' TERM HUP INT; setsid sleep %d & echo ready; while :; do sleep 1; done`,
	"daemon":      `(setsid setsid sh -c 'exec sleep %d' </dev/null >/dev/null 2>&1 &); sleep 0.1; echo ready; sleep 86499`,
	"respawns":    `setsid sh -c 'while :; do setsid sleep %d & sleep 0.4; done' & sleep 0.1; echo ready; wait`,
}

// escaping starts a command that escapes in that way, and reports whether it
// was ready to before it ended. A nil Process is one that ctx ended at its start.
func escaping(ctx context.Context, t testing.TB, sb sandbox.Sandbox, way string, mark int) (sandbox.Process, bool) {
	t.Helper()
	out := &watched{seen: make(chan struct{})}
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", fmt.Sprintf(way, mark)}, Stdout: out})
	if ctx.Err() != nil && sandbox.CodeOf(err) == sandbox.CodeTimeout {
		return nil, false
	}
	must(t, err)
	ended := make(chan struct{})
	go func() { p.Wait(); close(ended) }()
	select {
	case <-out.seen:
		return p, true
	case <-ended:
		return p, false
	}
}

// timesOut lets such a command run into a deadline, and reports whether it was
// ready before.
func timesOut(t testing.TB, sb sandbox.Sandbox, way string, mark int, within time.Duration) bool {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), within)
	defer done()
	p, ready := escaping(ctx, t, sb, way, mark)
	if p != nil {
		waited(t, p, within+time.Minute, "")
	}
	if ctx.Err() == nil {
		t.Fatal("the command ended before its deadline")
	}
	return ready
}

// TestTwoSessionsTimeouts lets the command of one session run into its
// timeout: all of its escapees die, and none of the other session's, which
// escaped in the same way; then those die with theirs.
func TestTwoSessionsTimeouts(t *testing.T) {
	t.Parallel()
	twoSessions(t, "timeouts", func(t *testing.T, w *dockertest.Rig, a, b sandbox.Sandbox) {
		const first, second = 86420, 86430
		for name, way := range ways {
			t.Run(name, func(t *testing.T) {
				if name != "double fork" && strings.Contains(t.Name(), "/relay/") {
					testenv.Exhaustive(t, "other ways of escape through the relay")
				}
				count := func(mark int) (n int) {
					for _, line := range insideOf(t, a.Info().PID) {
						if strings.HasPrefix(line, fmt.Sprintf("sleep %d", mark/10)) {
							n++
						}
					}
					return n
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				other, ready := escaping(ctx, t, b, way, second)
				if !ready {
					t.Fatal("the other command has ended")
				}
				soon(t, time.Minute, "the other command has escaped", func() bool { return count(second) > 0 })
				// A deadline by which it has not escaped says nothing: it gets a later one.
				for within, ready := 5*time.Second, false; !ready; within *= 2 {
					if within > 2*patience {
						t.Fatal("it is never ready before its deadline")
					}
					if ready = timesOut(t, a, way, first, within); !ready {
						soon(t, patience, "nothing of that is left", func() bool { return count(first) == 0 })
					} else if n := count(first); n != 0 {
						t.Errorf("%d processes outlived the timeout", n)
					}
				}
				// One that begins again and again may be between two of its processes.
				soon(t, time.Minute, "what the other session runs goes on after the timeout of the first", func() bool { return count(second) > 0 })
				ended := make(chan struct{})
				go func() { other.Wait(); close(ended) }()
				select {
				case <-ended:
					t.Error("the other command has ended")
				default:
				}
				if out, _ := sh(t, b, "echo works"); out != "works" {
					t.Errorf("the other session: %q", out)
				}
				cancel()
				<-ended
				emptied(t, a.Info().PID)
			})
		}
	})
}

// TestTwoSessionsClose closes one session: it takes what it started with it,
// and nothing of the other one.
func TestTwoSessionsClose(t *testing.T) {
	t.Parallel()
	twoSessions(t, "close", func(t *testing.T, w *dockertest.Rig, a, b sandbox.Sandbox) {
		mine, _ := background(t, a, "sh", "-c", fmt.Sprintf(ways["double fork"], 86420))
		theirs, _ := background(t, b, "sh", "-c", fmt.Sprintf(ways["double fork"], 86430))
		runs := func(marks ...int) bool {
			lines := slices.Collect(maps.Values(insideOf(t, b.Info().PID)))
			return !slices.ContainsFunc(marks, func(mark int) bool { return !slices.Contains(lines, fmt.Sprintf("sleep %d ", mark)) })
		}
		soon(t, patience, "all have escaped", func() bool { return runs(86420, 86421, 86430, 86431) })
		must(t, a.Close())
		if _, err := mine.Wait(); err != nil && sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("the closed one's command: %v", err)
		}
		// A guest that is slow to end them is waited for by Close a few seconds.
		soon(t, patience, "what it started is gone", func() bool {
			return !strings.Contains(fmt.Sprint(insideOf(t, b.Info().PID)), "sleep 8642")
		})
		if !runs(86430, 86431) {
			t.Errorf("left: %v", insideOf(t, b.Info().PID))
		}
		must(t, theirs.Kill(context.Background()))
		emptied(t, b.Info().PID)
	})
}
