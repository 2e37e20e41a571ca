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
const fewestProcesses = warmThreads + observerThreads + 16

// wall reads the configuration.
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

// settle makes the first stage, and lets commands start once the threads are
// there too.
func (s *Server) settle(c wire.Config, warmed <-chan struct{}) error {
	// Before the stage, which inherits it. It leaves room for our threads,
	// which nobody else takes yet.
	if err := limitProcesses(c.Processes); err != nil {
		return err
	}
	if err := s.firstStage(c); err != nil {
		return err
	}
	<-warmed
	s.pool.open()
	return nil
}

// limitProcesses bounds the processes and threads of our user in the user
// namespace of the wall. A bound that is there already and lower stays.
func limitProcesses(n uint32) error {
	if n == 0 {
		return nil
	}
	if n < fewestProcesses {
		return errors.New("a bound of " + strconv.Itoa(int(n)) + " processes is below the least one, " + strconv.Itoa(fewestProcesses))
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &l); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	l.Max = min(l.Max, uint64(n))
	l.Cur = l.Max
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_NPROC, &l))
}

// setLimits sets limits on us and on all that will be started. Who may not
// raise a hard one keeps the one that there is. Of open files the guest itself
// takes all that it may have.
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

// firstStage makes a stage, or has one be made. With a filter it is waited
// for: a wall that cannot have its filter is not to be served.
func (s *Server) firstStage(c wire.Config) error {
	if c.Filter == nil {
		s.pool.warm()
		return nil
	}
	first, err := s.nursery.start()
	if err != nil {
		return err
	}
	s.pool.put(first)
	return nil
}
