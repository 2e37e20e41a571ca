package fake

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// builtins are the programs that every engine has. They behave like their
// namesakes as far as tests need it.
func builtins() map[string]Program {
	inShell := func(p *Proc) int { return runText(p, `"$@"`, p.Args[0], nil, p.Args) }
	return map[string]Program{
		"true": func(*Proc) int { return 0 }, "false": func(*Proc) int { return 1 },
		"printf": inShell, "test": inShell, "[": inShell, "pwd": inShell, "echo": echo, "env": env, "sh": sh, "bash": sh,
		"cat": cat, "head": head, "ls": ls, "mkdir": mkdir, "rm": rm, "mv": mv, "ln": ln, "touch": touch, "chmod": chmod, "mkfifo": mkfifo,
		"seq": seq, "sleep": sleep, "setsid": setsid, "which": which, "yes": yes,
	}
}

// each does something for every argument, complains about each failure, and
// returns the exit status.
func each(p *Proc, args []string, do func(v view, full string) error) int {
	status := 0
	for _, a := range args {
		p.checkpoint()
		if err := do(p.tree.h.boot.files, p.Path(a)); err != nil {
			fmt.Fprintf(p.Stderr, "%s: %s: %v\n", path.Base(p.Args[0]), a, err)
			status = 1
		}
	}
	return status
}

// flags takes the options off the arguments, as their letters.
func flags(p *Proc) (letters string, rest []string) {
	rest = p.Args[1:]
	for len(rest) > 0 && len(rest[0]) > 1 && rest[0][0] == '-' {
		if rest[0] == "--" {
			return letters, rest[1:]
		}
		letters, rest = letters+rest[0][1:], rest[1:]
	}
	return letters, rest
}

func echo(p *Proc) int {
	fmt.Fprintln(p.Stdout, strings.Join(p.Args[1:], " "))
	return 0
}

func env(p *Proc) int {
	var b bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(p.Env)) {
		fmt.Fprintf(&b, "%s=%s\n", k, p.Env[k])
	}
	p.Stdout.Write(b.Bytes())
	return 0
}

func cat(p *Proc) int {
	if len(p.Args) == 1 {
		io.Copy(struct{ io.Writer }{p.Stdout}, struct{ io.Reader }{p.Stdin})
		return 0
	}
	return each(p, p.Args[1:], func(v view, full string) error {
		data, err := v.read(full)
		p.Stdout.Write(data)
		return err
	})
}

