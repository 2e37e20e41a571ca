package fake

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/provider/fake/syntax"
)

// simple runs a command: assignments alone, a function, a builtin or a program.
func (r *interp) simple(n *syntax.Simple) flow {
	args, err := r.fields(n.Words)
	if err != nil {
		return r.expansionFailed(err)
	}
	if len(args) == 0 {
		r.status = 0
	}
	assigns := make([]string, len(n.Assigns))
	for i, a := range n.Assigns {
		if assigns[i], err = r.single(a.Value); err != nil {
			return r.expansionFailed(err)
		}
	}
	if r.option("x") {
		fmt.Fprintln(r.io.err, "+", strings.Join(args, " "))
	}
	if len(args) == 1 && args[0] == "exec" { // its redirections stay
		if err := r.with(n.Redirects, func() { r.keepIO() }); err != nil {
			r.status = 1
			return flowExit
		}
		r.io = r.p.stdio()
		return flowNext
	}
	var f flow
	err = r.with(n.Redirects, func() {
		before := r.assign(n.Assigns, assigns, len(args) > 0)
		if len(args) > 0 {
			f = r.call(args)
		}
		r.restore(before)
	})
	if err != nil {
		r.status = 1
	}
	if f == flowNext {
		f = r.failed()
	}
	return f
}

// keepIO makes the streams of the moment those of the process.
func (r *interp) keepIO() {
	r.p.Stdin, r.p.Stdout, r.p.Stderr = inherit(r.p, r.io.in), inherit(r.p, r.io.out), inherit(r.p, r.io.err)
	r.status = 0
}

// assign sets variables, for one command or for good, and returns what they
// were if they are to be put back.
func (r *interp) assign(list []syntax.Assign, values []string, once bool) map[string]*variable {
	before := map[string]*variable{}
	for i, a := range list {
		if once {
			if v, ok := r.vars[a.Name]; ok {
				before[a.Name] = &v
			} else {
				before[a.Name] = nil
			}
		}
		if !r.set(a.Name, values[i]) {
			r.status = 1
		} else if once {
			v := r.vars[a.Name]
			v.exported = true
			r.vars[a.Name] = v
		}
	}
	return before
}

func (r *interp) restore(before map[string]*variable) {
	for name, v := range before {
		if v == nil {
			delete(r.vars, name)
		} else {
			r.vars[name] = *v
		}
	}
}

func (r *interp) call(args []string) flow {
	if body := r.funcs[args[0]]; body != nil {
		return r.function(body, args)
	}
	if b := builtin(args[0]); b != nil {
		return b(r, args)
	}
	if program := inlined(r, args[0]); program != nil {
		r.status = r.inline(program, args)
		return flowNext
	}
	r.status = r.foreground(args)
	return flowNext
}

func (r *interp) function(body syntax.Node, args []string) flow {
	if r.calls++; r.calls > maxCalls {
		r.calls--
		r.complain("%s: too deep a recursion", args[0])
		r.status = 1
		return flowExit
	}
	params, loops := r.params, r.loops
	r.params, r.loops = args[1:], 0
	f := r.run(body)
	r.params, r.loops = params, loops
	r.calls--
	if f == flowReturn {
		f = flowNext
	}
	return f
}

// inlined returns the programs that a shell runs without a process.
func inlined(r *interp, name string) Program {
	if slices.Contains([]string{":", "true", "false", "echo", "printf", "test", "[", "kill"}, name) {
		if name == ":" {
			name = "true"
		}
		return r.p.Program(name)
	}
	return nil
}

// inline runs a program as a part of the shell's own process.
func (r *interp) inline(program Program, args []string) int {
	p := r.p
	args0, dir, umask, env, streams := p.Args, p.Dir, p.Umask, p.Env, p.stdio()
	p.Args, p.Dir, p.Umask, p.Env = args, r.dir, r.umask, r.environ()
	p.Stdin, p.Stdout, p.Stderr = r.io.in, r.io.out, r.io.err
	defer func() {
		p.Args, p.Dir, p.Umask, p.Env = args0, dir, umask, env
		p.Stdin, p.Stdout, p.Stderr = streams.in, streams.out, streams.err
	}()
	return program(p)
}

