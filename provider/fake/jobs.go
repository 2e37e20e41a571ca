package fake

import (
	"runtime"
	"strconv"
	"strings"
)

// wait waits for background processes, all or by their ids. A trapped signal
// ends the waiting.
func (r *interp) wait(args []string) flow {
	r.status = 0
	if len(args) == 1 {
		for len(r.jobs) > 0 {
			if !r.await(r.jobs[0]) {
				return flowNext
			}
			r.jobs = r.jobs[1:]
		}
		return r.ended(0)
	}
	for _, a := range args[1:] {
		pid, _ := strconv.Atoi(a)
		r.status = 127
		for _, job := range r.jobs {
			if job.pid != pid {
				continue
			}
			if !r.await(job) {
				return flowNext
			}
			r.status = job.code
		}
	}
	return flowNext
}

// await returns false when a trap has run instead; r.status is then its signal's.
func (r *interp) await(job *Proc) bool {
	select {
	case <-job.done:
		return true
	default:
	}
	select {
	case <-job.done:
		return true
	case signal := <-r.pending:
		n, _ := signalNumber(signal)
		r.status = 128 + n
		r.due = append(r.due, signal)
		return false
	case <-r.p.dead:
		runtime.Goexit()
	}
	return false
}

// runTraps runs the actions of the signals that have come.
func (r *interp) runTraps() flow {
	for {
		select {
		case signal := <-r.pending:
			r.due = append(r.due, signal)
		default:
			if len(r.due) == 0 {
				return flowNext
			}
		}
		if len(r.due) == 0 {
			continue
		}
		signal := r.due[0]
		r.due = r.due[1:]
		status := r.status
		r.calls++
		f := r.text(r.traps[signal])
		r.calls--
		if f == flowExit {
			return f
		}
		r.status = status
	}
}

// trap sets what signals do: an action, nothing (the empty text) or the usual (-).
func (r *interp) trap(args []string) flow {
	if len(args) < 3 {
		return r.wrong("trap: the fake needs an action and signals")
	}
	action := args[1]
	for _, name := range args[2:] {
		name = strings.TrimPrefix(name, "SIG")
		if number, err := strconv.Atoi(name); err == nil {
			name = signalName(number)
		}
		if _, ok := signalNumber(name); !ok && name != "EXIT" {
			return r.wrong("trap: %s: invalid signal", name)
		}
		switch {
		case action == "-":
			delete(r.traps, name)
			r.p.Default(name)
		case name == "EXIT":
			r.traps[name] = action
		case action == "":
			r.traps[name] = ""
			r.p.Ignore(name)
		default:
			r.traps[name] = action
		}
	}
	var trapped []string
	for name, action := range r.traps {
		if action != "" && name != "EXIT" {
			trapped = append(trapped, name)
		}
	}
	r.pending = nil
	if len(trapped) > 0 {
		r.pending = r.p.Trap(trapped...)
	}
	return r.ended(0)
}
