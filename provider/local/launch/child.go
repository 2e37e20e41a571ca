//go:build linux

package launch

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/guest/server"
)

// A child is a process that this one has started. It is used in place of
// os.Process because the first of those costs a program one more fork.
type child struct {
	pid int

	mu     sync.Mutex
	reaped bool // the number may be that of another process by now
}

// start starts program, with files as its descriptors from 0 on and nothing
// else of ours. The calling thread is its parent.
//
// Its session is one of its own: what a terminal sends to its programs, such
// as the interrupt that a command in the instance may want to handle, must not end
// the instance, and nothing of the instance has our terminal. The signal that the
// guest wants blocked from its start on is blocked already, so that it need
// not start twice.
func start(program string, argv []string, files []*os.File, as *syscall.Credential) (*child, error) {
	return startWith(program, argv, files, as, syscall.SIGKILL)
}

// startWith is start for a child that gets the signal when the thread ends; 0 is none.
func startWith(program string, argv []string, files []*os.File, as *syscall.Credential, death syscall.Signal) (*child, error) {
	if err := server.Block(server.Stop); err != nil {
		return nil, err
	}
	defer server.Unblock(server.Stop)
	attr := &syscall.ProcAttr{
		Dir: "/", Env: []string{},
		Sys: &syscall.SysProcAttr{Pdeathsig: death, Setsid: true, Credential: as},
	}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	pid, _, err := syscall.StartProcess(program, argv, attr)
	runtime.KeepAlive(files)
	if err != nil {
		return nil, &os.PathError{Op: "execute", Path: program, Err: err}
	}
	return &child{pid: pid}, nil
}

// wait returns when the process has ended.
func (c *child) wait() {
	for { // and leave its number where it is until no caller can mean it any more
		err := unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		_, err := unix.Wait4(c.pid, nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.reaped = true
}

// kill ends the process unless it has ended.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = unix.Kill(c.pid, unix.SIGKILL)
	}
}

// onThread runs f on a thread that it has for itself, that is not the first
// one of the process, and that ends with f. What /proc shows of the process is
// what its first thread sees, and that thread cannot end.
func onThread(f func()) {
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			onThread(f) // on another one, because this one is taken
			runtime.UnlockOSThread()
			close(locked)
			return
		}
		close(locked)
		f() // and the thread ends with the goroutine that has it
	}()
	<-locked
}

// soonOnThread is [onThread] and does not wait until there is the thread.
func soonOnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			onThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
}
