// Sftp: this part of the package takes media from other machines, for package media: with the
// host's ssh(1), and the protocol that scp(1) has spoken since OpenSSH 9.0.
//
// It speaks that protocol by package sftp rather than with scp: so content
// streams and can be bounded, a path is never expanded or seen by a shell, on
// neither side, and no file is written on the way. Which machines, whose keys
// and which folders are settings; a ref names one of them and adds nothing to
// ssh's arguments.

package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// DefaultProgram is where ssh lies where Options does not say otherwise.
const defaultProgram = "/usr/bin/ssh"

const (
	maxComplaint = 4 << 10 // bytes that are kept of what ssh says

	// endDelay bounds how long that is read once ssh has ended, should another
	// process keep the pipe open.
	endDelay = 30 * time.Second
)

// Options say which machines files may come from.
type SFTPOptions struct {
	Hosts   []Host
	Program string // absolute path of ssh; empty is DefaultProgram
}

// A Remote is the [media.Source] of files on other machines. A ref is
// "host:/path": the name of a Host, and the path of a regular file below one
// of its folders, no part of it below the folder being a link. It is safe for
// concurrent use; each file that is open has a process of its own.
type Remote struct{ o SFTPOptions }

var _ Source = (*Remote)(nil)

// New returns the source, and CodeValidation with the field of o at fault.
func NewSFTP(o SFTPOptions) (*Remote, error) {
	if len(o.Hosts) == 0 {
		return nil, sftpInvalid("Hosts", "no host is named, so that nothing could be taken")
	}
	seen := map[string]bool{}
	for i, h := range o.Hosts {
		field := fmt.Sprintf("Hosts[%d]", i)
		if err := h.check(field); err != nil {
			return nil, err
		}
		if seen[h.Name] {
			return nil, sftpInvalid(field+".Name", "%q is named twice", h.Name)
		}
		seen[h.Name] = true
	}
	if o.Program == "" {
		o.Program = defaultProgram
	}
	if !path.IsAbs(o.Program) {
		return nil, sftpInvalid("Program", "%q is no absolute path", o.Program)
	}
	return &Remote{o: o}, nil
}

// Open implements [media.Source]. It waits until the file is open on the
// other side; the end of ctx ends ssh with all that it has started, now and
// while the file is read. Closing the file does too.
func (r *Remote) Open(ctx context.Context, ref string) (io.ReadCloser, Info, error) {
	h, folder, rel, err := parse(r.o.Hosts, ref)
	if err != nil {
		return nil, Info{}, err
	}
	l, err := dial(ctx, r.o.Program, h)
	if err != nil {
		return nil, Info{}, l.explain(ref, err)
	}
	s, err := newSession(l.out, l.in)
	if err == nil {
		l.session = s
		var f *file
		if f, err = s.open(folder, rel); err == nil {
			return &mediaOpen{file: f, line: l, ref: ref}, Info{Name: path.Base(rel), Size: f.size}, nil
		}
	}
	l.end()
	return nil, Info{}, l.explain(ref, err)
}

// An open is a remote file that is being read.
type mediaOpen struct {
	file *file
	line *line
	ref  string
}

func (o *mediaOpen) Read(p []byte) (int, error) {
	n, err := o.file.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		o.line.end()
		err = o.line.explain(o.ref, err)
	}
	return n, err
}

func (o *mediaOpen) Close() error {
	o.line.end()
	return nil
}

// A line is a running ssh.
type line struct {
	host      string
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       io.ReadCloser
	session   *session // or nil
	complaint *tail
	cancel    context.CancelFunc
	ended     func() error // why the caller's context has ended, or nil
	once      sync.Once
}

// dial starts ssh in a process group of its own, with no environment but a
// search path.
func dial(ctx context.Context, program string, h Host) (*line, error) {
	caller := ctx
	l := &line{host: h.Name, complaint: &tail{}, ended: func() error { return context.Cause(caller) }}
	ctx, l.cancel = context.WithCancel(ctx)
	l.cmd = exec.CommandContext(ctx, program, h.arguments()...)
	l.cmd.Dir = "/"
	l.cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	l.cmd.Cancel = func() error { return syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL) }
	l.cmd.WaitDelay = endDelay
	l.cmd.Stderr = l.complaint
	var err error
	if l.in, err = l.cmd.StdinPipe(); err == nil {
		l.out, err = l.cmd.StdoutPipe()
	}
	if err == nil {
		err = l.cmd.Start()
	}
	if err != nil {
		l.cancel()
	}
	return l, err
}

// end kills ssh and what it has started, and waits for it. Nothing is lost:
// all that it does for us is reading.
func (l *line) end() {
	l.once.Do(func() {
		_ = l.in.Close()
		l.cancel()
		_ = l.cmd.Wait() // it was killed, or has said why it ended
		if l.session != nil {
			l.session.Close()
		}
	})
}

// explain turns a failure into an error that says what caused it. Of ssh's own
// output, which may hold text of the server, the error quotes the last line,
// made safe.
func (l *line) explain(ref string, err error) error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: opFetch, Resource: ref, Err: err, Retryable: true}
	e.Message = fmt.Sprintf("cannot read %q", ref)
	switch ended := l.ended(); {
	case ended != nil:
		e.Code, e.Message, e.Err = sandbox.CodeTimeout, fmt.Sprintf("%s did not answer in time", l.host), ended
	case errors.Is(err, fs.ErrNotExist) && l.cmd.Process != nil:
		e.Code, e.Message, e.Err, e.Retryable = sandbox.CodeNotFound, fmt.Sprintf("there is no %q", ref), nil, false
	case errors.Is(err, errLink), errors.Is(err, errNoFile), errors.Is(err, fs.ErrPermission), errors.Is(err, errRefused):
		e.Code, e.Retryable = sandbox.CodeCapabilityBlocked, false
	case l.cmd.Process == nil:
		e.Message, e.Hint, e.Retryable = "cannot start ssh", "install openssh-client", false
	default:
		if words := l.complaint.last(); words != "" {
			e.Message = fmt.Sprintf("cannot reach %s, ssh says: %s", l.host, words)
			e.Hint = "check the address, the key and the known_hosts file of that host"
		}
	}
	return e
}

// A tail keeps the end of what is written to it. It is safe for concurrent
// use.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxComplaint; over > 0 {
		t.kept = append([]byte(nil), t.kept[over:]...)
	}
	return len(p), nil
}

// last returns the last line, fit to be shown.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.kept))
	return termsafe.Truncate(text[strings.LastIndexByte(text, '\n')+1:], 200)
}
