//go:build linux

package launch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Shared order says what to start for an instance that has the namespaces of this
// process.
type Shared struct {
	Guest  string   // absolute path of the program
	Env    []string // of the guest, and what commands are laid over
	Config []byte   // of the guest
	Filter []byte   // seccomp program for guest and commands
	Limits []Limit  // that Config has the guest set
	// UID and GID are the user that root starts the guest as; 0 is our own.
	UID, GID int
}

// StartShared starts an instance that has the namespaces of this process, and returns
// when its first process is known. The guest confines itself by Landlock and the
// filter before it serves. When ctx ends before, or an error is returned, nothing is
// left.
func StartShared(ctx context.Context, o Shared) (_ *Instance, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &Instance{program: o.Guest, ended: make(chan struct{}), stderr: &tail{limit: maxStderr}}
	files := &descriptors{}
	defer files.close()
	defer func() {
		if err != nil {
			for _, f := range []*os.File{w.channel, w.life} {
				if f != nil {
					f.Close()
				}
			}
		}
	}()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the channel of connections: %w", err)
	}
	w.channel = os.NewFile(uintptr(pair[0]), "channel")
	accept := files.add(os.NewFile(uintptr(pair[1]), "channel"))
	info, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer info.Close()
	infoFD := files.add(tell)
	var life *os.File
	if life, w.life, err = os.Pipe(); err != nil {
		return nil, err
	}
	lifeFD := files.add(life)
	config, err := files.memory("config", o.Config)
	if err != nil {
		return nil, err
	}
	filter, err := files.memory("filter", o.Filter)
	if err != nil {
		return nil, err
	}
	argv := []string{
		o.Guest, "landlock", "--config=" + strconv.Itoa(config), "--filter=" + strconv.Itoa(filter), "--info=" + strconv.Itoa(infoFD),
		"--life=" + strconv.Itoa(lifeFD), "--inherit=" + strconv.Itoa(accept),
	}
	for _, kv := range o.Env {
		argv = append(argv, "--env="+kv)
	}
	argv = append(argv, "--", "init", "--accept="+strconv.Itoa(accept), "--config="+strconv.Itoa(config))
	for _, l := range o.Limits {
		if l.Resource == unix.RLIMIT_NOFILE && l.Soft <= math.MaxUint32 {
			argv = append(argv, "--nofile="+strconv.FormatUint(l.Soft, 10))
		}
	}
	if err := w.startShared(o, argv, files); err != nil {
		return nil, &Failed{Program: o.Guest, Cause: err}
	}
	files.close()
	if err = w.learn(ctx, info); err == nil {
		err = raise(w.first.PID, higher(o.Limits))
	}
	if err == nil {
		return w, nil
	}
	w.Kill()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, &Failed{Program: o.Guest, Stderr: w.stderr.String(), Cause: err}
}

// startShared starts the program, which outlives the thread that does: the end of the
// pipe is the end of the instance.
func (w *Instance) startShared(o Shared, argv []string, files *descriptors) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	complaints, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	started := make(chan error, 1)
	all := append([]*os.File{null, null, write}, files.list...)
	onThread(func() {
		var as *syscall.Credential
		if o.UID > 0 {
			err := errors.Join(leaveKeys(), leaveCapabilities())
			if err != nil {
				started <- err
				return
			}
			as = &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)}
		}
		var err error
		w.bwrap, err = startWith(o.Guest, argv, all, as, 0)
		started <- err
	})
	if err := <-started; err != nil {
		complaints.Close()
		return err
	}
	go w.attend(complaints)
	return nil
}

// memory gives a number in the child to a file in memory with that content.
func (d *descriptors) memory(name string, content []byte) (number int, err error) {
	f, err := memory(name)
	if err != nil {
		return 0, err
	}
	if err := fill(f, slices.Clone(content)); err != nil {
		f.Close()
		return 0, err
	}
	return d.add(f), nil
}

// follows is how long what started the guest may take to end when the guest has.
func (w *Instance) follows() time.Duration {
	if w.life != nil {
		return killWithin // it ends what the guest has left
	}
	return 50 * time.Millisecond
}
