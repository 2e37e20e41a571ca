//go:build linux

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// inside is the path in the sandbox of a name in the workspace.
func inside(name string) string { return path.Join(sandbox.WorkspaceDir, name) }

// turns are how many rounds a file operation asks for, and how many samples
// of the plain engine and of the other ways each has, by the size that is
// moved.
func turns(size int) (rounds, engine, others int) {
	switch {
	case size > 1<<20:
		return 12, 2, 2
	case size > 64<<10:
		return 40, 3, 6
	}
	return 60, 3, 30
}

// A fileSample makes the sample of an operation through a file server.
type fileSample func(f sandbox.Files) sample

// withFiles is the operation that is done by plain, by the guest's file
// server over each way, and by host.
func (s *Session) withFiles(ctx context.Context, bytes int, plain sample, guest fileSample, host sample) (operation, error) {
	rounds, engine, others := turns(bytes)
	op := operation{rounds: rounds, ways: []way{{name: WayEngine, turn: engine, take: plain}}}
	if bytes >= 1<<20 {
		op.bytes = int64(bytes) // of less the rate says nothing
	}
	for _, g := range s.guests() {
		files, err := s.Rig.Files(ctx, g.sb)
		why, err := unsupported(err)
		if err != nil {
			return op, err
		}
		w := way{name: g.name, turn: others, lacks: why}
		if why == "" {
			w.take = guest(files)
		}
		op.ways = append(op.ways, w)
	}
	op.ways = append(op.ways, way{name: WayHost, turn: others, take: host})
	return op, nil
}

// read reads a whole file whose pages are in the kernel's cache.
func (s *Session) read(size int) func(context.Context) (operation, error) {
	return func(ctx context.Context) (operation, error) {
		p := s.payload
		name, err := p.place(size)
		if err != nil {
			return operation{}, err
		}
		n := 0
		check := func(context.Context) error { return p.arrived(n, size) }
		engine := timed(func(ctx context.Context) error {
			into := &sink{buf: p.in}
			err := s.plainOutput(ctx, into, "cat", inside(name))
			n = into.n
			return err
		}, check)
		guest := func(f sandbox.Files) sample {
			return timed(func(ctx context.Context) error {
				r, err := f.Read(ctx, inside(name), 0, -1)
				if err != nil {
					return err
				}
				defer r.Close()
				n, err = readAll(r, p.in)
				return err
			}, check)
		}
		host := timed(func(context.Context) error {
			f, err := p.root.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			n, err = readAll(f, p.in)
			return err
		}, check)
		return s.withFiles(ctx, size, engine, guest, host)
	}
}

// plainOutput runs args by the engine's exec, which must succeed without a
// word on standard error.
func (s *Session) plainOutput(ctx context.Context, out io.Writer, args ...string) error {
	var errOut bytes.Buffer
	code, err := s.Rig.Plain.Exec(ctx, s.Rig.Info.ID, plainCommand{Args: args, Stdout: out, Stderr: &errOut})
	return silent(code, &bytes.Buffer{}, &errOut, err)
}

// write replaces a whole file. Ours is one step and on the disk when it
// returns, and so is the host's; the plain engine's is neither.
func (s *Session) write(size int) func(context.Context) (operation, error) {
	return func(ctx context.Context) (operation, error) {
		p := s.payload
		name := path.Join(benchDir, "write-"+strconv.Itoa(size))
		ours := name + "-host" // root's: the sandbox could not write to it
		check := func(context.Context) error { return p.stored(name, size) }
		engine := timed(func(ctx context.Context) error {
			var out, errOut bytes.Buffer
			code, err := s.Rig.Plain.Exec(ctx, s.Rig.Info.ID, plainCommand{
				Args: []string{"sh", "-c", `cat > "$1"`, "sh", inside(name)}, Stdin: p.next(size), Stdout: &out, Stderr: &errOut,
			})
			return silent(code, &out, &errOut, err)
		}, check)
		guest := func(f sandbox.Files) sample {
			return timed(func(ctx context.Context) error {
				return f.Write(ctx, inside(name), bytes.NewReader(p.next(size)), sandbox.WriteOptions{})
			}, check)
		}
		host := timed(func(context.Context) error { return replace(p.root, ours, p.next(size)) },
			func(context.Context) error { return p.stored(ours, size) })
		return s.withFiles(ctx, size, engine, guest, host)
	}
}

// replace writes a file beside name, brings it to the disk, and renames it.
func replace(root *os.Root, name string, content []byte) error {
	f, err := root.Create(name + ".new")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return root.Rename(name+".new", name)
}

// stat describes one file.
func (s *Session) stat(ctx context.Context) (operation, error) {
	const size = 4 << 10
	name, err := s.payload.place(size)
	if err != nil {
		return operation{}, err
	}
	var got int64
	check := func(context.Context) error {
		if got != size {
			return wrong("the file has %d bytes, not %d", got, size)
		}
		got = 0
		return nil
	}
	engine := timed(func(ctx context.Context) error {
		var out bytes.Buffer
		err := s.plainOutput(ctx, &out, "stat", "-c", "%s", inside(name))
		if err == nil {
			got, err = strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
		}
		return err
	}, check)
	guest := func(f sandbox.Files) sample {
		return timed(func(ctx context.Context) error {
			info, err := f.Stat(ctx, inside(name))
			if err == nil {
				got = info.Size()
			}
			return err
		}, check)
	}
	host := timed(func(context.Context) error {
		info, err := s.payload.root.Stat(name)
		if err == nil {
			got = info.Size()
		}
		return err
	}, check)
	op, err := s.withFiles(ctx, 0, engine, guest, host)
	return op, err
}

// list reads a folder of many entries with the size and times of each.
func (s *Session) list(ctx context.Context) (operation, error) {
	var names []string
	check := func(context.Context) error {
		if len(names) != entries || names[0] != path.Base(entryName(0)) || names[entries-1] != path.Base(entryName(entries-1)) {
			return wrong("the listing has %d entries, or not the right ones", len(names))
		}
		names = nil
		return nil
	}
	engine := timed(func(ctx context.Context) error {
		var out bytes.Buffer
		if err := s.plainOutput(ctx, &out, "ls", "-la", inside(listDir)); err != nil {
			return err
		}
		for line := range strings.Lines(out.String()) {
			if f := strings.Fields(line); len(f) == 9 && f[8] != "." && f[8] != ".." {
				names = append(names, f[8])
			}
		}
		return nil
	}, check)
	guest := func(f sandbox.Files) sample {
		return timed(func(ctx context.Context) error {
			es, err := f.ReadDir(ctx, inside(listDir))
			return namesOf(&names, es, err)
		}, check)
	}
	host := timed(func(context.Context) error {
		d, err := s.payload.root.Open(listDir)
		if err != nil {
			return err
		}
		defer d.Close()
		return hostList(&names, d)
	}, check)
	op, err := s.withFiles(ctx, 0, engine, guest, host)
	op.rounds = 30
	for i := range op.ways {
		op.ways[i].turn = 2
	}
	return op, err
}
