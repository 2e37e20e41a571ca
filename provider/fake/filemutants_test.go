package fake_test

import (
	"context"
	"io"
	"io/fs"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// brokenFiles are files with single methods replaced.
type brokenFiles struct {
	sandbox.Files
	read    func(f sandbox.Files, ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error)
	write   func(f sandbox.Files, ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error
	mkdir   func(f sandbox.Files, ctx context.Context, path string, perm fs.FileMode) error
	remove  func(f sandbox.Files, ctx context.Context, path string, recursive bool) error
	rename  func(f sandbox.Files, ctx context.Context, from, to string) error
	stat    func(f sandbox.Files, ctx context.Context, path string) (fs.FileInfo, error)
	readdir func(f sandbox.Files, ctx context.Context, path string) ([]fs.DirEntry, error)
	fail    func(error) error // rewrites every error
}

func (b brokenFiles) failed(err error) error {
	if err != nil && b.fail != nil {
		return b.fail(err)
	}
	return err
}

func (b brokenFiles) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	do := sandbox.Files.Read
	if b.read != nil {
		do = b.read
	}
	r, err := do(b.Files, ctx, path, offset, limit)
	return r, b.failed(err)
}

func (b brokenFiles) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	do := sandbox.Files.Write
	if b.write != nil {
		do = b.write
	}
	return b.failed(do(b.Files, ctx, path, r, o))
}

func (b brokenFiles) Mkdir(ctx context.Context, path string, perm fs.FileMode) error {
	do := sandbox.Files.Mkdir
	if b.mkdir != nil {
		do = b.mkdir
	}
	return b.failed(do(b.Files, ctx, path, perm))
}

func (b brokenFiles) Remove(ctx context.Context, path string, recursive bool) error {
	do := sandbox.Files.Remove
	if b.remove != nil {
		do = b.remove
	}
	return b.failed(do(b.Files, ctx, path, recursive))
}

func (b brokenFiles) Rename(ctx context.Context, from, to string) error {
	do := sandbox.Files.Rename
	if b.rename != nil {
		do = b.rename
	}
	return b.failed(do(b.Files, ctx, from, to))
}

func (b brokenFiles) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	do := sandbox.Files.Stat
	if b.stat != nil {
		do = b.stat
	}
	info, err := do(b.Files, ctx, path)
	return info, b.failed(err)
}

func (b brokenFiles) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	do := sandbox.Files.ReadDir
	if b.readdir != nil {
		do = b.readdir
	}
	list, err := do(b.Files, ctx, path)
	return list, b.failed(err)
}

// withFiles breaks the files of the provider.
func withFiles(b brokenFiles) func(*providertest.Harness) {
	return with(broken{files: func(f sandbox.Files) sandbox.Files {
		b := b
		b.Files = f
		return b
	}})
}

// recoded returns a rewriting of errors that turns one code into another.
func recoded(from, to sandbox.Code) func(error) error {
	return func(err error) error {
		if sandbox.CodeOf(err) == from {
			return &sandbox.Error{Code: to, Err: err}
		}
		return err
	}
}

func fileMutants() []mutant { return append(contentMutants(), changeMutants()...) }

