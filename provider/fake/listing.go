package fake

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

func ls(p *Proc) int {
	set, args, ok := flags(p, "aAlR1d")
	if !ok {
		return 2
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	return each(p, args, func(name string) error {
		info, err := p.Files().Stat(p.Path(name))
		if err != nil {
			return err
		}
		if !info.IsDir() || set['d'] {
			list(p, set, name, info)
			return nil
		}
		return listDir(p, set, name, len(args) > 1)
	})
}

func list(p *Proc, set map[byte]bool, name string, info fs.FileInfo) {
	if set['l'] {
		fmt.Fprintf(p.Stdout, "%v %d %s ", info.Mode(), info.Size(), info.ModTime().Format("2006-01-02 15:04:05"))
	}
	fmt.Fprintln(p.Stdout, name)
}

func listDir(p *Proc, set map[byte]bool, name string, titled bool) error {
	entries, err := p.Files().ReadDir(p.Path(name))
	if err != nil {
		return err
	}
	if set['R'] || titled {
		fmt.Fprintf(p.Stdout, "%s:\n", name)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && !set['a'] && !set['A'] {
			continue
		}
		if info, err := e.Info(); err == nil {
			list(p, set, e.Name(), info)
		}
	}
	for _, e := range entries {
		if set['R'] && e.IsDir() {
			fmt.Fprintln(p.Stdout)
			if err := listDir(p, set, name+"/"+e.Name(), true); err != nil {
				return err
			}
		}
	}
	return nil
}

// head is head -c N or -n N of files or standard input.
func head(p *Proc) int {
	unit, n, args := "-n", int64(10), p.Args[1:]
	if len(args) > 1 && (args[0] == "-c" || args[0] == "-n") {
		unit = args[0]
		var err error
		if n, err = strconv.ParseInt(args[1], 10, 64); err != nil {
			fmt.Fprintln(p.Stderr, "head:", err)
			return 1
		}
		args = args[2:]
	}
	in := p.Stdin
	if len(args) > 0 {
		f, err := p.open(args[0])
		if err != nil {
			fmt.Fprintf(p.Stderr, "head: %s: %v\n", args[0], err)
			return 1
		}
		defer f.share.release()
		in = f
	}
	if unit == "-c" {
		io.CopyN(p.Stdout, onlyReader{in}, n) // less is fine
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

func seq(p *Proc) int {
	from, to := 1, 0
	for _, a := range p.Args[1:] {
		n, err := strconv.Atoi(a)
		if err != nil {
			fmt.Fprintln(p.Stderr, "seq:", err)
			return 1
		}
		if len(p.Args) > 2 && a == p.Args[1] {
			from = n
		}
		to = n
	}
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	io.WriteString(p.Stdout, b.String())
	return 0
}

func sortLines(p *Proc) int {
	b, err := io.ReadAll(p.Stdin)
	if err != nil {
		return 1
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	slices.Sort(lines)
	io.WriteString(p.Stdout, strings.Join(lines, "\n")+"\n")
	return 0
}

// wc counts the lines, or the bytes, of standard input.
func wc(p *Proc) int {
	set, _, ok := flags(p, "lc")
	if !ok {
		return 1
	}
	n := 0
	for b := make([]byte, chunkSize); ; {
		k, err := p.Stdin.Read(b)
		if set['c'] {
			n += k
		} else {
			n += strings.Count(string(b[:k]), "\n")
		}
		if err != nil {
			fmt.Fprintln(p.Stdout, n)
			if err == io.EOF {
				return 0
			}
			return 1
		}
	}
}
