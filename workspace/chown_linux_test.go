package workspace

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGivingIsNoCureForAll checks that the error of a chown that fails for want
// of descriptors or room does not advise the user to do it by hand.
func TestGivingIsNoCureForAll(t *testing.T) {
	for err, want := range map[error]string{
		unix.EMFILE: "ulimit -n", unix.ENOSPC: "full", unix.EROFS: "read-only", unix.EPERM: "sudo chown -R 7:8 /w", unix.EINVAL: "user namespace",
	} {
		got := chownError("/w", Owner{7, 8}, fmt.Errorf("open: %w", err)).Error()
		if !strings.Contains(got, want) || err != unix.EPERM && strings.Contains(got, "chown") {
			t.Errorf("%v: %s", err, got)
		}
	}
}
