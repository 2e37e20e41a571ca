package providertest

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// fileContentChecks hold what Read and Write do with content.
func fileContentChecks() []Check {
	return []Check{
		{Name: "read returns what was written", run: onFiles(fileRoundTrip)},
		{Name: "read returns the content from offset on up to limit", run: onFiles(fileRange)},
		{Name: "files and commands see the same", run: onFiles(fileAgree)},
		{Name: "write replaces the file as one step", run: onFiles(fileAtomic)},
		{Name: "a write that fails leaves the old file and nothing else", run: onFiles(fileWriteFails)},
		{Name: "write makes missing parents", run: onFiles(fileParents)},
		{Name: "write keeps an existing mode and gives a new file its own", run: onFiles(fileModes)},
		{Name: "exclusive write fails when the file exists", run: onFiles(fileExclusive)},
	}
}

func fileRoundTrip(f *fileRig) {
	for name, content := range map[string]string{
		"empty": "", "text": "text\n", "nul": "\x00", "all": everyByte(), "a b\nc": "odd name", "-rf": "dash",
		"large": strings.Repeat(everyByte(), 12<<10), // 3 MiB
	} {
		path := f.dir + "/" + name
		f.put(path, content)
		f.holds(path, content)
		f.put(path, "again")
		f.holds(path, "again")
	}
}

func fileRange(f *fileRig) {
	path := f.dir + "/f"
	f.put(path, "0123456789")
	for _, tt := range []struct {
		offset, limit int64
		want          string
	}{
		{0, -1, "0123456789"}, {3, -1, "3456789"}, {3, -7, "3456789"}, {3, 4, "3456"}, {0, 0, ""}, {9, 5, "9"}, {10, -1, ""}, {50, 5, ""},
	} {
		if got, err := f.get(f.ctx, path, tt.offset, tt.limit); err != nil || got != tt.want {
			f.Errorf("offset %d, limit %d: %q, %v; want %q", tt.offset, tt.limit, got, err, tt.want)
		}
	}
	_, err := f.get(f.ctx, path, -1, -1)
	f.fails("a negative offset", err, sandbox.CodeValidation)
}

func fileAgree(f *fileRig) {
	f.put(f.dir+"/tool", "from a tool")
	if got := f.sh(`cat "$1/tool"; printf ' and a command' >>"$1/tool"; printf x >"$1/command"`, f.dir); got != "from a tool" {
		f.Errorf("a command sees %q", got)
	}
	f.holds(f.dir+"/tool", "from a tool and a command")
	f.holds(f.dir+"/command", "x")
	if err := f.files.Remove(f.ctx, f.dir+"/command", false); err != nil {
		f.Errorf("Remove of a command's file: %v", err)
	}
	f.sh(`[ ! -e "$1/command" ]; [ -w "$1/tool" ]`, f.dir)
	f.put("/tmp/tool", "x") // a tmpfs is a mount, too
	if got := f.sh("cat /tmp/tool"); got != "x" {
		f.Errorf("a command sees %q on the tmpfs", got)
	}
	// Another handle serves the same.
	again := *f
	again.files = f.serve(f.open(f.spec))
	again.holds(f.dir+"/tool", "from a tool and a command")
}

