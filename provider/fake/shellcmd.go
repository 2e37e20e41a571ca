package fake

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
)

// own runs the commands that route and package shelltext call. With done the
// runner has come to a status of its own.
func (s *shellProc) own(hc interp.HandlerContext, name string, args []string) (status int, done bool) {
	switch name {
	case "nothing":
		return 0, true
	case "subshell":
		return s.subshell(hc, args), false
	case "background":
		return s.background(hc, args), false
	case "pipeline":
		return s.pipeline(hc, args), false
	case "output":
		return s.output(hc, args), false
	case "eval":
		return s.eval(hc, strings.Join(args, " "))
	case ".", "source":
		return s.source(hc, args)
	case "kill":
		return s.kill(hc, args), false
	case "wait":
		return s.wait(hc, args), false
	case "trap":
		return s.trap(hc, args), false
	case "umask":
		return s.setUmask(hc, args), false
	case "ulimit":
		return s.ulimit(hc, args), false
	case "type":
		return s.describe(hc, args), false
	case "refuse":
		return s.wrong(hc, "the fake does not do that: %q", args), false
	}
	return s.wrong(hc, "%s%s: not for scripts", shelltextPrefix, name), false
}

func (s *shellProc) wrong(hc interp.HandlerContext, format string, args ...any) int {
	fmt.Fprintf(hc.Stderr, "%s: %s\n", s.name, fmt.Sprintf(format, args...))
	return 2
}

// eval runs a text in the shell itself, also in the midst of a statement.
func (s *shellProc) eval(hc interp.HandlerContext, text string) (int, bool) {
	ran := false
	for line, err := range s.scripts.Lines(text) {
		if err != nil {
			return s.wrong(hc, "%v", err), false
		}
		for _, stmt := range line {
			ran = true
			if s.run(stmt); s.runner.Exited() {
				return 0, true
			}
		}
	}
	return 0, ran
}

// source runs a file in the shell itself.
func (s *shellProc) source(hc interp.HandlerContext, args []string) (int, bool) {
	if len(args) != 1 {
		return s.wrong(hc, ".: the fake wants one file"), false
	}
	text, err := readAll(s.p, s.path(hc.Dir, args[0]))
	if err != nil {
		return s.wrong(hc, ".: %s: %v", args[0], err), false
	}
	return s.eval(hc, text)
}

// foreground runs a program and waits for it.
func (s *shellProc) foreground(hc interp.HandlerContext, args []string) int {
	_, program, err := s.p.tree.handle.lookup(args[0], hc.Env.Get("PATH").String(), hc.Dir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		s.wrong(hc, "%s: Permission denied", args[0])
		return 126
	case err != nil:
		s.wrong(hc, "%s: not found", args[0])
		return 127
	}
	return s.p.Join(s.p.spawn(args, s.streams(hc), func(p *Proc) int {
		p.Env, p.Dir, p.Umask = environment(hc.Env), hc.Dir, s.umask
		return program(p)
	}))
}

// part returns what is to be done in a process of its own.
func (s *shellProc) part(hc interp.HandlerContext, place string) func(*shellProc) int {
	part := s.scripts.Part(place)
	return func(c *shellProc) int {
		if part == nil {
			return c.wrong(hc, "%q: not for scripts", place)
		}
		status := c.run(part)
		if !c.runner.Exited() {
			if chosen, exited := c.runTraps(); exited {
				return chosen
			}
		}
		return status
	}
}

func (s *shellProc) subshell(hc interp.HandlerContext, places []string) int {
	return s.p.Join(s.fork(s.streams(hc), s.part(hc, strings.Join(places, " "))))
}

func (s *shellProc) background(hc interp.HandlerContext, places []string) int {
	streams := s.streams(hc)
	streams.in = &emptyInput{}
	job := s.fork(streams, s.part(hc, strings.Join(places, " ")))
	s.jobs = append(s.jobs, job)
	s.set(shelltextLast, strconv.Itoa(job.pid))
	return 0
}

// pipeline runs its parts side by side and returns the status of the last, or
// with pipefail of the last that failed.
func (s *shellProc) pipeline(hc interp.HandlerContext, places []string) int {
	streams := s.streams(hc)
	last := streams.out
	var procs []*Proc
	for i, place := range places {
		from := streams.in
		streams.out = last
		var to *pipe
		if i < len(places)-1 {
			var err error
			if to, err = newPipe(); err != nil {
				return s.wrong(hc, "%v", err)
			}
			streams.out = &writer{s.p, to}
		}
		child := s.fork(streams, s.part(hc, place))
		procs = append(procs, child)
		if r, ok := from.(*reader); ok && i > 0 {
			go func() { <-child.done; r.file.Close() }()
		}
		if to != nil {
			to.release()
			streams.in = &reader{s.p, to.out}
		}
	}
	status, failed := 0, 0
	for _, p := range procs {
		if status = s.p.Join(p); status != 0 {
			failed = status
		}
	}
	if failed != status && s.run(lacksShelltext("pipefail")) != 0 {
		status = failed
	}
	return status
}

// output forwards what a substitution writes until the last writer has closed.
func (s *shellProc) output(hc interp.HandlerContext, places []string) int {
	to, err := newPipe()
	if err != nil {
		return s.wrong(hc, "%v", err)
	}
	s.open[to.out] = true
	defer func() { delete(s.open, to.out); to.out.Close() }()
	streams := s.streams(hc)
	streams.out = &writer{s.p, to}
	child := s.fork(streams, s.part(hc, strings.Join(places, " ")))
	to.release()
	in := &reader{s.p, to.out}
	for b := make([]byte, chunkSize); ; {
		n, err := in.Read(b)
		hc.Stdout.Write(b[:n])
		if err != nil {
			return s.p.Join(child)
		}
	}
}

// kill is the program, as a part of the shell's own process.
func (s *shellProc) kill(hc interp.HandlerContext, args []string) int {
	streams, before, shown := s.streams(hc), s.p.stdio(), s.p.Args
	defer func() { s.p.Stdout, s.p.Stderr, s.p.Args = before.out, before.err, shown }()
	s.p.Stdout, s.p.Stderr, s.p.Args = streams.out, streams.err, append([]string{"kill"}, args...)
	return kill(s.p)
}

// describe tells what names are, as far as command -v does.
func (s *shellProc) describe(hc interp.HandlerContext, names []string) int {
	status := 0
	for _, name := range names {
		file, _, err := s.p.tree.handle.lookup(name, hc.Env.Get("PATH").String(), hc.Dir)
		switch {
		case s.runner.Funcs[name] != nil || interp.IsBuiltin(name):
			fmt.Fprintln(hc.Stdout, name)
		case err == nil:
			fmt.Fprintln(hc.Stdout, file)
		default:
			status = 127
		}
	}
	return status
}

func (s *shellProc) setUmask(hc interp.HandlerContext, args []string) int {
	if len(args) == 0 {
		fmt.Fprintf(hc.Stdout, "%04o\n", s.umask)
		return 0
	}
	n, err := strconv.ParseUint(args[0], 8, 9)
	if err != nil {
		return s.wrong(hc, "umask: %s: not an octal number", args[0])
	}
	s.umask = fs.FileMode(n)
	return 0
}

func (s *shellProc) ulimit(hc interp.HandlerContext, args []string) int {
	if len(args) != 1 || args[0] != "-n" {
		return s.wrong(hc, "ulimit: the fake tells -n only")
	}
	if n := s.p.Limits().OpenFiles; n > 0 {
		fmt.Fprintln(hc.Stdout, n)
	} else {
		fmt.Fprintln(hc.Stdout, "unlimited")
	}
	return 0
}
