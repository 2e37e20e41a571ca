package fake

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/interp"
)

// maxFrames bounds the stack of a shell, some ten for each function that runs.
const maxFrames = 10_000

// callHandler runs before each simple command. It acts on signals that have
// come and sends what the interpreter must not do itself to execHandler.
func callHandler(ctx context.Context, args []string) ([]string, error) {
	s := shellOf(ctx)
	s.p.checkpoint()
	if runtime.Callers(maxFrames, make([]uintptr, 1)) > 0 {
		return nil, errDeep
	}
	if ownShelltext(args[0]) || s.runner.Funcs[args[0]] != nil {
		return args, nil
	}
	if _, exited := s.runTraps(); exited {
		return []string{shelltextPrefix + "nothing"}, nil // the runner knows that it exits
	}
	return s.route(args), nil
}

// route returns what is called instead of args.
func (s *shellProc) route(args []string) []string {
	ours := func(name string, more ...string) []string {
		return slices.Concat([]string{shelltextPrefix + name}, more, args[1:])
	}
	switch args[0] {
	case "eval", "kill", "wait", "trap", "umask", "ulimit", "type", ".", "source":
		return ours(args[0])
	case "command", "builtin":
		if len(args) > 1 && (args[1] == "-v" || args[1] == "-V") {
			return slices.Concat([]string{shelltextPrefix + "type"}, args[2:])
		}
		if len(args) == 1 {
			return args
		}
		if to := s.route(args[1:]); ownShelltext(to[0]) {
			return to
		}
	case "cd":
		rest := slices.DeleteFunc(slices.Clone(args[1:]), func(a string) bool { return a == "-L" || a == "-P" || a == "--" })
		return append([]string{"cd"}, rest...)
	case "pwd":
		if slices.Contains(args, "-P") {
			return []string{"/bin/pwd"}
		}
	case "set":
		for _, a := range args[1:] {
			if a == "--" || !strings.HasPrefix(a, "-") {
				break
			}
			if a == "-o" && slices.Contains(args, "noexec") || strings.Contains(a, "n") {
				return ours("refuse")
			}
		}
	case "test", "[":
		return ownership(args)
	case "alias":
		for _, a := range args[1:] {
			if _, text, _ := strings.Cut(a, "="); !simpleShelltext(text) {
				return ours("refuse")
			}
		}
	case "unset":
		if slices.ContainsFunc(args, func(a string) bool { return strings.ContainsAny(a, "$`<>") }) {
			return ours("refuse")
		}
	}
	return args
}

// ownership replaces the questions of test for owners, for which the
// interpreter would ask the machine: here there is one user.
func ownership(args []string) []string {
	args = slices.Clone(args)
	for i := 1; i < len(args)-1; i++ {
		if (args[i] == "-O" || args[i] == "-G") && (i == 1 || slices.Contains([]string{"!", "(", "-a", "-o"}, args[i-1])) {
			args[i] = "-e"
		}
	}
	return args
}

// execHandler runs programs, and what route sends here.
func execHandler(interp.ExecHandlerFunc) interp.ExecHandlerFunc {
	return func(ctx context.Context, args []string) error {
		s, hc := shellOf(ctx), interp.HandlerCtx(ctx)
		name, ours := strings.CutPrefix(args[0], shelltextPrefix)
		var status int
		done := false
		if ours {
			status, done = s.own(hc, name, args[1:])
		} else {
			status = s.foreground(hc, args)
		}
		if !done && name != "output" { // which is in the midst of a command
			_, done = s.runTraps()
		}
		if done || status == 0 {
			return nil // with done the runner has the status
		}
		return interp.ExitStatus(status)
	}
}

// streams are those of the command that a handler works for.
func (s *shellProc) streams(hc interp.HandlerContext) stdio {
	io := stdio{&emptyInput{}, hc.Stdout, hc.Stderr}
	if f, ok := hc.Stdin.(*os.File); ok && f != nil {
		io.in = &reader{s.p, f}
	}
	return io
}

func (s *shellProc) path(dir, name string) string {
	if name == "" || path.IsAbs(name) {
		return name
	}
	return dir + "/" + name
}

// openHandler opens files for redirections.
func openHandler(ctx context.Context, name string, flag int, _ fs.FileMode) (io.ReadWriteCloser, error) {
	s, hc := shellOf(ctx), interp.HandlerCtx(ctx)
	s.p.checkpoint()
	var flags memfsFlag
	for bit, f := range map[int]memfsFlag{
		os.O_WRONLY: memfsWrite, os.O_APPEND: memfsAppend, os.O_CREATE: memfsCreate, os.O_TRUNC: memfsTruncate,
	} {
		if flag&bit != 0 {
			flags |= f
		}
	}
	if flags&memfsAppend != 0 {
		flags &^= memfsWrite
	}
	h, err := s.p.Files().Open(s.path(hc.Dir, name), flags, 0o666&^s.umask)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if flags&memfsWrite != 0 || flags&memfsAppend != 0 {
		return newFileEnd(s.p, h), nil
	}
	return s.pour(h)
}

// pour returns a pipe with the content of a file, because an interpreter reads
// nothing else.
func (s *shellProc) pour(h *memfsHandle) (io.ReadWriteCloser, error) {
	out, in, err := os.Pipe()
	if err != nil {
		h.Close()
		return nil, &fs.PathError{Op: "open", Path: "pipe", Err: err}
	}
	go func() {
		io.Copy(in, onlyReader{h}) // until the reader closes
		in.Close()
		h.Close()
	}()
	s.open[out] = true
	return out, nil
}

func readDirHandler(ctx context.Context, name string) ([]fs.DirEntry, error) {
	s := shellOf(ctx)
	s.p.checkpoint()
	return s.p.Files().ReadDir(s.path(interp.HandlerCtx(ctx).Dir, name))
}

func statHandler(ctx context.Context, name string, follow bool) (fs.FileInfo, error) {
	view := shellOf(ctx).p.Files()
	if follow {
		return view.Stat(name)
	}
	return view.Lstat(name)
}

func accessHandler(ctx context.Context, name string, mode interp.AccessMode) error {
	return shellOf(ctx).p.Files().Access(name, fs.FileMode(mode))
}
