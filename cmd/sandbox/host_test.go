package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// throughDaemon are the scripts of the command line that say the same when a
// daemon carries their commands out, up to where they are about the machine
// itself; and one about daemons.
var throughDaemon = []string{
	"testdata/host/host.txtar", "testdata/host/media.txtar", "testdata/host/checkpoint.txtar", "testdata/host/changes.txtar", "testdata/docker/run.txtar", "testdata/docker/terminal.txtar",
}

// throughDaemonToo are more scripts of that kind, which "make test" runs without a
// daemon alone: what the daemon does for them has tests in its own packages.
var throughDaemonToo = []string{
	"testdata/docker/account.txtar", "testdata/docker/cp.txtar", "testdata/docker/files.txtar", "testdata/docker/reach.txtar",
	"testdata/docker/shell.txtar",
}

// TestHostScripts runs scripts with SANDBOX_HOST set to a daemon that serves
// their state folder.
func TestHostScripts(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	testscript.Run(t, hostParams(t, throughDaemon...))
}

// TestMoreHostScripts runs more scripts in that way.
func TestMoreHostScripts(t *testing.T) {
	t.Parallel()
	testenv.Exhaustive(t, "scripts of the command line again, through a daemon")
	testenv.Require(t, "docker")
	testscript.Run(t, hostParams(t, throughDaemonToo...))
}

// TestHostBrowserScript has a daemon keep a real browser.
func TestHostBrowserScript(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "browser")
	testscript.Run(t, hostParams(t, "testdata/host/browser.txtar"))
}

// hostParams are those of scripts with a daemon.
func hostParams(t *testing.T, files ...string) testscript.Params {
	p := params(t, "")
	p.Files = files
	p.Condition = func(cond string) (bool, error) {
		switch cond {
		case "host":
			return true, nil
		case "root":
			return os.Geteuid() == 0, nil
		}
		return false, errors.New("unknown condition " + cond)
	}
	inner := p.Setup
	p.Setup = func(e *testscript.Env) error {
		if err := inner(e); err != nil {
			return err
		}
		return startDaemon(e)
	}
	return p
}

// startDaemon has a daemon serve the script's state folder until the script has
// ended, with the settings that the script has in daemon.json.
func startDaemon(e *testscript.Env) error {
	sock := e.WorkDir + "/state/daemon.sock"
	cmd := exec.Command(daemonProgram, "serve")
	cmd.Env = append(os.Environ(), e.Vars...)
	if settings := e.WorkDir + "/daemon.json"; fileExists(settings) {
		cmd.Env = append(cmd.Env, "SANDBOX_CONFIG="+settings)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	e.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt) // one that has ended needs none
		if err := <-ended; err != nil || strings.Contains(said.String(), "panic") {
			e.T().Log("the daemon ended with", err, said.String())
			e.T().FailNow()
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("unix", sock)
		if err == nil {
			e.Setenv("SANDBOX_HOST", "unix:"+sock)
			return c.Close()
		}
		select {
		case err := <-ended:
			ended <- err
			return err
		default:
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
