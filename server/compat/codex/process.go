package codex

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// A process is one of /v1 with the output that is kept of it.
type process struct {
	name string // of the client
	tty  bool
	open bool // its input can be written to

	mu       sync.Mutex
	id       string        // of /v1; empty before it is started, and for one that was refused
	changed  chan struct{} // closed at the next change
	chunks   []chunk
	kept     int // bytes of chunks
	next     int64
	exited   bool
	code     int
	closed   bool
	failure  string
	denied   bool
	finished time.Time
}

// A chunk is a piece of output.
type chunk struct {
	Seq    int64  `json:"seq"`
	Stream string `json:"stream"`
	Chunk  []byte `json:"chunk"`
}

func (p *process) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// started returns the id of the process in /v1, or "" where p is nil or has none: a
// request about a process may come while the process is being started.
func (p *process) started() string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id
}

// change calls do with the lock, and wakes those that wait.
func (p *process) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (s *connection) start(params json.RawMessage) (any, error) {
	var in struct {
		ProcessID string            `json:"processId"`
		Argv      []string          `json:"argv"`
		Cwd       location          `json:"cwd"`
		Env       map[string]string `json:"env"`
		TTY       bool              `json:"tty"`
		PipeStdin bool              `json:"pipeStdin"`
		Arg0      *string           `json:"arg0"`
		Sandbox   inner             `json:"sandbox"`
		Managed   bool              `json:"enforceManagedNetwork"`
	}
	if err := decode(params, &in); err != nil {
		return nil, err
	}
	switch {
	case in.ProcessID == "" || len(in.ProcessID) > 256:
		return nil, bad("processId: must have 1 to 256 bytes")
	case len(in.Argv) == 0 || in.Argv[0] == "":
		return nil, bad("argv: must be a program and its arguments")
	case in.Arg0 != nil && *in.Arg0 != in.Argv[0]:
		return nil, bad("arg0: another name for the program is not supported")
	}
	if err := in.Sandbox.refuse(); err != nil {
		return nil, err
	}
	if in.Managed {
		return nil, bad("enforceManagedNetwork: Codex's own rules for the network are not supported; those of the sandbox hold")
	}
	p := &process{name: in.ProcessID, tty: in.TTY, open: in.TTY || in.PipeStdin, changed: make(chan struct{})}
	if err := s.add(p); err != nil {
		return nil, err
	}
	r := api.StartProcess{Exec: api.Exec{Args: in.Argv, Dir: string(in.Cwd), Env: in.Env}, StdinOpen: in.PipeStdin}
	if in.TTY {
		r.TTY = &api.TerminalSize{Rows: 24, Cols: 80}
	}
	var made api.Process
	err := s.Do(s.ctx, http.MethodPost, compat.Sandbox(s.box, "/processes"), nil, r, &made)
	if f, ok := errors.AsType[*compat.Fault](err); ok && (f.Code == sandbox.CodeDenyTool || f.Code == sandbox.CodeCapabilityBlocked) {
		// A command that rules stop has ended with what they say, which the agent reads.
		s.going.Go(func() {
			s.emit(p, "stderr", []byte("sandbox: "+string(f.Code)+": "+f.Message+"\n"))
			s.exit(p, 126, true, "")
		})
		return map[string]any{"processId": p.name, "sandboxType": "none"}, nil
	}
	if err != nil {
		s.mu.Lock()
		delete(s.processes, p.name)
		s.mu.Unlock()
		return nil, err
	}
	p.change(func() { p.id = made.ID })
	s.going.Go(func() { s.follow(p, made.ID) })
	return map[string]any{"processId": p.name, "sandboxType": "none"}, nil
}

// add makes a process known, in the place of the one that has ended first where there
// are too many.
func (s *connection) add(p *process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.processes[p.name] != nil {
		return &failure{codeInvalid, "the process " + p.name + " exists"}
	}
	if len(s.processes) >= maxProcesses {
		var oldest *process
		for _, one := range s.processes {
			if one.over() && (oldest == nil || one.finished.Before(oldest.finished)) {
				oldest = one
			}
		}
		if oldest == nil {
			return &failure{codeInvalid, "too many processes run; end some"}
		}
		delete(s.processes, oldest.name)
	}
	s.processes[p.name] = p
	return nil
}

