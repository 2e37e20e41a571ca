//go:build linux || darwin

package sandboxexec

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// A group is a process group that can be ended without harm to others: a process
// of ours leads it, and the number is not given to another group before that
// process has been collected. Code inside cannot signal it, because a profile
// lets processes signal those of their own sandbox alone.
//
// The leader ends the group when this program dies, however that happens.
type group struct {
	leader *exec.Cmd
	held   *os.File // write end of the leader's input

	mu   sync.Mutex
	gone bool // the leader was collected
}

// lead waits for the end of its input and ends its group. It heeds none of the
// signals that [sandbox.Process] passes on.
const lead = `trap '' HUP INT QUIT TERM USR1 USR2 TSTP; read -r x; kill -9 0`

func newGroup() (*group, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	g := &group{held: w, leader: &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", lead}, Env: []string{}, Dir: "/", Stdin: r, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}}
	if err := g.leader.Start(); err != nil {
		w.Close()
		return nil, err
	}
	return g, nil
}

// join has the process that cmd starts be one of the group.
func (g *group) join(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.leader.Process.Pid}
}

// signal signals all processes of the group; that there are none is no failure.
func (g *group) signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.gone {
		_ = syscall.Kill(-g.leader.Process.Pid, sig)
	}
}

// end ends all processes of the group.
func (g *group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return
	}
	_ = syscall.Kill(-g.leader.Process.Pid, syscall.SIGKILL)
	_ = g.leader.Wait() // by the signal
	g.gone = true
	g.held.Close()
}
