//go:build linux

package local_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// states returns the state of each process below pid, and of pid itself, with its
// command line.
func states(t *testing.T, pid int) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	parent, state := map[int]int{}, map[int]string{}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		parent[n], _ = strconv.Atoi(f[1])
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		state[n] = f[0] + " " + strings.ReplaceAll(string(line), "\x00", " ")
	}
	out := map[int]string{}
	for n := range state {
		for at := n; at > 1; at = parent[at] {
			if at == pid {
				out[n] = state[n]
			}
		}
	}
	return out
}

// frozenGroup reports whether the control group of the process is frozen.
func frozenGroup(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	path, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "0::")
	if err != nil || !ok {
		return false
	}
	b, err = os.ReadFile(filepath.Join("/sys/fs/cgroup", path, "cgroup.events"))
	return err == nil && strings.Contains(string(b), "frozen 1")
}

// TestPause holds that every process of a paused sandbox stops, whatever it does
// about that, that each provider of the state folder sees it, and that those go on
// that ran before, and no others.
func TestPause(t *testing.T) {
	r := newRig(t)
	p, other := r.provider(t), r.provider(t)
	s := leaveLandlock(r.spec("a"))
	sb := r.open(p, s)
	at := func(name string) string { return filepath.Join(s.Mounts[3].Source, name) }
	ctx := t.Context()
	_, err := sb.Start(ctx, sandbox.Command{Detach: true, Args: []string{"sh", "-c", `
		trap "" TERM INT TSTP TTIN TTOU
		(i=0; while :; do i=$((i+1)); echo $i > n; done) &
		setsid sh -c '(i=0; while :; do i=$((i+1)); echo $i > m; done) &' &
		hop() { echo >> hops; hop & }
		for k in 1 2 3 4 5 6 7 8; do hop; done
		sh -c 'echo $$ > stopped; kill -STOP $$; : > woke; sleep 1000' &
		S=$!; (while [ ! -e goon ]; do sleep 0.05; done; kill -CONT $S) &
		wait`}})
	must(t, err)
	var out bytes.Buffer
	running, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", "read x; echo got $x"}, Stdin: strings.NewReader("it\n"), Stdout: &out})
	must(t, err)
	pid := sb.Info().PID
	testenv.Until(t, "all of it runs", func() bool {
		for _, name := range []string{"n", "m", "stopped"} {
			if b, err := os.ReadFile(at(name)); err != nil || len(b) == 0 {
				return false
			}
		}
		own := 0
		for _, state := range states(t, pid) {
			if strings.HasPrefix(state, "T ") {
				own++
			}
		}
		return own == 1
	})
	for range 5 {
		must(t, p.Pause(ctx, s.Name))
		must(t, other.Pause(ctx, s.Name)) // it is left alone
		if info, err := other.Inspect(ctx, s.Name); err != nil || info.Status != sandbox.StatusPaused {
			t.Fatalf("%+v, %v", info, err)
		}
		first := states(t, pid)
		if len(first) < 6 {
			t.Errorf("there are only %v", first)
		}
		for n, state := range first {
			if !strings.HasPrefix(state, "T ") && !strings.HasPrefix(state, "Z ") && !strings.HasPrefix(state, "D ") && !frozenGroup(n) {
				t.Errorf("%d is in the state %s", n, state)
			}
		}
		before, err := os.ReadFile(at("n"))
		must(t, err)
		hops, err := os.Stat(at("hops"))
		must(t, err)
		time.Sleep(100 * time.Millisecond) // in which nothing happens
		if now, _ := os.ReadFile(at("n")); string(now) != string(before) {
			t.Errorf("it went on from %s to %s", before, now)
		}
		if now, err := os.Stat(at("hops")); err != nil || now.Size() != hops.Size() {
			t.Errorf("processes that have others take their place went on: %v, %v", now, err)
		}
		must(t, other.Unpause(ctx, s.Name))
		must(t, p.Unpause(ctx, s.Name)) // a running one is left alone
		testenv.Until(t, "it goes on", func() bool {
			now, err := os.ReadFile(at("n"))
			return err == nil && len(now) > 0 && string(now) != string(before)
		})
		if info, err := p.Inspect(ctx, s.Name); err != nil || info.Status != sandbox.StatusRunning {
			t.Fatalf("%+v, %v", info, err)
		}
	}
	if exit, err := running.Wait(); err != nil || exit.Code != 0 || out.String() != "got it\n" {
		t.Errorf("a command that was paused: %+v, %v, %q", exit, err, out.String())
	}
	if _, err := os.Stat(at("woke")); err == nil {
		t.Error("a process that had stopped by itself goes on")
	}
	if text, code := sh(t, sb, ": > goon"); code != 0 {
		t.Error(text)
	}
	testenv.Until(t, "it is continued", func() bool { _, err := os.Stat(at("woke")); return err == nil })
	must(t, p.Pause(ctx, s.Name))
	root, err := launch.Of(pid)
	must(t, err)
	must(t, other.Remove(ctx, s.Name))
	if alive(t, root) || len(states(t, pid)) > 0 {
		t.Errorf("after the removal of a paused sandbox there are %v", states(t, pid))
	}
}

// TestPauseOfWhatIsDown holds that there is nothing to freeze where nothing runs.
func TestPauseOfWhatIsDown(t *testing.T) {
	r := newRig(t)
	p := r.provider(t)
	s := r.spec("a")
	sb := r.open(p, s)
	must(t, sb.Close())
	must(t, p.Close())
	again := r.provider(t)
	if err := again.Pause(context.Background(), s.Name); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Error(err)
	}
	must(t, again.Unpause(context.Background(), s.Name))
}
