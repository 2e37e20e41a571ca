package fake

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// builtin returns the command that must be a part of the shell, or nil.
func builtin(name string) func(r *interp, args []string) flow {
	switch name {
	case "cd":
		return (*interp).cd
	case "pwd":
		return func(r *interp, _ []string) flow { fmt.Fprintln(r.io.out, r.dir); return r.ended(0) }
	case "exit", "return", "break", "continue":
		return (*interp).leave
	case "set":
		return (*interp).setBuiltin
	case "shift":
		return (*interp).shift
	case "export", "readonly":
		return (*interp).mark
	case "local":
		return (*interp).local
	case "unset":
		return (*interp).unset
	case "alias", "unalias":
		return (*interp).alias
	case "eval":
		return (*interp).eval
	case "exec":
		return func(r *interp, args []string) flow { return r.replace(args[1:]) }
	case "command", "type":
		return (*interp).command
	case "read":
		return (*interp).read
	case "wait":
		return (*interp).wait
	case "trap":
		return (*interp).trap
	case "umask":
		return (*interp).setUmask
	case "ulimit":
		return (*interp).ulimit
	}
	return nil
}

func (r *interp) ended(status int) flow {
	r.status = status
	return flowNext
}

func (r *interp) wrong(format string, args ...any) flow {
	r.complain(format, args...)
	return r.ended(2)
}

func (r *interp) cd(args []string) flow {
	args = slices.DeleteFunc(args[1:], func(a string) bool { return a == "-P" || a == "-L" || a == "--" })
	to, _ := r.value("HOME")
	if len(args) > 0 {
		to = args[0]
	}
	if to == "-" {
		to, _ = r.value("OLDPWD")
		fmt.Fprintln(r.io.out, to)
	}
	real, err := r.view().Real(r.path(to))
	if err != nil {
		r.complain("cd: %s: %v", to, err)
		return r.ended(1)
	}
	r.set("OLDPWD", r.dir)
	r.set("PWD", real)
	r.dir = real
	return r.ended(0)
}

// leave is exit, return, break and continue.
func (r *interp) leave(args []string) flow {
	n := 1
	if args[0] == "exit" || args[0] == "return" {
		n = r.status
	}
	if len(args) > 1 {
		var err error
		if n, err = strconv.Atoi(args[1]); err != nil {
			return r.wrong("%s: %s: numeric argument required", args[0], args[1])
		}
	}
	switch {
	case args[0] == "exit":
		r.status = n & 0xff
		return flowExit
	case args[0] == "return" && r.calls > 0:
		r.status = n & 0xff
		return flowReturn
	case args[0] == "return" || r.loops == 0:
		return r.wrong("%s: nothing to leave", args[0])
	}
	r.status, r.breaks, r.again = 0, min(max(n, 1), r.loops), args[0] == "continue"
	return flowLoop
}

// optionLetters are the long names of options.
func optionLetters() map[string]string {
	return map[string]string{
		"allexport": "a", "errexit": "e", "noglob": "f", "nounset": "u", "xtrace": "x", "noclobber": "C",
	}
}

func (r *interp) setBuiltin(args []string) flow {
	args = args[1:]
	for len(args) > 0 && len(args[0]) > 1 && strings.ContainsRune("-+", rune(args[0][0])) {
		if args[0] == "--" {
			r.params = slices.Clone(args[1:])
			return r.ended(0)
		}
		letters, on := args[0][1:], args[0][0] == '-'
		if letters == "o" && len(args) > 1 {
			args = args[1:]
			letters = optionLetters()[args[0]]
		}
		if letters == "" || !r.setOptions(letters, on) {
			return r.wrong("set: the fake has no option %s", args[0])
		}
		args = args[1:]
	}
	if len(args) > 0 {
		r.params = slices.Clone(args)
	}
	return r.ended(0)
}

func (r *interp) shift(args []string) flow {
	n := 1
	if len(args) > 1 {
		n, _ = strconv.Atoi(args[1])
	}
	if n < 0 || n > len(r.params) {
		return r.wrong("shift: cannot shift that many")
	}
	r.params = r.params[n:]
	return r.ended(0)
}

// mark is export and readonly.
func (r *interp) mark(args []string) flow {
	kind, args := args[0], args[1:]
	if len(args) > 0 && args[0] == "-f" {
		return r.ended(0) // functions reach every child of the shell anyway
	}
	if len(args) == 0 || args[0] == "-p" {
		for _, name := range slices.Sorted(maps.Keys(r.vars)) {
			if v := r.vars[name]; v.exported && kind == "export" || v.locked && kind == "readonly" {
				fmt.Fprintf(r.io.out, "%s %s='%s'\n", kind, name, strings.ReplaceAll(v.value, "'", `'\''`))
			}
		}
		return r.ended(0)
	}
	for _, a := range args {
		name, value, given := strings.Cut(a, "=")
		if given && !r.set(name, value) {
			return r.ended(1)
		}
		v := r.vars[name]
		v.exported = v.exported || kind == "export"
		v.locked = v.locked || kind == "readonly"
		r.vars[name] = v
	}
	return r.ended(0)
}

