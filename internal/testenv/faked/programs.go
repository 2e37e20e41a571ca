package faked

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// inside are the programs of the harness, as the fake runs them.
func inside() map[string]fake.Program {
	return map[string]fake.Program{
		"raise": func(p *fake.Proc) int { p.Raise(p.Args[1]); return 99 },
		"write": func(p *fake.Proc) int {
			io.WriteString(p.Stdout, p.Args[1])
			io.WriteString(p.Stderr, p.Args[2])
			return 0
		},
		"caterr": func(p *fake.Proc) int {
			p.Stdout = p.Stderr
			return p.Program("cat")(p)
		},
		"zeros":     zeros,
		"openfiles": func(p *fake.Proc) int { fmt.Fprintln(p.Stdout, p.Limits().OpenFiles); return 0 },
		"tree":      tree,
		"orphan": func(p *fake.Proc) int {
			Fork(p, p.Args[1])
			fmt.Fprintln(p.Stdout, "left")
			return 0
		},
		"onterm": func(p *fake.Proc) int {
			trapped := p.Trap("TERM")
			Fork(p, p.Args[1])
			fmt.Fprintln(p.Stdout, "ready")
			p.Await(trapped)
			fmt.Fprintln(p.Stdout, "term")
			return atoi(p.Args[2])
		},
		"deaf": func(p *fake.Proc) int {
			p.Ignore("TERM")
			fmt.Fprintln(p.Stdout, "ready")
			return p.Join(Fork(p, p.Args[1]))
		},
		"hogs": hogs, "burn": burn, "bomb": bomb, "burst": burst, "holder": holder,
		"count":    count,
		"terminal": terminal,
		"note":     func(p *fake.Proc) int { fmt.Fprintln(p.Stdout, p.Note("n", atoi(p.Args[1]))); return 0 },
	}
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func Fork(p *fake.Proc, marker string) *fake.Proc {
	return p.Fork([]string{"sleep", marker}, p.Program("sleep"))
}

func zeros(p *fake.Proc) int {
	chunk := make([]byte, 64<<10)
	for n := atoi(p.Args[1]); n > 0; n -= len(chunk) {
		p.Stdout.Write(chunk[:min(n, len(chunk))])
	}
	return 0
}

// tree starts TreeSize sleepers, two of them through a parent that leaves.
func tree(p *fake.Proc) int {
	marker := p.Args[1]
	parent := p.Fork([]string{"parent"}, func(q *fake.Proc) int {
		Fork(q, marker)
		Fork(q, marker)
		return 0
	})
	p.Join(parent)
	var last *fake.Proc
	for range providertest.TreeSize - 2 {
		last = Fork(p, marker)
	}
	fmt.Fprintln(p.Stdout, "ready")
	return p.Join(last)
}

func count(p *fake.Proc) int {
	n := 0
	for _, q := range p.Peers() {
		carrier := []string{"sleep", p.Args[1]}
		if slices.Equal(q.Args, carrier) || slices.Equal(q.Args, append([]string{"yes"}, carrier...)) {
			n++
		}
	}
	fmt.Fprintln(p.Stdout, n)
	return 0
}

func terminal(p *fake.Proc) int {
	show := func() {
		size, ok := p.Terminal()
		if ok {
			fmt.Fprintln(p.Stdout, size.Rows, size.Cols)
		}
	}
	show()
	line := make([]byte, 1)
	for line[0] != '\n' {
		if _, err := p.Stdin.Read(line); err != nil {
			return 1
		}
	}
	show()
	return 0
}

// hogs takes memory in many processes, and stays.
func hogs(p *fake.Proc) int {
	var last *fake.Proc
	for range atoi(p.Args[2]) {
		last = p.Fork([]string{"sleep", p.Args[1]}, func(q *fake.Proc) int {
			q.Grow(int64(atoi(p.Args[3])))
			return q.Program("sleep")(q)
		})
	}
	return p.Join(last)
}

// burn uses processor time in one short process after the other.
func burn(p *fake.Proc) int {
	for {
		p.Join(p.Fork([]string{"short"}, func(q *fake.Proc) int {
			q.Work(50 * time.Millisecond)
			return 0
		}))
	}
}

// bomb starts processes that start processes.
func bomb(p *fake.Proc) int {
	for {
		Fork(p, p.Args[1])
		p.Fork(p.Args, bomb)
	}
}

func burst(p *fake.Proc) int {
	for range atoi(p.Args[1]) {
		Fork(p, "1")
	}
	return 0
}

// holder has so many files open, and tries one more.
func holder(p *fake.Proc) int {
	if err := p.Hold(int64(atoi(p.Args[1]) - 3)); err != nil {
		return 1
	}
	fmt.Fprintln(p.Stdout, "full")
	for b := make([]byte, 1); b[0] != '\n'; {
		if _, err := p.Stdin.Read(b); err != nil {
			return 1
		}
	}
	if p.Hold(1) != nil {
		return 2
	}
	return 0
}
