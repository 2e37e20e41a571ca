//go:build linux || darwin

package sandboxexec

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// Bounds of following the log.
const (
	maxSeen    = 256 // refusals that are kept of one command
	logPatient = 5 * time.Second
)

// A watch follows the system log for what the profiles of one provider refuse.
// Their tags have a part that code inside cannot know, so no line of the log that
// it has written counts.
type watch struct {
	program, prefix string

	mu    sync.Mutex
	tags  map[string]*sighting
	cmd   *exec.Cmd
	over  bool
	live  bool          // the log is followed
	why   error         // why it is not
	known chan struct{} // closed when live or why is set; nil before the first start
	ended chan struct{}
}

func newWatch(program, prefix string) *watch {
	return &watch{program: program, prefix: prefix, tags: map[string]*sighting{}}
}

// start has the log be followed, if it is not yet, and returns why it cannot be.
func (w *watch) start(ctx context.Context) error {
	w.mu.Lock()
	if w.known == nil && !w.over {
		w.known = make(chan struct{})
		w.launch()
	}
	known := w.known
	w.mu.Unlock()
	if known != nil {
		select {
		case <-known:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(logPatient):
			w.set(false, errors.New(w.program+" says nothing"))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// set notes once whether the log is followed.
func (w *watch) set(live bool, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.known:
	default:
		close(w.known)
	}
	w.live = live
	if !live && w.why == nil {
		w.why = why
	}
}

// launch starts the program. The caller has the lock.
func (w *watch) launch() {
	fail := func(err error) { w.why = err; close(w.known) }
	args, err := plan.LogArgs(w.prefix)
	if err != nil {
		fail(err)
		return
	}
	r, child, err := os.Pipe()
	if err != nil {
		fail(err)
		return
	}
	defer child.Close()
	said := &lastLine{}
	cmd := &exec.Cmd{Path: w.program, Args: args, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Stdout: child, Stderr: said, WaitDelay: time.Second,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if err := cmd.Start(); err != nil {
		r.Close()
		fail(err)
		return
	}
	w.cmd, w.ended = cmd, make(chan struct{})
	go func() {
		w.read(r)
		_ = cmd.Process.Kill()
		err := cmd.Wait()
		r.Close()
		switch text := said.text(); {
		case text != "":
			err = errors.New(text)
		case err == nil:
			err = errors.New(w.program + " has ended")
		}
		w.set(false, err)
		close(w.ended)
	}()
}

// read takes the lines of the log to whom they concern.
func (w *watch) read(r io.Reader) {
	in := bufio.NewReaderSize(r, plan.MaxLogLine+1)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) { // none of ours
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
			continue
		}
		if plan.LogReady(line) {
			w.set(true, nil)
		} else if refusal, ok := plan.ParseRefusal(bytes.TrimSpace(line)); ok {
			w.mu.Lock()
			s := w.tags[refusal.Tag]
			w.mu.Unlock()
			if s != nil {
				s.add(refusal)
			}
		}
		if err != nil {
			return
		}
	}
}

// sighting begins to gather what is refused by the profile of one command.
func (w *watch) sighting() *sighting {
	s := &sighting{w: w, tag: w.prefix + rand.Text()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tags[s.tag] = s
	return s
}

func (w *watch) close() {
	w.mu.Lock()
	w.over = true
	cmd, ended := w.cmd, w.ended
	w.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill()
		<-ended
	}
}

// A sighting is what was seen to be refused of one command.
type sighting struct {
	w    *watch
	tag  string
	mu   sync.Mutex
	seen []plan.Refusal
}

func (s *sighting) add(r plan.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) < maxSeen {
		s.seen = append(s.seen, r)
	}
}

func (s *sighting) list() []plan.Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[:len(s.seen):len(s.seen)]
}

// settle ends the gathering; wait says that what is still on its way counts.
func (s *sighting) settle(wait bool) {
	s.w.mu.Lock()
	live := s.w.live
	s.w.mu.Unlock()
	if wait && live {
		time.Sleep(settle) // nothing tells when the log has caught up
	}
	s.drop()
}

func (s *sighting) drop() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	delete(s.w.tags, s.tag)
}

// lastLine keeps the beginning of what a program says of its failure.
type lastLine struct {
	mu sync.Mutex
	b  []byte
}

func (l *lastLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p[:min(len(p), 1024-len(l.b))]...)
	return len(p), nil
}

func (l *lastLine) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return termsafe.Line(strings.TrimSpace(string(l.b)))
}
