package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// A shellProc is a shell in a process. The language is the interpreter's; what
// has to do with processes and files is done here and in the handlers. Every
// subshell is a process of its own, so one goroutine works on a runner.
type shellProc struct {
	p       *Proc
	runner  *interp.Runner
	scripts *shelltextScripts // shared with its subshells
	name    string            // $0
	umask   fs.FileMode
	lenient bool // a text that makes no sense does not end the shell

	traps   map[string]string // what to do by signal; EXIT too
	pending <-chan string     // signals that were trapped and have come
	due     []string          // of these, taken and not acted on
	jobs    []*Proc           // in the background
	open    map[*os.File]bool // read ends of files that are read
}

// A shellState is what a shell keeps from one line to the next.
type shellState struct {
	runner  *interp.Runner
	scripts *shelltextScripts // of which the runner's functions are made
	umask   fs.FileMode
}

func (s shellState) clone() shellState { return shellState{s.runner.Subshell(), s.scripts, s.umask} }

// errDeep ends a shell that calls itself for ever, before the stack does.
var errDeep = errors.New("too deep a recursion")

// newShellState is that of a shell which starts with env in dir, an absolute path.
func newShellState(env map[string]string, dir string, umask fs.FileMode) shellState {
	world := &environ{expand.ListEnviron(pairs(env)...), true}
	r, err := interp.New(
		interp.Env(world), interp.Interactive(true), interp.StdIO(nil, nil, nil),
		func(r *interp.Runner) error { r.Dir = dir; return nil }, // interp.Dir would look at the machine
		interp.CallHandler(callHandler), interp.ExecHandlers(execHandler), interp.OpenHandler(openHandler),
		interp.ReadDirHandler2(readDirHandler), interp.StatHandler(statHandler), interp.AccessHandler(accessHandler),
	)
	if err != nil {
		panic(err) // no option above fails
	}
	r.Reset()
	world.booting = false
	return shellState{r, newShelltext(), umask}
}

func pairs(env map[string]string) []string {
	var list []string
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	return list
}

// An environ is what a runner starts with. While it is set up the runner asks
// for HOME, TMPDIR, UID and others and takes what is missing from the machine,
// so everything is there then. What it takes for the folder of its own pipes
// can be no path.
type environ struct {
	expand.Environ
	booting bool
}

func (e *environ) Get(name string) expand.Variable {
	if e.booting {
		return expand.Variable{Set: true, Kind: expand.String, Str: "/\x00"}
	}
	return e.Environ.Get(name)
}

// environment is what programs get of a shell's variables.
func environment(vars expand.Environ) map[string]string {
	env := map[string]string{}
	vars.Each(func(name string, v expand.Variable) bool {
		if v.IsSet() && v.Exported && v.Kind == expand.String && !ownShelltext(name) {
			env[name] = v.Str
		} else {
			delete(env, name)
		}
		return true
	})
	return env
}

// newShellProc makes p a shell. It takes the state over.
func newShellProc(p *Proc, state shellState, name string) *shellProc {
	s := &shellProc{
		p: p, runner: state.runner, umask: state.umask, name: name, scripts: state.scripts,
		traps: map[string]string{}, open: map[*os.File]bool{},
	}
	s.attach(p.stdio())
	s.set(shelltextPID, strconv.Itoa(p.pid))
	s.set(shelltextName, name)
	s.set(shelltextParent, "1")
	return s
}

// attach makes the given streams those of the shell.
func (s *shellProc) attach(io stdio) {
	in := io.in
	switch end := in.(type) {
	case *emptyInput:
		in = nil
	case *reader:
		in = end.file
	}
	if err := interp.StdIO(in, io.out, io.err)(s.runner); err != nil {
		s.complain("%v", err) // no pipe could be made
	}
}

// close lets go of what the runner has opened and left open.
func (s *shellProc) close() {
	for f := range s.open {
		f.Close()
	}
	clear(s.open)
}

type shellKey struct{}

// shellOf returns the shell that a handler works for.
func shellOf(ctx context.Context) *shellProc { return ctx.Value(shellKey{}).(*shellProc) }

func (s *shellProc) complain(format string, args ...any) {
	fmt.Fprintf(s.p.Stderr, "%s: %s\n", s.name, fmt.Sprintf(format, args...))
}

