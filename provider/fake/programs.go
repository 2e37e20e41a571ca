package fake

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// builtins are the programs that every engine has. They behave like their
// namesakes as far as tests need it; "sh -c" runs one plain command, because
// the fake has no shell syntax.
func builtins() map[string]Program {
	return map[string]Program{
		"true":  func(*Proc) int { return 0 },
		"false": func(*Proc) int { return 1 },
		"cat":   cat,
		"echo":  echo,
		"env":   env,
		"exit":  exit,
		"pwd":   func(p *Proc) int { fmt.Fprintln(p.Stdout, p.Dir); return 0 },
		"sh":    sh,
		"sleep": sleep,
		"yes":   yes,
	}
}

func cat(p *Proc) int {
	if _, err := io.Copy(p.Stdout, onlyReader{p.Stdin}); err != nil {
		return 1
	}
	return 0
}

// onlyReader keeps io.Copy from taking short cuts past the process.
type onlyReader struct{ io.Reader }

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

func sh(p *Proc) int {
	if len(p.Args) < 3 || p.Args[1] != "-c" || strings.ContainsAny(p.Args[2], "|&;<>()$`\\\"'*?[]#~%{}\n") {
		fmt.Fprintln(p.Stderr, "sh: the fake runs one plain command with -c")
		return 2
	}
	args := strings.Fields(p.Args[2])
	if len(args) == 0 {
		return 0
	}
	program := p.Program(args[0])
	if program == nil {
		fmt.Fprintf(p.Stderr, "sh: %s: not found\n", args[0])
		return 127
	}
	return p.Join(p.Fork(args, program))
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
