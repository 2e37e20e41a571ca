package client_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"golang.org/x/sys/unix"
)

// A provider dials the socket in the folder that it has mounted into the
// sandbox, makes sure that the sandbox's first process listens there, and runs
// commands.
func Example() {
	run := func(ctx context.Context, folder string, firstPID int) error {
		conn, pid, err := client.Dial(ctx, folder, "guest.sock")
		if err != nil {
			return err
		}
		if pid != firstPID {
			conn.Close()
			return fmt.Errorf("process %d listens, not the guest", pid)
		}
		c, err := client.New(ctx, conn, client.Options{Dir: sandbox.WorkspaceDir})
		if err != nil {
			return err
		}
		defer c.Close()
		p, err := c.Start(ctx, sandbox.Command{Args: []string{"make", "test"}, Stdout: os.Stdout, Stderr: os.Stderr})
		if err != nil {
			return err
		}
		exit, err := p.Wait()
		fmt.Println(exit.Code)
		return err
	}
	fmt.Println(sandbox.CodeOf(run(context.Background(), "/no/such/folder", 1)))
	// Output: PROVIDER.UNAVAILABLE
}

// TestInheritedConnection runs a guest that is not process 1 over a socket
// pair, as a provider without an engine does. It needs no privileges.
func TestInheritedConnection(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.SetNonblock(pair[0], true)) // before NewFile, which looks
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	cmd := exec.Command(binary.path(t), "init", "--fd=3")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{theirs}, os.Stderr
	must(t, cmd.Start())
	theirs.Close()
	c, err := client.New(context.Background(), ours, client.Options{})
	must(t, err)
	if got := run(t, c, sh("echo hello; exit 3")); got.stdout != "hello\n" || got.exit.Code != 3 {
		t.Errorf("got %+v", got)
	}
	_, _ = start(t, context.Background(), c, sh("setsid sleep 1003 & echo ready; wait"))
	if children(t, cmd.Process.Pid) == 0 {
		t.Error("nothing runs below the guest")
	}
	c.Close()
	must(t, cmd.Wait()) // its connection was all it lived for
	if found, _ := exec.Command("pgrep", "-f", "sleep 1003").Output(); len(found) != 0 {
		t.Errorf("left: %s", found)
	}
}

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"version"}, 0, "1\n"},
		{nil, 2, ""},
		{[]string{"nonsense"}, 2, ""},
		{[]string{"init", "--nonsense"}, 1, ""},
		{[]string{"init", "--fd=0"}, 1, ""},
	} {
		cmd := exec.Command(binary.path(t), tt.args...)
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != tt.code || string(out) != tt.out {
			t.Errorf("%q: exit %d, output %q", tt.args, got, out)
		}
	}
	info, err := os.Stat(filepath.Clean(binary.path(t)))
	must(t, err)
	if info.Size() > 4<<20 {
		t.Errorf("the guest has %d bytes", info.Size())
	}
}