// follow passes on what a process writes, until it ends or the connection does.
func (s *connection) follow(p *process, id string) {
	r := s.Request(s.ctx, http.MethodGet, compat.Sandbox(s.box, "/processes/", url.PathEscape(id), "/stream"), url.Values{"from": {"0"}}, nil)
	ended := false
	err := s.Follow(s.ctx, r, func(event string, data []byte) error {
		switch event {
		case api.EventStdout, api.EventStderr:
			var v api.Output
			if err := json.Unmarshal(data, &v); err != nil {
				return err
			}
			b := v.Base64
			if b == nil {
				b = []byte(v.Text)
			}
			if p.tty {
				event = "pty"
			}
			s.emit(p, event, b)
		case api.EventExit:
			var v api.Exit
			if err := json.Unmarshal(data, &v); err != nil {
				return err
			}
			note := compat.Ended(v)
			if note != "" {
				s.emit(p, p.stream("stderr"), []byte("sandbox: "+note+"\n"))
			}
			ended = true
			s.exit(p, v.ExitCode, v.Blocked, "")
			return compat.ErrDone
		case api.EventError:
			var v api.Problem
			if err := json.Unmarshal(data, &v); err != nil {
				return err
			}
			return &compat.Fault{Message: compat.Text(v)}
		}
		return nil
	})
	if !ended && s.ctx.Err() == nil {
		why := "the output has ended before the process"
		if err != nil {
			why = err.Error()
		}
		s.exit(p, -1, false, why)
	}
}

// stream is the name of a stream of the process.
func (p *process) stream(name string) string {
	if p.tty {
		return "pty"
	}
	return name
}

// emit keeps a piece of output and sends it.
func (s *connection) emit(p *process, stream string, b []byte) {
	var c chunk
	p.change(func() {
		p.next++
		c = chunk{p.next, stream, b}
		p.chunks = append(p.chunks, c)
		for p.kept += len(b); p.kept > maxKept && len(p.chunks) > 1; p.chunks = p.chunks[1:] {
			p.kept -= len(p.chunks[0].Chunk)
		}
	})
	s.notify("process/output", map[string]any{"processId": p.name, "seq": c.Seq, "stream": c.Stream, "chunk": c.Chunk})
}

// exit notes and sends how a process has ended.
func (s *connection) exit(p *process, code int, denied bool, why string) {
	var seq int64
	p.change(func() {
		p.next++
		seq = p.next
		p.exited, p.code, p.denied, p.failure = true, code, denied, why
	})
	s.notify("process/exited", map[string]any{"processId": p.name, "seq": seq, "exitCode": code, "sandboxDenied": denied})
	p.change(func() {
		p.next++
		seq = p.next
		p.closed, p.finished = true, time.Now()
	})
	s.notify("process/closed", map[string]any{"processId": p.name, "seq": seq})
}

// known returns the process of a request, nil without.
func (s *connection) known(name string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.processes[name]
}