type writing = func(f sandbox.Files, ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error

// inTwoSteps are files of which all writes but the first leave half of a file
// until one is read.
func inTwoSteps() brokenFiles {
	var writes atomic.Int32
	var half atomic.Bool
	looked := make(chan struct{})
	look := sync.OnceFunc(func() { close(looked) })
	return brokenFiles{
		read: func(f sandbox.Files, ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
			seen := half.Load()
			r, err := f.Read(ctx, name, offset, limit)
			if seen {
				look()
			}
			return r, err
		},
		write: func(f sandbox.Files, ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
			b, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			if writes.Add(1) > 1 {
				if err := f.Write(ctx, name, strings.NewReader(string(b[:len(b)/2])), o); err != nil {
					return err
				}
				half.Store(true)
				select {
				case <-looked:
				case <-ctx.Done():
				}
			}
			return f.Write(ctx, name, strings.NewReader(string(b)), o)
		},
	}
}

func contentMutants() []mutant {
	written := func(change func(name string, r io.Reader, o *sandbox.WriteOptions) (string, io.Reader)) writing {
		return func(f sandbox.Files, ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
			name, r = change(name, r, &o)
			return f.Write(ctx, name, r, o)
		}
	}
	return []mutant{
		{"content is text", "read returns what was written", withFiles(brokenFiles{
			write: written(func(name string, r io.Reader, _ *sandbox.WriteOptions) (string, io.Reader) {
				b, _ := io.ReadAll(r) // the check's own, which does not fail
				return name, strings.NewReader(strings.ToValidUTF8(string(b), "?"))
			})})},
		{"the limit is ignored", "read returns the content from offset on up to limit", withFiles(brokenFiles{
			read: func(f sandbox.Files, ctx context.Context, name string, offset, _ int64) (io.ReadCloser, error) {
				return f.Read(ctx, name, offset, -1)
			}})},
		{"the offset is ignored", "read returns the content from offset on up to limit", withFiles(brokenFiles{
			read: func(f sandbox.Files, ctx context.Context, name string, _, limit int64) (io.ReadCloser, error) {
				return f.Read(ctx, name, 0, limit)
			}})},
		{"files have a place of their own", "files and commands see the same", withFiles(brokenFiles{
			write: written(func(name string, r io.Reader, _ *sandbox.WriteOptions) (string, io.Reader) { return name + ".tool", r }),
			read: func(f sandbox.Files, ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
				return f.Read(ctx, name+".tool", offset, limit)
			}})},
		{"a write comes in two steps", "write replaces the file as one step", withFiles(inTwoSteps())},
		{"a failed write leaves its part", "a write that fails leaves the old file and nothing else", withFiles(brokenFiles{
			write: func(f sandbox.Files, ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
				err := f.Write(ctx, name, r, o)
				if err != nil {
					f.Write(ctx, name+".part", strings.NewReader(""), o)
				}
				return err
			}})},
		{"a failed write cuts the file", "a write that fails leaves the old file and nothing else", withFiles(brokenFiles{
			write: func(f sandbox.Files, ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
				err := f.Write(ctx, name, r, o)
				if err != nil && !strings.HasSuffix(name, "/new") {
					f.Write(ctx, name, strings.NewReader(""), o)
				}
				return err
			}})},
		{"parents are not made", "write makes missing parents", withFiles(brokenFiles{
			write: func(f sandbox.Files, ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
				if _, err := f.Stat(ctx, path.Dir(name)); err != nil {
					return err
				}
				return f.Write(ctx, name, r, o)
			}})},
		{"the mode asked for is ignored", "write keeps an existing mode and gives a new file its own", withFiles(brokenFiles{
			write: written(func(name string, r io.Reader, o *sandbox.WriteOptions) (string, io.Reader) {
				o.Perm = 0
				return name, r
			})})},
		{"an existing mode is lost", "write keeps an existing mode and gives a new file its own", withFiles(brokenFiles{
			write: func(f sandbox.Files, ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
				f.Remove(ctx, name, false) // nothing there is fine
				return f.Write(ctx, name, r, o)
			}})},
		{"exclusive is ignored", "exclusive write fails when the file exists", withFiles(brokenFiles{
			write: written(func(name string, r io.Reader, o *sandbox.WriteOptions) (string, io.Reader) {
				o.Exclusive = false
				return name, r
			})})},
	}
}

func changeMutants() []mutant {
	forgotten := func(f sandbox.Files, ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
		return f.Write(context.WithoutCancel(ctx), name, r, o)
	}
	return []mutant{
		{"mkdir makes parents", "mkdir makes one folder whose parent exists", withFiles(brokenFiles{
			mkdir: func(f sandbox.Files, ctx context.Context, name string, perm fs.FileMode) error {
				return fsbridge.MkdirAll(ctx, f, name, perm)
			}})},
		{"remove always takes trees", "remove takes files, links and empty folders, and trees when told to", withFiles(brokenFiles{
			remove: func(f sandbox.Files, ctx context.Context, name string, _ bool) error {
				return f.Remove(ctx, name, true)
			}})},
		{"rename replaces nothing", "rename replaces what is there", withFiles(brokenFiles{
			rename: func(f sandbox.Files, ctx context.Context, from, to string) error {
				if _, err := f.Stat(ctx, to); err == nil {
					return &sandbox.Error{Code: sandbox.CodeValidation, Err: fs.ErrExist}
				}
				return f.Rename(ctx, from, to)
			}})},
		{"stat describes links", "stat follows links in their mount", withFiles(brokenFiles{
			stat: func(f sandbox.Files, ctx context.Context, name string) (fs.FileInfo, error) {
				return f.(fsbridge.Linker).Lstat(ctx, name)
			}})},
		{"entries are not sorted", "readdir returns the entries sorted by name", withFiles(brokenFiles{
			readdir: func(f sandbox.Files, ctx context.Context, name string) ([]fs.DirEntry, error) {
				list, err := f.ReadDir(ctx, name)
				slices.Reverse(list)
				return list, err
			}})},
		{"missing is called malformed", "nothing there is not found", withFiles(brokenFiles{
			fail: recoded(sandbox.CodeNotFound, sandbox.CodeValidation)})},
		{"outside is called missing", "a path outside every mount is blocked", withFiles(brokenFiles{
			fail: recoded(sandbox.CodeCapabilityBlocked, sandbox.CodeNotFound)})},
		{"malformed is called blocked", "a malformed path is refused", withFiles(brokenFiles{
			fail: recoded(sandbox.CodeValidation, sandbox.CodeCapabilityBlocked)})},
		{"links are followed anywhere", "a link that leads out of its mount is not followed", withFiles(brokenFiles{
			write: func(f sandbox.Files, ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
				if rest, ok := strings.CutPrefix(name, sandbox.WorkspaceDir+"/providertest/dir/"); ok {
					name = "/providertest-small/" + rest
				}
				return f.Write(ctx, name, r, o)
			}})},
		{"read-only mounts are writable", "read-only mounts are read-only for files", with(broken{
			create: func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
				s.Mounts = slices.Clone(s.Mounts)
				for i := range s.Mounts {
					s.Mounts[i].ReadOnly = false
				}
				return p.Create(ctx, s)
			}})},
		{"the context of a write is forgotten", "a file operation under an ended context does nothing", withFiles(brokenFiles{write: forgotten})},
		{"the context of a read is forgotten", "a read that is called off ends", withFiles(brokenFiles{
			read: func(f sandbox.Files, ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
				return f.Read(context.WithoutCancel(ctx), name, offset, limit)
			}})},
		{"files outlive their handle", "files of a closed handle are unavailable", with(broken{
			close: func(sandbox.Sandbox) error { return nil }})},
		{"a destroyed sandbox has no files", "files of a destroyed sandbox are unavailable, not missing", withFiles(brokenFiles{
			fail: recoded(sandbox.CodeUnavailable, sandbox.CodeNotFound)})},
	}
}