// fileAtomic reads while others write: whatever is read is one whole content.
func fileAtomic(f *fileRig) {
	path := f.dir + "/f"
	content := func(letter int) string { return strings.Repeat(string(rune('a'+letter)), 200<<10) }
	f.put(path, content(0))
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := range 10 {
				if err := f.files.Write(f.ctx, path, strings.NewReader(content(w*10+i)), sandbox.WriteOptions{}); err != nil {
					f.Errorf("Write: %v", err)
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { defer close(written); writers.Wait() }()
	for reading := true; reading; {
		select {
		case <-written:
			reading = false
		default:
		}
		got, err := f.get(f.ctx, path, 0, -1)
		if err != nil || len(got) != 200<<10 || strings.Trim(got, got[:1]) != "" {
			f.Errorf("a reader saw %d bytes %.20q…, %v", len(got), got, err)
			reading = false
		}
	}
	<-written
	// A reader that began before goes on with what it began with.
	old, err := f.get(f.ctx, path, 0, -1)
	f.must("Read", err)
	r, err := f.files.Read(f.ctx, path, 0, -1)
	f.must("Read", err)
	defer r.Close()
	half := make([]byte, 100)
	_, err = io.ReadFull(r, half)
	f.must("Read", err)
	f.put(path, "short")
	rest, err := io.ReadAll(r)
	if err != nil || string(half)+string(rest) != old {
		f.Errorf("a reader that began before the write got %d bytes, %v", len(half)+len(rest), err)
	}
	if got := f.names(f.dir); got != "f" {
		f.Errorf("beside the file is %q", got)
	}
}

var errSource = errors.New("the source broke")

// A breaking reader gives n bytes and fails then.
type breaking struct{ n int }

func (b *breaking) Read(p []byte) (int, error) {
	if b.n == 0 {
		return 0, errSource
	}
	n := min(b.n, len(p))
	b.n -= n
	return n, nil
}

func fileWriteFails(f *fileRig) {
	path := f.dir + "/f"
	f.put(path, "old")
	for _, n := range []int{0, 10, 2 << 20} {
		for _, name := range []string{path, f.dir + "/new"} {
			err := f.files.Write(f.ctx, name, &breaking{n}, sandbox.WriteOptions{})
			if !errors.Is(err, errSource) {
				f.Errorf("a source that breaks after %d bytes: %v", n, err)
			}
		}
	}
	full := f.small + "/f"
	f.put(full, "old")
	for _, o := range []sandbox.WriteOptions{{}, {Exclusive: true}} {
		name := full
		if o.Exclusive {
			name = f.small + "/new"
		}
		err := f.files.Write(f.ctx, name, io.LimitReader(endless{}, 2*smallSize), o)
		f.fails("overfilling a mount", err, sandbox.CodeBudgetExceeded, syscall.ENOSPC)
	}
	f.holds(path, "old")
	f.holds(full, "old")
	if got := f.names(f.dir) + " " + f.names(f.small); got != "f f" {
		f.Errorf("left are %q", got)
	}
}

func fileParents(f *fileRig) {
	path := f.dir + "/made/on/the way/f"
	f.put(path, "x")
	f.holds(path, "x")
	f.mode(f.dir+"/made/on", fs.ModeDir|0o755)
	f.must("exclusive Write", f.files.Write(f.ctx, f.dir+"/also/made/f", strings.NewReader(""), sandbox.WriteOptions{Exclusive: true}))
	err := f.files.Write(f.ctx, path+"/below", strings.NewReader(""), sandbox.WriteOptions{})
	f.fails("Write below a file", err, sandbox.CodeValidation, syscall.ENOTDIR)
}

func fileModes(f *fileRig) {
	f.put(f.dir+"/default", "")
	f.mode(f.dir+"/default", 0o644)
	for _, perm := range []fs.FileMode{0o600, 0o640, 0o755} {
		path := f.dir + "/" + perm.String()
		write := func(content string, perm fs.FileMode) {
			f.Helper()
			f.must("Write", f.files.Write(f.ctx, path, strings.NewReader(content), sandbox.WriteOptions{Perm: perm}))
		}
		write("", perm)
		f.mode(path, perm)
		write("other content", 0o666)
		f.mode(path, perm)
	}
}

func fileExclusive(f *fileRig) {
	f.sh(`cd "$1"; printf old >f; mkdir d; ln -s f link; ln -s nowhere dangling`, f.dir)
	only := sandbox.WriteOptions{Exclusive: true}
	for _, name := range []string{"f", "d", "link", "dangling"} {
		err := f.files.Write(f.ctx, f.dir+"/"+name, strings.NewReader("new"), only)
		f.fails("exclusive Write of "+name, err, sandbox.CodeValidation, fs.ErrExist)
	}
	f.holds(f.dir+"/f", "old")
	const callers = 8
	var won sync.Map
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			err := f.files.Write(f.ctx, f.dir+"/one", strings.NewReader("new"), only)
			if err == nil {
				won.Store(i, true)
			} else if !errors.Is(err, fs.ErrExist) {
				f.Errorf("a loser got %v", err)
			}
		})
	}
	wg.Wait()
	winners := 0
	won.Range(func(any, any) bool { winners++; return true })
	if winners != 1 {
		f.Errorf("%d of %d exclusive writes succeeded, want 1", winners, callers)
	}
	if got := f.names(f.dir); got != "d dangling f link one" {
		f.Errorf("left are %q", got)
	}
}
