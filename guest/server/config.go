//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// fewestProcesses is the least bound of processes under which the guest
// itself can live, with some room for commands.
const fewestProcesses = warmThreads + observerThreads + fewestCommands

// fewestCommands is how many processes and threads commands may have at least.
const fewestCommands = 16

// sandbox reads the configuration.
func (c initConfig) wall() (wire.Config, error) {
	if c.config < 0 {
		return wire.Config{}, nil
	}
	f := os.NewFile(uintptr(c.config), "configuration")
	defer f.Close()
	_, _ = f.Seek(0, io.SeekStart) // a pipe has no start
	body, err := io.ReadAll(io.LimitReader(f, wire.MaxConfig+1))
	if err != nil {
		return wire.Config{}, err
	}
	return wire.DecodeConfig(body)
}

// threadsFor is how many threads more than others a guest needs for c.
func threadsFor(c wire.Config) int {
	if c.Observe {
		return observerThreads
	}
	return 0
}

// A room is what processes and threads of our user there may be.
type room struct {
	commands uint64 // from shims on; 0 is as many as for us
	threads  int    // that have to be made before there are commands
}

// makeRoom bounds the processes and threads of our user in the user namespace
// of the sandbox as c says. A bound that is there already and lower stays.
//
// We need so many threads, at some time, which are made at once where commands
// could take the room for them. Under a bound of ours they get a lower one, and
// no thread is made before it is needed: to make them takes more than a
// millisecond, for which the first command would wait.
func makeRoom(c wire.Config) (room, error) {
	ours := warmThreads + threadsFor(c) + 1 // one more than commands need: the first checks may take one along
	if c.Processes == 0 {
		return room{threads: ours}, nil
	}
	if c.Processes < fewestProcesses {
		return room{}, errors.New("a bound of " + strconv.Itoa(int(c.Processes)) + " processes is below the least one, " + strconv.Itoa(fewestProcesses))
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &l); err != nil {
		return room{}, os.NewSyscallError("getrlimit", err)
	}
	r, limit := roomIn(l.Max, uint64(c.Processes), ours)
	l.Cur, l.Max = limit, limit
	return r, os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_NPROC, &l))
}

// roomIn decides about makeRoom where there may be hard processes now and are to
// be bound, and returns the limit of our own.
func roomIn(hard, bound uint64, ours int) (r room, limit uint64) {
	limit = min(hard, bound)
	if limit < uint64(ours)+fewestCommands {
		return room{threads: ours}, limit
	}
	return room{commands: limit - uint64(ours)}, limit
}

// setLimits sets limits on the guest and on everything that it will start. A
// hard limit that the guest may not raise stays as it is. Of open files the
// guest itself takes all that it may have.
func setLimits(list []wire.Rlimit) error {
	for _, l := range list {
		var have unix.Rlimit
		if err := unix.Getrlimit(int(l.Resource), &have); err != nil {
			return os.NewSyscallError("getrlimit", err)
		}
		want := syscall.Rlimit{Cur: l.Soft, Max: min(l.Hard, have.Max)}
		if l.Resource == unix.RLIMIT_NOFILE {
			want.Cur = want.Max
		}
		want.Cur = min(want.Cur, want.Max)
		// The package that the runtime watches, or it would put the number of
		// open files back when it executes something.
		if err := syscall.Setrlimit(int(l.Resource), &want); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	return nil
}