// find looks a program up and says why there is none.
func (r *interp) find(name string) (Program, int) {
	search, _ := r.value("PATH")
	program, err := r.p.tree.handle.lookup(name, search, r.dir)
	switch {
	case err == nil:
		return program, 0
	case isPermission(err):
		r.complain("%s: Permission denied", name)
		return nil, 126
	}
	r.complain("%s: not found", name)
	return nil, 127
}

// foreground runs a program and waits for it.
func (r *interp) foreground(args []string) int {
	program, status := r.find(args[0])
	if program == nil {
		return status
	}
	env, dir, umask := r.environ(), r.dir, r.umask
	return r.p.Join(r.p.spawn(args, r.io, func(p *Proc) int {
		p.Env, p.Dir, p.Umask = env, dir, umask
		return program(p)
	}))
}

// replace makes the shell's process that of a program.
func (r *interp) replace(args []string) flow {
	program, status := r.find(args[0])
	r.status = status
	if program == nil {
		return flowExit
	}
	r.p.become(args)
	r.p.Dir, r.p.Umask, r.p.Env = r.dir, r.umask, r.environ()
	r.p.Stdin, r.p.Stdout, r.p.Stderr = r.io.in, r.io.out, r.io.err
	delete(r.traps, "EXIT")
	r.status = program(r.p)
	return flowExit
}

// sh is the program: sh [-OPTIONS] [-c TEXT [NAME]] [ARGUMENTS…], or a script
// by name or on standard input.
func sh(p *Proc) int {
	state := newShellState(p.Env, p.Dir)
	state.umask = p.Umask
	args := p.Args[1:]
	command := false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0] != "--" {
		letters := strings.ReplaceAll(args[0][1:], "c", "")
		command = command || len(letters) < len(args[0])-1
		if letters = strings.ReplaceAll(letters, "s", ""); !state.setOptions(letters, true) {
			fmt.Fprintf(p.Stderr, "sh: illegal option %s\n", args[0])
			return 2
		}
		args = args[1:]
	}
	switch {
	case command && len(args) == 0:
		fmt.Fprintln(p.Stderr, "sh: -c requires an argument")
		return 2
	case command:
		text := args[0]
		if len(args) > 1 {
			state.name, state.params = args[1], slices.Clone(args[2:])
		}
		return runText(p, state, text)
	case len(args) > 0:
		state.name, state.params = args[0], slices.Clone(args[1:])
		return runFile(p, state, p.Path(args[0]))
	}
	text, err := io.ReadAll(p.Stdin)
	if err != nil {
		return 1
	}
	return runText(p, state, string(text))
}

// scriptFile is the program that a file with shell commands is.
func scriptFile(file string) Program {
	return func(p *Proc) int {
		state := newShellState(p.Env, p.Dir)
		state.umask, state.name, state.params = p.Umask, file, slices.Clone(p.Args[1:])
		return runFile(p, state, file)
	}
}

func runFile(p *Proc, state shellState, file string) int {
	text, err := readAll(p, file)
	if err != nil {
		fmt.Fprintf(p.Stderr, "sh: %s: %v\n", file, err)
		return 127
	}
	return runText(p, state, text)
}

func runText(p *Proc, state shellState, text string) int {
	r := newInterp(p, state)
	return r.finish(r.text(text))
}

// setOptions switches options on or off by their letters. Unknown letters
// change nothing.
func (s *shellState) setOptions(letters string, on bool) bool {
	if strings.Trim(letters, "aefuxC") != "" {
		return false
	}
	all := map[rune]bool{}
	for _, l := range s.options {
		all[l] = true
	}
	for _, l := range letters {
		all[l] = on
	}
	maps.DeleteFunc(all, func(_ rune, on bool) bool { return !on })
	s.options = string(slices.Sorted(maps.Keys(all)))
	return true
}

func isPermission(err error) bool { return err != nil && errors.Is(err, fs.ErrPermission) }