// A brokenConn changes what is written.
type brokenConn struct {
	net.Conn
	write func(c net.Conn, b []byte) (int, error)
}

func (c brokenConn) Write(b []byte) (int, error) { return c.write(c.Conn, b) }

type dialling = func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error)

// through returns a Dial whose connections write otherwise.
func through(write func(c net.Conn, b []byte) (int, error)) dialling {
	return func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d.Dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return brokenConn{c, write}, nil
	}
}

func networkMutants() []mutant {
	return []mutant{
		{"a connection cleans to UTF-8", "a connection reaches a listener inside", with(broken{
			dial: through(func(c net.Conn, b []byte) (int, error) {
				_, err := io.WriteString(c, strings.ToValidUTF8(string(b), "?"))
				return len(b), err
			})})},
		{"a connection loses its end", "a connection carries much both ways at once", with(broken{
			dial: through(func(c net.Conn, b []byte) (int, error) {
				_, err := c.Write(b[:min(len(b), 1<<20)])
				return len(b), err
			})})},
		{"there is one connection for all", "many connections at once are apart", oneConnection},
		{"a listener takes its connections along", "a connection outlives its listener, whose address is free", with(broken{
			listen: func(l sandbox.Listener, ctx context.Context, network, addr string) (net.Listener, error) {
				at, err := l.Listen(ctx, network, addr)
				return &greedyListener{Listener: at}, err
			}})},
		{"refused is called missing", "nobody listening is told", with(broken{
			dial: func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := d.Dial(ctx, network, addr)
				if err != nil {
					return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Err: err}
				}
				return c, nil
			}})},
		{"the loopback is the host's", "the inside is neither the host nor another sandbox", with(broken{
			dial: func(_ sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
				var d net.Dialer
				c, err := d.DialContext(ctx, network, addr)
				if err != nil {
					return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Err: err}
				}
				return c, nil
			},
			listen: func(_ sandbox.Listener, ctx context.Context, network, addr string) (net.Listener, error) {
				var c net.ListenConfig
				return c.Listen(ctx, network, addr)
			}})},
		{"the context of a connection is forgotten", "dialling under an ended context connects nothing", with(broken{
			dial: func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
				return d.Dial(context.WithoutCancel(ctx), network, addr)
			}})},
		{"connections outlive their handle", "close of the handle ends its listeners and connections", with(broken{
			close: func(sandbox.Sandbox) error { return nil }})},
	}
}

// oneConnection hands the same connection out to everybody.
func oneConnection(h *providertest.Harness) {
	var once sync.Once
	var c net.Conn
	var err error
	with(broken{dial: func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error) {
		once.Do(func() { c, err = d.Dial(ctx, network, addr) })
		return c, err
	}})(h)
}
