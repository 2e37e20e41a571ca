package sdk_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// built has the programs of this tree, beside each other, for all tests.
var built = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "sandbox-sdk-"); err != nil {
		return "", err
	}
	for _, name := range []string{"sandbox", "sandbox-guest"} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "urfave_cli_no_docs", "-o", filepath.Join(dir, name), "github.com/bulkhead-dev/sandbox/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return dir, nil
})

// TestMain has the examples use settings, state and a guest of their own.
func TestMain(m *testing.M) {
	dir, err := built()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "settings.json"), []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for name, value := range map[string]string{
		"SANDBOX_GUEST": filepath.Join(dir, "sandbox-guest"), "SANDBOX_CONFIG": filepath.Join(dir, "settings.json"), "SANDBOX_STATE_DIR": filepath.Join(dir, "state"),
	} {
		os.Setenv(name, value)
	}
	status := m.Run()
	if err := testenv.Find(testenv.Patience); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "the tests have passed, and goroutines stay behind:", err)
		status = 1
	}
	os.RemoveAll(dir)
	os.Exit(status)
}

// daemon starts "sandbox serve" with global flags and returns its address.
func daemon(t *testing.T, flags ...string) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "d.sock")
	cmd := exec.Command(filepath.Join(dir, "sandbox"), append(flags, "--state-dir", t.TempDir(), "serve", "--listen", "unix:"+socket)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon: %v\n%s", err, said.String())
		}
	})
	testenv.Until(t, "the daemon listens", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return "unix:" + socket
}
