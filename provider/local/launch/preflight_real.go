package launch

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// RealHost returns this machine; bwrap names the program, empty for the one
// in PATH.
func RealHost(bwrap string) Host {
	return Host{
		OS: runtime.GOOS, UID: os.Geteuid(), Bwrap: bwrap,
		ReadFile: os.ReadFile, LookPath: exec.LookPath, SetID: setID, Run: run, Landlock: landlockVersion, Filters: filterSupport, Groups: FindGroups,
	}
}

func setID(path string) (bool, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return fi.Mode()&os.ModeSetuid != 0, nil
}

const (
	maxOutput = 16 << 10 // bytes that are kept of a program's output

	// drainWithin bounds how long output is read of a program that has ended,
	// should another process keep the pipe open.
	preflightDrainWithin = 30 * time.Second
)

// run runs name in an empty environment, without standard input and, when we
// are root, as the user nobody.
func run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = []string{"LC_ALL=C"}, "/"
	cmd.WaitDelay = preflightDrainWithin
	asNobody(cmd)
	var out bounded
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxOutput-b.Len())])
	return len(p), nil
}
