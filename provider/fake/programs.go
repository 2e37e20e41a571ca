package fake

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// builtins are the programs that every engine has. They behave like their
// namesakes as far as tests need it.
func builtins() map[string]Program {
	return map[string]Program{
		"true": func(*Proc) int { return 0 }, "false": func(*Proc) int { return 1 },
		"cat": cat, "echo": echo, "printf": inShell("printf"), "env": env, "exit": exit,
		"pwd": pwd, "test": inShell("test"), "[": inShell("["), "kill": kill, "sh": sh, "sleep": sleep, "setsid": setsid, "yes": yes,
		"head": head, "seq": seq, "sort": sortLines, "wc": wc,
		"chmod": chmod, "ln": ln, "ls": ls, "mkdir": mkdir, "mkfifo": mkfifo, "mv": mv, "readlink": readlink,
		"rm": rm, "rmdir": rmdir, "touch": touch,
	}
}

func cat(p *Proc) int {
	files := p.Args[1:]
	if len(files) == 0 {
		files = []string{"-"}
	}
	return each(p, files, func(name string) error {
		if name == "-" {
			_, err := io.Copy(p.Stdout, onlyReader{p.Stdin})
			return err
		}
		f, err := p.open(name)
		if err != nil {
			return err
		}
		defer f.share.release()
		_, err = io.Copy(p.Stdout, onlyReader{f})
		return err
	})
}

// onlyReader keeps io.Copy from taking short cuts past the process.
type onlyReader struct{ io.Reader }

func echo(p *Proc) int {
	fmt.Fprintln(p.Stdout, strings.Join(p.Args[1:], " "))
	return 0
}

// pwd tells the working directory without links.
func pwd(p *Proc) int {
	dir, err := p.Files().Real(p.Dir)
	if err != nil {
		fmt.Fprintln(p.Stderr, "pwd:", err)
		return 1
	}
	fmt.Fprintln(p.Stdout, dir)
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

func exit(p *Proc) int {
	if len(p.Args) < 2 {
		return 0
	}
	n, err := strconv.Atoi(p.Args[1])
	if err != nil {
		fmt.Fprintf(p.Stderr, "exit: %s: numeric argument required\n", p.Args[1])
		return 2
	}
	return n
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
		fmt.Fprintln(p.Stderr, "setsid: no program is named")
		return 1
	}
	_, program, err := p.tree.handle.lookup(p.Args[1], p.Env["PATH"], p.Dir)
	if err != nil {
		fmt.Fprintf(p.Stderr, "setsid: %s: %v\n", p.Args[1], err)
		return 127
	}
	p.become(p.Args[1:])
	return program(p)
}

func kill(p *Proc) int {
	signal, args := "TERM", p.Args[1:]
	if len(args) > 1 && args[0] == "-s" {
		args = append([]string{"-" + args[1]}, args[2:]...)
	}
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		signal = strings.TrimPrefix(args[0][1:], "SIG")
		if n, err := strconv.Atoi(signal); err == nil {
			if signal = signalName(n); n == 0 {
				signal = ""
			}
		}
		args = args[1:]
	}
	if _, ok := signalNumber(signal); !ok && signal != "" {
		fmt.Fprintf(p.Stderr, "kill: %s: invalid signal\n", signal)
		return 1
	}
	return each(p, args, func(arg string) error {
		pid, err := strconv.Atoi(arg)
		if err == nil && (pid <= 0 || !p.Signal(pid, signal)) {
			err = syscall.ESRCH
		}
		return err
	})
}

func yes(p *Proc) int {
	word := "y"
	if len(p.Args) > 1 {
		word = strings.Join(p.Args[1:], " ")
	}
	lines := bytes.Repeat([]byte(word+"\n"), 1024)
	for {
		if _, err := p.Stdout.Write(lines); err != nil {
			return 1
		}
	}
}
