package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// childrenOf returns the children of a process, as the host numbers them.
func childrenOf(t testing.TB, pid int) (list []int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(t, err)
	var words []string
	for _, file := range threads {
		b, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		words = append(words, strings.Fields(string(b))...)
	}
	for _, word := range words {
		var child int
		if _, err := fmt.Sscan(word, &child); err != nil {
			t.Fatal(err)
		}
		list = append(list, child)
	}
	return list
}

// TestStageKilledDuringLaunch holds that a program whose shim died before it
// could report is not left running: its client has heard of a failure. A long
// PATH stretches the moment between fork and exec.
func TestStageKilledDuringLaunch(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	run(t, c, sh("true"))
	ended := make(chan error, 1)
	go func() {
		p, err := c.Start(context.Background(), sandbox.Command{
			Args: []string{"sleep", "1000"}, Env: map[string]string{"PATH": strings.Repeat("/x:", 30_000) + "/usr/bin:/bin"},
		})
		if err == nil {
			_, err = p.Wait()
		}
		ended <- err
	}()
	eventually(t, 20*time.Second, "a stage was killed over its child", func() bool {
		for _, stage := range childrenOf(t, g.pid()) {
			if len(childrenOf(t, stage)) > 0 {
				return syscall.Kill(stage, syscall.SIGKILL) == nil
			}
		}
		return false
	})
	if err := <-ended; err == nil {
		t.Fatal("the command has succeeded")
	}
	g.empty(10 * time.Second)
	if got := run(t, c, sh("echo next")); got.stdout != "next\n" {
		t.Errorf("the next command: %+v", got)
	}
}
