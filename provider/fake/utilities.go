package fake

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// each does something for every argument, complains about each failure, and
// returns the exit status.
func each(p *Proc, args []string, do func(arg string) error) int {
	status := 0
	for _, a := range args {
		p.checkpoint()
		if err := do(a); err != nil {
			fmt.Fprintf(p.Stderr, "%s: %s: %v\n", path.Base(p.Args[0]), a, err)
			status = 1
		}
	}
	return status
}

// flags takes the single-letter options of known from the arguments.
func flags(p *Proc, known string) (set map[byte]bool, rest []string, ok bool) {
	set = map[byte]bool{}
	args := p.Args[1:]
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		if args[0] == "--" {
			args = args[1:]
			break
		}
		for i := 1; i < len(args[0]); i++ {
			if strings.IndexByte(known, args[0][i]) < 0 {
				fmt.Fprintf(p.Stderr, "%s: the fake has no option %s\n", p.Args[0], args[0])
				return nil, nil, false
			}
			set[args[0][i]] = true
		}
		args = args[1:]
	}
	return set, args, true
}

func (p *Proc) open(name string) (*fileEnd, error) {
	h, err := p.Files().Open(p.Path(name), 0, 0)
	if err != nil {
		return nil, err
	}
	return newFileEnd(p, h), nil
}

// readAll returns the content of a file by its absolute path.
func readAll(p *Proc, name string) (string, error) {
	f, err := p.open(name)
	if err != nil {
		return "", err
	}
	defer f.share.release()
	b, err := io.ReadAll(f)
	return string(b), err
}

// octal takes a mode as chmod has it in numbers.
func octal(text string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(text, 8, 12)
	mode := fs.FileMode(n) & fs.ModePerm
	if n&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	return mode, err
}

func chmod(p *Proc) int {
	if len(p.Args) < 3 {
		fmt.Fprintln(p.Stderr, "chmod: the fake wants a mode and files")
		return 1
	}
	return each(p, p.Args[2:], func(name string) error {
		mode, err := octal(p.Args[1])
		if p.Args[1] == "+x" {
			var info fs.FileInfo
			if info, err = p.Files().Stat(p.Path(name)); err == nil {
				mode = info.Mode() | 0o111
			}
		}
		if err != nil {
			return err
		}
		return p.Files().Chmod(p.Path(name), mode)
	})
}

// into is where something called from goes that was asked to go to: into it
// where that is a folder.
func into(p *Proc, from, to string) string {
	if info, err := p.Files().Stat(p.Path(to)); err == nil && info.IsDir() {
		return p.Path(to) + "/" + path.Base(from)
	}
	return p.Path(to)
}

func ln(p *Proc) int {
	set, args, ok := flags(p, "sf")
	if !ok || len(args) != 2 {
		return 1
	}
	return each(p, args[:1], func(from string) error {
		to := into(p, from, args[1])
		if set['f'] {
			p.Files().Remove(to, false) // what is in the way makes the link fail
		}
		if set['s'] {
			return p.Files().Symlink(from, to)
		}
		return p.Files().Link(p.Path(from), to)
	})
}

func mkdir(p *Proc) int {
	mode := 0o777 &^ p.Umask
	if len(p.Args) > 2 && p.Args[1] == "-m" {
		var err error
		if mode, err = octal(p.Args[2]); err != nil {
			fmt.Fprintln(p.Stderr, "mkdir:", err)
			return 1
		}
		p.Args = append(p.Args[:1:1], p.Args[3:]...)
	}
	set, args, ok := flags(p, "p")
	if !ok {
		return 1
	}
	return each(p, args, func(name string) error {
		full := p.Path(name)
		for i := 1; set['p'] && i < len(full); i++ {
			if full[i] == '/' && full[i-1] != '/' {
				if err := p.Files().Mkdir(full[:i], mode); err != nil && !isDir(p, full[:i]) {
					return err
				}
			}
		}
		err := p.Files().Mkdir(full, mode)
		if set['p'] && err == syscall.EEXIST && isDir(p, full) {
			return nil
		}
		return err
	})
}

func isDir(p *Proc, full string) bool {
	info, err := p.Files().Stat(full)
	return err == nil && info.IsDir()
}

func mkfifo(p *Proc) int {
	return each(p, p.Args[1:], func(name string) error { return p.Files().Mkfifo(p.Path(name), 0o666&^p.Umask) })
}

func mv(p *Proc) int {
	set, args, ok := flags(p, "fT")
	if !ok || len(args) != 2 {
		return 1
	}
	return each(p, args[:1], func(from string) error {
		to := into(p, from, args[1])
		if set['T'] {
			to = p.Path(args[1])
		}
		return p.Files().Rename(p.Path(from), to)
	})
}

func readlink(p *Proc) int {
	return each(p, p.Args[1:], func(name string) error {
		target, err := p.Files().ReadLink(p.Path(name))
		if err == nil {
			fmt.Fprintln(p.Stdout, target)
		}
		return err
	})
}

func rm(p *Proc) int {
	set, args, ok := flags(p, "rf")
	if !ok {
		return 1
	}
	return each(p, args, func(name string) error {
		full := p.Path(name)
		info, err := p.Files().Lstat(full)
		switch {
		case err == syscall.ENOENT && set['f']:
			return nil
		case err == nil && info.IsDir() && !set['r']:
			return syscall.EISDIR
		}
		return p.Files().Remove(full, set['r'])
	})
}

func rmdir(p *Proc) int {
	return each(p, p.Args[1:], func(name string) error {
		if info, err := p.Files().Lstat(p.Path(name)); err == nil && !info.IsDir() {
			return syscall.ENOTDIR
		}
		return p.Files().Remove(p.Path(name), false)
	})
}

func touch(p *Proc) int {
	_, args, ok := flags(p, "")
	if !ok {
		return 1
	}
	return each(p, args, func(name string) error { return p.Files().Touch(p.Path(name), 0o666&^p.Umask) })
}
