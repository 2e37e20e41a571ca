package fake

import (
	"runtime"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
)

// wait waits for background processes, all or by their ids. A trapped signal
// ends the waiting.
func (s *shellProc) wait(hc interp.HandlerContext, args []string) int {
	if len(args) == 0 {
		for len(s.jobs) > 0 {
			if status, over := s.await(s.jobs[0]); !over {
				return status
			}
			s.jobs = s.jobs[1:]
		}
		return 0
	}
	status := 0
	for _, a := range args {
		pid, _ := strconv.Atoi(a)
		status = 127
		for _, job := range s.jobs {
			if job.pid != pid {
				continue
			}
			code, over := s.await(job)
			if !over {
				return code
			}
			status = code
		}
	}
	return status
}

// await returns the status of a job, or that of a signal that came before.
func (s *shellProc) await(job *Proc) (status int, over bool) {
	select {
	case <-job.done:
		return job.code, true
	default:
	}
	select {
	case <-job.done:
		return job.code, true
	case signal := <-s.pending:
		n, _ := signalNumber(signal)
		s.due = append(s.due, signal)
		return 128 + n, false
	case <-s.p.dead:
		runtime.Goexit()
	}
	return 0, true
}

// runTraps runs the actions of the signals that have come and reports whether
// one of them has ended the shell. Otherwise it leaves no trace in the runner.
func (s *shellProc) runTraps() (status int, exited bool) {
	for {
		select {
		case signal := <-s.pending:
			s.due = append(s.due, signal)
			continue
		default:
		}
		if len(s.due) == 0 {
			return 0, false
		}
		action := s.traps[s.due[0]]
		s.due = s.due[1:]
		for line, err := range s.scripts.Lines(action) {
			if err != nil {
				s.complain("%v", err)
				break
			}
			for _, stmt := range line {
				if status = s.run(stmt); s.runner.Exited() {
					return status, true
				}
			}
		}
		s.run(callShelltext("nothing"))
	}
}

// trap sets what signals do: an action, nothing (the empty text) or the usual (-).
func (s *shellProc) trap(hc interp.HandlerContext, args []string) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) < 2 {
		return s.wrong(hc, "trap: the fake needs an action and signals")
	}
	action := args[0]
	for _, name := range args[1:] {
		name = strings.TrimPrefix(name, "SIG")
		if number, err := strconv.Atoi(name); err == nil {
			name = signalName(number)
		}
		if _, ok := signalNumber(name); !ok && name != "EXIT" {
			return s.wrong(hc, "trap: %s: invalid signal", name)
		}
		switch {
		case action == "-":
			delete(s.traps, name)
			s.p.Default(name)
		case name == "EXIT":
			s.traps[name] = action
		case action == "":
			s.traps[name] = ""
			s.p.Ignore(name)
		default:
			s.traps[name] = action
		}
	}
	var trapped []string
	for name, action := range s.traps {
		if action != "" && name != "EXIT" {
			trapped = append(trapped, name)
		}
	}
	s.pending = nil
	if len(trapped) > 0 {
		s.pending = s.p.Trap(trapped...)
	}
	return 0
}
