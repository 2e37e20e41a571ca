package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// TestFloodedSocket lets code inside flood the guest's socket so that dials
// from outside fail, and holds that the folder is not opened for that: an
// open folder is room on the host's disk without a bound.
func TestFloodedSocket(t *testing.T) {
	r := dockertest.New(t)
	sb, s := r.Open("flood")
	const flood = `
import os, socket
for i in range(40):
    if os.fork() == 0:
        while True:
            c = socket.socket(socket.AF_UNIX)
            c.setblocking(False)
            try: c.connect("/.sandbox/run/guest.sock")
            except OSError: pass
            try: os.open("/.sandbox/run/filler", os.O_CREAT | os.O_WRONLY)
            except OSError: pass
            else: os._exit(0)
import time; time.sleep(60)
`
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"python3", "-c", flood}})
	must(t, err)
	for range 6 {
		open, done := context.WithTimeout(ctx, 20*time.Second)
		other, err := r.P.Open(open, s)
		if err != nil {
			t.Logf("open under the flood: %v", err) // slow is allowed, open is not
		} else {
			other.Close()
		}
		done()
	}
	cancel()
	p.Wait()
	if _, err := os.Lstat(filepath.Join(socketOf(s), "filler")); !os.IsNotExist(err) {
		t.Error("code inside could make a file in the socket's folder")
	}
	if out, _ := sh(t, r.Reopen(s), "echo back"); out != "back" {
		t.Errorf("afterwards: %q", out)
	}
}
