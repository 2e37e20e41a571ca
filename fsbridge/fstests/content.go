package fstests

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func contentChecks() []Check {
	return []Check{
		{"read returns what was written, byte for byte", contentExact},
		{"a big file goes through", contentBig},
		{"read honours offset and limit", contentRange},
		{"a reader may be closed early", contentClosedEarly},
		{"files and commands see the same", contentAgree},
	}
}

func contentExact(r *rig) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	random := make([]byte, 1<<20+7)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(random)
	for name, content := range map[string]string{
		"empty": "", "newline": "\n", "no newline": "x", "newlines": "x\n\n\n", "nul": "\x00", "nuls": strings.Repeat("\x00", 5000),
		"every byte": string(every), "invalid utf-8": "\xff\xfe\xfa", "megabyte": string(random), "percent": "%s%d\\n$(id)`id`",
		"shell": "'\"$HOME\\\n",
	} {
		path := r.dir + "/" + name
		r.put(path, content)
		r.want(path, content)
		info, err := r.Files.Stat(r.ctx, path)
		r.must(err)
		if info.Size() != int64(len(content)) {
			r.Errorf("%s: size %d, want %d", name, info.Size(), len(content))
		}
		r.put(path, content+"again")
		r.want(path, content+"again")
	}
}

func contentBig(r *rig) {
	size := int64(testenv.Rounds(8<<20, 16<<20, 64<<20))
	sent, got := sha256.New(), sha256.New()
	source := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{2}), size), sent)
	r.must(r.Files.Write(r.ctx, r.dir+"/big", source, sandbox.WriteOptions{}))
	f, err := r.Files.Read(r.ctx, r.dir+"/big", 0, -1)
	r.must(err)
	defer f.Close()
	n, err := io.Copy(got, f)
	r.must(err)
	if n != size || !same(sent, got) {
		r.Fatalf("%d bytes came back, %d went in, or they differ", n, size)
	}
}

func same(a, b hash.Hash) bool { return bytes.Equal(a.Sum(nil), b.Sum(nil)) }

func contentRange(r *rig) {
	r.put(r.dir+"/f", "0123456789")
	for _, c := range []struct {
		offset, limit int64
		want          string
	}{
		{0, -1, "0123456789"}, {0, 0, ""}, {0, 3, "012"}, {3, -1, "3456789"}, {3, 4, "3456"},
		{9, 1, "9"}, {9, 100, "9"}, {10, -1, ""}, {10, 5, ""}, {1000, -1, ""}, {1000, 5, ""}, {0, 1 << 40, "0123456789"},
	} {
		f, err := r.Files.Read(r.ctx, r.dir+"/f", c.offset, c.limit)
		r.must(err)
		got, err := io.ReadAll(f)
		r.must(err)
		r.must(f.Close())
		if string(got) != c.want {
			r.Errorf("offset %d, limit %d: %q, want %q", c.offset, c.limit, got, c.want)
		}
	}
	_, err := r.Files.Read(r.ctx, r.dir+"/f", -1, -1)
	r.fails("a negative offset", err, sandbox.CodeValidation)
}

func contentClosedEarly(r *rig) {
	r.must(r.Files.Write(r.ctx, r.dir+"/f", io.LimitReader(rand.NewChaCha8([32]byte{3}), 8<<20), sandbox.WriteOptions{}))
	for range 5 {
		f, err := r.Files.Read(r.ctx, r.dir+"/f", 0, -1)
		r.must(err)
		_, err = io.ReadFull(f, make([]byte, 10))
		r.must(err)
		r.must(f.Close())
	}
}

func contentAgree(r *rig) {
	r.sh(`printf 'from a command' >"$1"/a`, r.dir)
	r.want(r.dir+"/a", "from a command")
	r.put(r.dir+"/b", "from a tool")
	if got := r.sh(`cat "$1"/b; printf x >>"$1"/b`, r.dir); got != "from a tool" {
		r.Errorf("a command sees %q", got)
	}
	r.want(r.dir+"/b", "from a toolx")
	r.sh(`mkdir "$1"/locked; printf x >"$1"/locked/f; printf x >"$1"/secret; printf x >"$1"/fixed
		chmod 000 "$1"/secret; chmod 444 "$1"/fixed; chmod 555 "$1"/locked`, r.dir)
	_, err := r.read(r.dir + "/secret")
	r.fails("read of a file of mode 0", err, sandbox.CodeCapabilityBlocked, fs.ErrPermission)
	err = r.Files.Write(r.ctx, r.dir+"/fixed", strings.NewReader("new"), sandbox.WriteOptions{})
	r.fails("write to a file of mode 0444", err, sandbox.CodeCapabilityBlocked, fs.ErrPermission)
	for _, o := range r.changingOps() {
		name := "/locked/new"
		if strings.HasPrefix(o.name, "re") {
			name = "/locked/f"
		}
		err := o.run(r.dir + name)
		r.fails(o.name+" in a folder of mode 0555", err, sandbox.CodeCapabilityBlocked, fs.ErrPermission)
		if errors.Is(err, syscall.EROFS) {
			r.Errorf("%s: that is no read-only file system: %v", o.name, err)
		}
	}
	r.sh(`chmod 755 "$1"/locked; test "$(ls -A "$1"/locked)" = f; test "$(cat "$1"/fixed)" = x`, r.dir)
}