// head is head -c N or -n N of a file, of /dev/zero or of standard input.
func head(p *Proc) int {
	if len(p.Args) < 3 {
		fmt.Fprintln(p.Stderr, "head: the fake wants -c or -n and a number")
		return 2
	}
	n, err := strconv.Atoi(p.Args[2])
	if err != nil {
		fmt.Fprintln(p.Stderr, "head:", err)
		return 1
	}
	in := p.Stdin
	if rest := p.Args[3:]; len(rest) > 0 && rest[0] == "/dev/zero" {
		in = zeros{}
	} else if status := each(p, rest, func(v view, full string) error {
		data, err := v.read(full)
		in = bytes.NewReader(data)
		return err
	}); status != 0 {
		return status
	}
	if p.Args[1] == "-c" {
		io.CopyN(struct{ io.Writer }{p.Stdout}, in, int64(n)) // less is fine
		return 0
	}
	for b := make([]byte, 1); n > 0; {
		if k, err := in.Read(b); k == 0 && err != nil {
			break
		}
		p.Stdout.Write(b)
		if b[0] == '\n' {
			n--
		}
	}
	return 0
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func ls(p *Proc) int {
	letters, args := flags(p)
	if len(args) == 0 {
		args = []string{"."}
	}
	return each(p, args, func(v view, full string) error {
		list, err := v.readDir(full)
		if err == syscall.ENOTDIR {
			fmt.Fprintln(p.Stdout, path.Base(full))
			return nil
		}
		for _, d := range list {
			if d.Name()[0] != '.' || strings.ContainsAny(letters, "aA") {
				fmt.Fprintln(p.Stdout, d.Name())
			}
		}
		return err
	})
}

func mkdir(p *Proc) int {
	letters, args := flags(p)
	return each(p, args, func(v view, full string) error {
		if strings.Contains(letters, "p") {
			return v.mkdirAll(full)
		}
		return v.mkdir(full, 0o755)
	})
}

func rm(p *Proc) int {
	letters, args := flags(p)
	all := strings.Contains(letters, "r")
	return each(p, args, func(v view, full string) error {
		info, err := v.stat(full, true)
		switch {
		case err == syscall.ENOENT && strings.Contains(letters, "f"):
			return nil
		case err == nil && info.IsDir() && !all:
			return syscall.EISDIR
		}
		return v.remove(full, all, false)
	})
}

// into is where something called from goes that was asked to go to: into it
// where that is a folder.
func into(v view, from, to string) string {
	if info, err := v.stat(to, false); err == nil && info.IsDir() {
		return to + "/" + path.Base(from)
	}
	return to
}

func mv(p *Proc) int {
	_, args := flags(p)
	if len(args) != 2 {
		return 1
	}
	return each(p, args[:1], func(v view, full string) error { return v.rename(full, into(v, full, p.Path(args[1]))) })
}

// ln is ln -s.
func ln(p *Proc) int {
	_, args := flags(p)
	if len(args) != 2 {
		return 1
	}
	return each(p, args[1:], func(v view, full string) error { return v.symlink(args[0], into(v, args[0], full)) })
}

func touch(p *Proc) int {
	return each(p, p.Args[1:], func(v view, full string) error {
		_, err := v.create(full, false, false)
		return err
	})
}

func mkfifo(p *Proc) int {
	return each(p, p.Args[1:], func(v view, full string) error { return v.make(full, newNode(fs.ModeNamedPipe|0o644)) })
}

// chmod is chmod with a mode in octal digits.
func chmod(p *Proc) int {
	if len(p.Args) < 3 {
		return 1
	}
	return each(p, p.Args[2:], func(v view, full string) error {
		mode, err := strconv.ParseUint(p.Args[1], 8, 9)
		if err != nil {
			return err
		}
		return v.change(full, true, func(_ *node, _ string, n *node) error {
			if n == nil {
				return syscall.ENOENT
			}
			n.mode = n.mode.Type() | fs.FileMode(mode)
			return nil
		})
	})
}

func seq(p *Proc) int {
	if len(p.Args) < 2 {
		return 1
	}
	from, to := 1, 0
	for _, a := range p.Args[1:] {
		n, err := strconv.Atoi(a)
		if err != nil {
			fmt.Fprintln(p.Stderr, "seq:", err)
			return 1
		}
		from, to = max(to, from), n
	}
	if len(p.Args) > 2 {
		from, _ = strconv.Atoi(p.Args[1])
	}
	var b bytes.Buffer
	for ; from <= to; from++ {
		fmt.Fprintln(&b, from)
	}
	p.Stdout.Write(b.Bytes())
	return 0
}

func sleep(p *Proc) int {
	for _, a := range p.Args[1:] {
		seconds, err := strconv.ParseFloat(a, 64)
		if err != nil {
			fmt.Fprintf(p.Stderr, "sleep: invalid time interval %q\n", a)
			return 1
		}
		p.Sleep(time.Duration(seconds * float64(time.Second)))
	}
	return 0
}

// setsid runs a program; sessions make no difference here.
func setsid(p *Proc) int {
	if len(p.Args) < 2 {
		return 1
	}
	program, err := p.tree.h.lookup(p.Args[1], p.Dir)
	if err != nil {
		fmt.Fprintf(p.Stderr, "setsid: %s: not found\n", p.Args[1])
		return 127
	}
	p.Args = p.Args[1:]
	return program(p)
}

// which is command -v.
func which(p *Proc) int {
	if len(p.Args) < 2 {
		return 1
	}
	if _, err := p.tree.h.lookup(p.Args[1], p.Dir); err != nil {
		return 1
	}
	fmt.Fprintln(p.Stdout, "/usr/bin/"+path.Base(p.Args[1]))
	return 0
}

func yes(p *Proc) int {
	lines := bytes.Repeat([]byte("y\n"), 1024)
	for {
		if _, err := p.Stdout.Write(lines); err != nil {
			return 1
		}
	}
}
