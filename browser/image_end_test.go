package browser_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestImageEndsWithEveryPart checks that the end of one part ends all others.
func TestImageEndsWithEveryPart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ part, find string }{
		"browser":   {"Chromium", "chromium --user-data-dir"},
		"display":   {"Xvfb", "^Xvfb "},
		"VNC":       {"x11vnc", "^x11vnc "},
		"web pages": {"websockify", "websockify --web"},
	} {
		t.Run(name, func(t *testing.T) {
			b := browserBox(t, map[string]string{"HEADLESS": "0", "VNC": "1"})
			// The container may end before it tells how this ends.
			b.try("kill -KILL $(pgrep -o -f -- '" + tc.find + "')")
			status, out := b.end()
			if status != 1 || out != "" || !strings.Contains(b.stderr.String(), "sandbox-browser: "+tc.part+" has ended by itself, with status 137\n") {
				t.Errorf("status %d, output %q, errors %q", status, out, b.stderr)
			}
		})
	}
}

func TestImageEndsOnSignal(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"TERM", "INT"} {
		t.Run(signal, func(t *testing.T) {
			if signal != "TERM" {
				testenv.Exhaustive(t, "the same by another signal")
			}
			b := browserBox(t, map[string]string{"HEADLESS": "0", "VNC": "1"})
			begun := time.Now()
			b.signal(signal)
			status, out := b.end()
			if status != 0 || out != "" || b.stderr.String() != "" {
				t.Errorf("status %d, output %q, errors %q", status, out, b.stderr)
			}
			t.Logf("ended, and the container with it, in %v", time.Since(begun))
		})
	}
}

// TestImageLeavesNothing checks that neither processes nor files outlive an
// instance that was ended, and that the next one starts, also after one that
// was killed.
func TestImageLeavesNothing(t *testing.T) {
	t.Parallel()
	b := idle(t)
	const start = `exec 2>/dev/null
coproc supervisor { exec sandbox-browser; }
read -r line <&"${supervisor[0]}"; [ "$line" = ready ] || exit 9
touch "$HOME/.sandbox-browser/profile/trace"
pid=$supervisor_PID
`
	const left = `for i in $(seq 200); do
	ps -eo stat=,comm= | grep -v -e '^Z' -e bash -e sleep -e seq -e ps -e grep -e docker-init -e tini >/tmp/left || break
	sleep 0.05
done
cat /tmp/left; rm /tmp/left
`
	out := b.sh("export SANDBOX_BROWSER_HEADLESS=0 SANDBOX_BROWSER_VNC=1\n" + start + `begun=${EPOCHREALTIME/./}
kill -TERM "$pid"; wait "$pid"; echo "status $?"
echo "$((${EPOCHREALTIME/./} - begun))" >/run/took
` + left + `ls -A "$HOME" /tmp; ls -A /run/sandbox-browser`)
	if want := "status 0\n/home/sandbox:\n\n/tmp:\n.X11-unix\nlock\nlog\n"; out != want {
		t.Errorf("left:\n%s\nwant:\n%s", out, want)
	}
	took, err := strconv.Atoi(strings.TrimSpace(b.sh("cat /run/took")))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ended in %d ms", took/1000)
	// It waits for 1.7 s at most, as [TestImageEndsInTime] checks; the rest
	// depends on the load of the machine.
	if took > 60_000_000 {
		t.Errorf("it took %d ms to end", took/1000)
	}

	if out := b.sh(start + "kill -KILL $pid\n" + left); out != "" {
		t.Errorf("the death of the supervisor leaves %s", out)
	}
	if out := b.sh(start + `ls "$HOME/.sandbox-browser/profile" | grep -c trace; kill -TERM "$pid"; wait "$pid"; echo "status $?"`); out != "1\nstatus 0\n" {
		t.Errorf("started again: %s", out)
	}
}

// TestImageEndsInTime checks that the wait for parts that do not end is
// measured by the clock, and not by a number of pauses, each of which takes
// long on a busy machine: there are few pauses if each takes half a second.
func TestImageEndsInTime(t *testing.T) {
	t.Parallel()
	b := idle(t)
	// The script's shell uses exported functions.
	out := b.sh(`exec 2>/dev/null
sleep() { echo >>/run/pauses; command sleep 0.5; }
export -f sleep
coproc supervisor { exec sandbox-browser; }
read -r line <&"${supervisor[0]}"; [ "$line" = ready ] || exit 9
pid=$supervisor_PID
pkill -STOP -P "$pid" || exit 8
: >/run/pauses
begun=${EPOCHREALTIME/./}
kill -TERM "$pid"; wait "$pid"; echo "$? $((${EPOCHREALTIME/./} - begun)) $(wc -l </run/pauses)"`)
	var status, took, pauses int
	if _, err := fmt.Sscan(out, &status, &took, &pauses); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	t.Logf("ended in %d ms, with %d pauses", took/1000, pauses)
	if status != 0 || pauses > 5 { // there could be 40
		t.Errorf("it took %d pauses to end, with status %d", pauses, status)
	}
}

// boundsItsLog checks that the end of what parts write is kept, and
// not more than 256 KiB of it.
func boundsItsLog(t *testing.T, b *box) {
	out := b.sh(`(echo the first line; seq 60000) >/proc/$(pgrep -o -f -- 'chromium --user-data-dir')/fd/2
for i in $(seq 400); do
	grep -q '^60000$' /run/sandbox-browser/log && break
	sleep 0.05
done
stat -c %s /run/sandbox-browser/log
grep -c '^60000$' /run/sandbox-browser/log
grep -c 'the first line' /run/sandbox-browser/log
ls /run/sandbox-browser | paste -sd' '`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 || lines[1] != "1" || lines[2] != "0" || lines[3] != "lock log policies" {
		t.Fatalf("the log: %q", lines)
	}
	if size, err := strconv.Atoi(lines[0]); err != nil || size > 256<<10 || size < 64<<10 {
		t.Errorf("the log has %s bytes", lines[0])
	}
}

// TestImageGivesUpInTime checks that a browser which does not answer in time is
// ended.
func TestImageGivesUpInTime(t *testing.T) {
	t.Parallel()
	b := idle(t)
	out, status := b.try(`python3 -c '
import socket, time
s = socket.create_server(("127.0.0.1", 9222))
print("up", flush=True); time.sleep(60)' >/tmp/up 2>/dev/null &
until grep -q up /tmp/up; do sleep 0.05; done
exec sandbox-browser`)
	if status != 1 || !strings.Contains(out, "another program listens at port 9222") {
		t.Errorf("status %d, %q", status, out)
	}
	// The script's shell uses exported functions: this one replaces the
	// browser by a program that never answers.
	b = idle(t)
	out, status = b.try(`setsid() { exec /usr/bin/setsid sleep infinity; }
export -f setsid
exec sandbox-browser`, "SANDBOX_BROWSER_START_TIMEOUT=1")
	if status != 1 || !strings.Contains(out, "Chromium did not answer within SANDBOX_BROWSER_START_TIMEOUT=1 seconds") {
		t.Errorf("status %d, %q", status, out)
	}
	if out, status := b.try("pgrep -fx 'sleep infinity'"); status != 1 {
		t.Errorf("it goes on: status %d, %q", status, out)
	}
}