// local sets variables; unlike a real one it does not put them back.
func (r *interp) local(args []string) flow {
	if r.calls == 0 {
		return r.wrong("local: not in a function")
	}
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(a, "=")
		r.set(name, value)
	}
	return r.ended(0)
}

func (r *interp) unset(args []string) flow {
	for _, name := range args[1:] {
		switch {
		case name == "-v" || name == "-f":
		case r.vars[name].locked:
			r.complain("unset: %s: readonly variable", name)
			return r.ended(1)
		default:
			delete(r.vars, name)
			if args[1] == "-f" {
				delete(r.funcs, name)
			}
		}
	}
	return r.ended(0)
}

func (r *interp) alias(args []string) flow {
	if args[0] == "unalias" {
		for _, name := range args[1:] {
			delete(r.aliases, name)
		}
		return r.ended(0)
	}
	for _, a := range args[1:] {
		name, text, given := strings.Cut(a, "=")
		if given {
			r.aliases[name] = text
		} else if text, ok := r.aliases[name]; ok {
			fmt.Fprintf(r.io.out, "%s='%s'\n", name, text)
		} else {
			r.complain("alias: %s: not found", name)
			return r.ended(1)
		}
	}
	return r.ended(0)
}

func (r *interp) eval(args []string) flow {
	if r.calls++; r.calls > maxCalls {
		r.calls--
		r.complain("eval: too deep a recursion")
		r.status = 1
		return flowExit
	}
	defer func() { r.calls-- }()
	r.status = 0
	return r.text(strings.Join(args[1:], " "))
}

// command is command and type: both tell what a name is, and command runs
// what is no function.
func (r *interp) command(args []string) flow {
	asks := args[0] == "type"
	args = args[1:]
	if len(args) > 0 && (args[0] == "-v" || args[0] == "-V") {
		asks, args = true, args[1:]
	}
	if len(args) == 0 {
		return r.ended(0)
	}
	if !asks {
		if b := builtin(args[0]); b != nil {
			return b(r, args)
		}
		return r.ended(r.foreground(args))
	}
	search, _ := r.value("PATH")
	_, err := r.p.tree.handle.lookup(args[0], search, r.dir)
	if r.funcs[args[0]] == nil && builtin(args[0]) == nil && r.aliases[args[0]] == "" && err != nil {
		return r.ended(127)
	}
	fmt.Fprintln(r.io.out, args[0])
	return r.ended(0)
}

// read reads a line byte by byte, so that the rest is there for others.
func (r *interp) read(args []string) flow {
	names := slices.DeleteFunc(args[1:], func(a string) bool { return a == "-r" })
	if len(names) == 0 {
		names = []string{"REPLY"}
	}
	raw := len(names) < len(args)-1
	var line []byte
	status := 0
	for b := make([]byte, 1); ; {
		n, err := io.ReadFull(r.in(), b)
		if n == 0 || err != nil {
			status = 1
			break
		}
		if b[0] == '\n' {
			break
		}
		if b[0] == '\\' && !raw {
			if _, err := io.ReadFull(r.in(), b); err != nil || b[0] == '\n' {
				continue
			}
		}
		line = append(line, b[0])
	}
	rest := strings.Trim(string(line), " \t")
	for i, name := range names {
		word := rest
		if at := strings.IndexAny(rest, " \t"); i < len(names)-1 {
			if at < 0 {
				at = len(rest)
			}
			word, rest = rest[:at], strings.TrimLeft(rest[at:], " \t")
		}
		r.set(name, word)
	}
	return r.ended(status)
}

func (r *interp) in() io.Reader { return r.io.in }

func (r *interp) setUmask(args []string) flow {
	if len(args) == 1 {
		fmt.Fprintf(r.io.out, "%04o\n", r.umask)
		return r.ended(0)
	}
	n, err := strconv.ParseUint(args[1], 8, 9)
	if err != nil {
		return r.wrong("umask: %s: not an octal number", args[1])
	}
	r.umask = fs.FileMode(n)
	return r.ended(0)
}

func (r *interp) ulimit(args []string) flow {
	if len(args) != 2 || args[1] != "-n" {
		return r.wrong("ulimit: the fake tells -n only")
	}
	if n := r.p.Limits().OpenFiles; n > 0 {
		fmt.Fprintln(r.io.out, n)
	} else {
		fmt.Fprintln(r.io.out, "unlimited")
	}
	return r.ended(0)
}