// run runs one prepared statement, also from within a handler, and returns its
// status. It does not return when the process is killed.
func (s *shellProc) run(stmt *syntax.Stmt) int {
	err := s.runner.Run(context.WithValue(s.p.ctx, shellKey{}, s), stmt)
	s.p.checkpoint()
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[interp.ExitStatus](err); ok {
		return int(status)
	}
	s.complain("%v", err)
	return 2
}

// set gives a variable a value.
func (s *shellProc) set(name, value string) { s.run(assignShelltext(name, value)) }

// text runs a text line by line, as a shell reads it, until it exits. No other
// text may run.
func (s *shellProc) text(src string) (status int, exited bool) {
	defer s.close()
	for line, err := range s.scripts.Lines(src) {
		if err != nil {
			s.complain("%v", err)
			return 2, !s.lenient
		}
		for _, stmt := range line {
			if status = s.run(stmt); s.runner.Exited() {
				return status, true
			}
		}
	}
	if chosen, exited := s.runTraps(); exited {
		return chosen, true
	}
	return status, false
}

// finish ends a shell: its trap for the end runs.
func (s *shellProc) finish(status int) int {
	if action := s.traps["EXIT"]; action != "" {
		delete(s.traps, "EXIT")
		if chosen, exited := s.text(action); exited {
			status = chosen
		}
	}
	return status
}

// fork runs do in a copy of the shell that is a process of its own.
func (s *shellProc) fork(streams stdio, do func(*shellProc) int) *Proc {
	c := &shellProc{
		runner: s.runner.Subshell(), scripts: s.scripts, name: s.name, umask: s.umask,
		traps: map[string]string{}, open: map[*os.File]bool{},
	}
	for signal, action := range s.traps {
		if action == "" {
			c.traps[signal] = ""
		}
	}
	return s.p.spawn(s.p.Args, streams, func(p *Proc) int {
		c.p = p
		defer c.close()
		c.attach(p.stdio())
		return c.finish(do(c))
	})
}

// sh is the program: sh [-OPTIONS] [-c [--] TEXT [NAME]] [ARGUMENTS…], or a script
// by name or on standard input.
func sh(p *Proc) int {
	var options []string
	args, command := p.Args[1:], false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0] != "--" {
		letters := strings.ReplaceAll(args[0][1:], "c", "")
		command = command || len(letters) < len(args[0])-1
		letters = strings.ReplaceAll(letters, "s", "")
		if strings.Trim(letters, "aefux") != "" {
			fmt.Fprintf(p.Stderr, "sh: illegal option %s\n", args[0])
			return 2
		}
		if letters != "" {
			options = append(options, "-"+letters)
		}
		args = args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	switch {
	case command && len(args) == 0:
		fmt.Fprintln(p.Stderr, "sh: -c requires an argument")
		return 2
	case command && len(args) == 1:
		return runText(p, args[0], "sh", options)
	case command:
		return runText(p, args[0], args[1], append(options, append([]string{"--"}, args[2:]...)...))
	case len(args) > 0:
		return runFile(p, p.Path(args[0]), args[0], append(options, append([]string{"--"}, args[1:]...)...))
	}
	text, err := io.ReadAll(p.Stdin)
	if err != nil {
		return 1
	}
	return runText(p, string(text), "sh", options)
}

// scriptFile is the program that a file with shell commands is.
func scriptFile(file string) Program {
	return func(p *Proc) int { return runFile(p, file, file, append([]string{"--"}, p.Args[1:]...)) }
}

// inShell is the program that a builtin of the shell is.
func inShell(name string) Program {
	return func(p *Proc) int {
		return runText(p, `"$@"`, name, append([]string{"--", name}, p.Args[1:]...))
	}
}

func runFile(p *Proc, file, name string, params []string) int {
	text, err := readAll(p, file)
	if err != nil {
		fmt.Fprintf(p.Stderr, "sh: %s: %v\n", file, err)
		return 127
	}
	return runText(p, text, name, params)
}

// runText runs a text with options and parameters as the set builtin has them.
func runText(p *Proc, text, name string, params []string) int {
	s := newShellProc(p, newShellState(maps.Clone(p.Env), p.Dir, p.Umask), name)
	if err := interp.Params(slices.Clone(params)...)(s.runner); err != nil {
		s.complain("%v", err)
		return 2
	}
	status, _ := s.text(text)
	return s.finish(status)
}
