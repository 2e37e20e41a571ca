package hostscan

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestMountsAreWhole verifies that the text of a namespace with many mounts is
// complete, however much the kernel returns at a time.
func TestMountsAreWhole(t *testing.T) {
	for try := 0; ; try++ {
		want, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		got, err := MountTable()
		if err == nil && got == string(want) {
			break
		}
		if err != nil || try == 20 { // other programs mount meanwhile too
			t.Fatalf("%d bytes, %v, want %d", len(got), err, len(want))
		}
	}
	testenv.Require(t, "root")
	const mounts = 400
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt "+strconv.Itoa(mounts)+" ]; do mount -t tmpfs name$i "+t.TempDir()+" || exit 1; i=$((i+1)); done; echo ready; exec sleep 60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	time.AfterFunc(50*time.Second, func() { cmd.Process.Kill() })
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	w, err := OpenMountWatch(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for range 2 { // from the beginning each time
		want, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.Text(); err != nil || got != string(want) || strings.Count(got, "\n") < mounts {
			t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
		}
	}
}