func (s *connection) read(params json.RawMessage) (any, error) {
	var in struct {
		ProcessID string `json:"processId"`
		AfterSeq  *int64 `json:"afterSeq"`
		MaxBytes  *int64 `json:"maxBytes"`
		WaitMs    *int64 `json:"waitMs"`
	}
	if err := decode(params, &in); err != nil {
		return nil, err
	}
	p := s.known(in.ProcessID)
	if p == nil {
		return nil, &failure{codeInvalid, "there is no process " + in.ProcessID}
	}
	after, most, wait := int64(0), int64(maxKept), time.Duration(0)
	if in.AfterSeq != nil {
		after = *in.AfterSeq
	}
	if in.MaxBytes != nil {
		most = min(max(*in.MaxBytes, 0), maxKept)
	}
	if in.WaitMs != nil {
		wait = time.Duration(min(max(*in.WaitMs, 0), 600_000)) * time.Millisecond
	}
	ctx, done := context.WithTimeout(s.ctx, wait)
	defer done()
	for {
		p.mu.Lock()
		out := map[string]any{"exited": p.exited, "exitCode": nil, "closed": p.closed, "failure": nil, "sandboxDenied": p.denied}
		if p.exited {
			out["exitCode"] = p.code
		}
		if p.failure != "" {
			out["failure"] = p.failure
		}
		chunks, size, next := []chunk{}, int64(0), p.next+1
		for _, c := range p.chunks {
			if c.Seq <= after {
				continue
			}
			if size += int64(len(c.Chunk)); size > most && len(chunks) > 0 {
				next = c.Seq
				break
			}
			chunks = append(chunks, c)
		}
		fresh, changed := len(chunks) > 0 || p.next > after && p.exited || p.closed, p.changed
		p.mu.Unlock()
		out["chunks"], out["nextSeq"] = chunks, next
		if fresh || ctx.Err() != nil || wait == 0 {
			return out, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (s *connection) write(params json.RawMessage) (any, error) {
	var in struct {
		ProcessID string `json:"processId"`
		Chunk     []byte `json:"chunk"`
		EOF       bool   `json:"eof"`
	}
	if err := decode(params, &in); err != nil {
		return nil, err
	}
	status := func(text string) (any, error) { return map[string]string{"status": text}, nil }
	p := s.known(in.ProcessID)
	if p == nil {
		return status("unknownProcess")
	}
	id := p.started()
	if id == "" || !p.open || p.over() {
		return status("stdinClosed")
	}
	const most = 512 << 10 // bytes of one request of /v1
	for piece := range slices.Chunk(in.Chunk, most) {
		if err := s.input(id, api.ProcessInput{DataBase64: piece}); err != nil {
			if f, ok := errors.AsType[*compat.Fault](err); ok && (f.Code == sandbox.CodeNotFound || f.Code == sandbox.CodeBusy) {
				return status("stdinClosed")
			}
			return nil, err
		}
	}
	if in.EOF {
		if err := s.input(id, api.ProcessInput{EOF: true}); err != nil {
			return nil, err
		}
	}
	return status("accepted")
}

func (s *connection) input(id string, in api.ProcessInput) error {
	return s.Do(s.ctx, http.MethodPost, compat.Sandbox(s.box, "/processes/", url.PathEscape(id), "/stdin"), nil, in, nil)
}

func (s *connection) signal(params json.RawMessage) (any, error) {
	var in struct {
		ProcessID string `json:"processId"`
		Signal    string `json:"signal"`
	}
	if err := decode(params, &in); err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(strings.ToUpper(in.Signal), "SIG")
	switch name {
	case "INTERRUPT":
		name = "INT"
	case "TERMINATE":
		name = "TERM"
	}
	id := s.known(in.ProcessID).started()
	if id == "" {
		return nil, &failure{codeInvalid, "there is no process " + in.ProcessID}
	}
	return struct{}{}, s.Do(s.ctx, http.MethodPost, compat.Sandbox(s.box, "/processes/", url.PathEscape(id), "/signal"), nil, api.ProcessSignal{Signal: name}, nil)
}

func (s *connection) terminate(params json.RawMessage) (any, error) {
	var in struct {
		ProcessID string `json:"processId"`
	}
	if err := decode(params, &in); err != nil {
		return nil, err
	}
	p := s.known(in.ProcessID)
	id := p.started()
	if id == "" || p.over() {
		return map[string]bool{"running": false}, nil
	}
	var now api.Process
	err := s.Do(s.ctx, http.MethodDelete, compat.Sandbox(s.box, "/processes/", url.PathEscape(id)), nil, nil, &now)
	if f, ok := errors.AsType[*compat.Fault](err); ok && f.Code == sandbox.CodeNotFound {
		return map[string]bool{"running": false}, nil
	}
	return map[string]bool{"running": true}, err
}
