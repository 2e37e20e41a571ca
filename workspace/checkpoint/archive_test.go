package checkpoint

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

func home(text string) Archive {
	return Archive{Name: "home", Target: "/home/agent", Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

// withoutOwners describes a tree but for its owners and the times of folders.
func withoutOwners(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := snapshot(t, dir)
	for p, line := range out {
		mode, rest, _ := strings.Cut(line, " ")
		_, rest, _ = strings.Cut(rest, " ")
		out[p] = mode + " " + rest
	}
	return out
}

func TestExportImport(t *testing.T) {
	t.Parallel()
	eachMeans(t, func(t *testing.T, s *Store) {
		plain(t, s, ws, someFiles())
		dir := s.Path(ws)
		must(t, os.Link(filepath.Join(dir, "a.txt"), filepath.Join(dir, "dir", "again")))
		must(t, os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600))
		must(t, os.Truncate(filepath.Join(dir, "sparse"), 8<<20))
		own(t, filepath.Join(dir, "sparse"), user())
		must(t, unix.Setxattr(filepath.Join(dir, "a.txt"), "user.x=y", []byte("v\x00\"w"), 0))
		must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
		must(t, os.Chmod(filepath.Join(dir, "b.txt"), 0o755|os.ModeSetuid))
		create(t, s, ws, CreateOptions{})
		write(t, dir, map[string]string{"dir/c.txt": "changed"}, user())
		must(t, os.RemoveAll(filepath.Join(dir, "dir/sub")))
		r := create(t, s, ws, CreateOptions{Tenant: "acme", Sandbox: ws, Shells: []sandbox.ShellState{{ID: "1", Dir: "/workspace", Content: []byte("A=b")}}, Archives: []Archive{home("a tar file")}})

		var file, second bytes.Buffer
		report, err := s.Export(t.Context(), r.ID, &file)
		must(t, err)
		again, err := s.Export(t.Context(), r.ID, &second)
		must(t, err)
		if report.Digest != again.Digest || report.Entries != again.Entries {
			t.Errorf("two exports are %+v and %+v", report, again)
		}
		if file.Len() > 1<<20 {
			t.Errorf("the file has %d bytes", file.Len())
		}
		z, err := zstd.NewReader(bytes.NewReader(file.Bytes()))
		must(t, err)
		all, err := io.ReadAll(z)
		must(t, err)
		for _, secret := range []string{s.root, "acme", ws} {
			if bytes.Contains(all, []byte(secret)) {
				t.Errorf("%q is in the file", secret)
			}
		}

		other := newStore(t, Options{})
		got, err := other.Import(t.Context(), bytes.NewReader(file.Bytes()), ImportOptions{Name: "moved", Tenant: "other"})
		must(t, err)
		if got.Tenant != "other" || got.ID == r.ID || len(got.Shells) != 1 || string(got.Shells[0].Content) != "A=b" {
			t.Errorf("the record is %+v", got)
		}
		must(t, other.Fork(t.Context(), "moved", "sbx-b", otherUser()))
		want := withoutOwners(t, dir)
		delete(want, "pipe")
		want["b.txt"] = strings.Replace(want["b.txt"], "urwx", "-rwx", 1)
		same(t, "imported", withoutOwners(t, other.Path("sbx-b")), want)
		fi, err := os.Stat(filepath.Join(other.Path("sbx-b"), "sparse"))
		must(t, err)
		if n := blocksOf(fi); n > 64 {
			t.Errorf("the sparse file has %d blocks", n)
		}
		x, err := getxattr(filepath.Join(other.Path("sbx-b"), "a.txt"), "user.x=y")
		if err != nil || x != "v\x00\"w" {
			t.Errorf("the attribute is %q, %v", x, err)
		}
		in, err := other.OpenArchive("moved", "home")
		must(t, err)
		text, err := io.ReadAll(in)
		must(t, err)
		must(t, in.Close())
		if string(text) != "a tar file" {
			t.Errorf("the archive is %q", text)
		}
		// The digest does not depend on the machine.
		twice, err := other.Export(t.Context(), "moved", io.Discard)
		must(t, err)
		if twice.Entries != report.Entries {
			t.Errorf("exported again there are %d entries, not %d", twice.Entries, report.Entries)
		}
	})
}

// TestExportPrivate holds that the base is in the file, and its path is not.
func TestExportPrivate(t *testing.T) {
	eachMeans(t, func(t *testing.T, s *Store) {
		base := filepath.Join(t.TempDir(), "base")
		must(t, os.Mkdir(base, 0o755))
		write(t, base, someFiles(), user())
		must(t, s.Private(t.Context(), ws, base, user()))
		write(t, s.Path(ws), map[string]string{"n": "new"}, user())
		r := create(t, s, ws, CreateOptions{})
		var file bytes.Buffer
		_, err := s.Export(t.Context(), r.ID, &file)
		must(t, err)
		z, err := zstd.NewReader(bytes.NewReader(file.Bytes()))
		must(t, err)
		all, _ := io.ReadAll(z)
		if bytes.Contains(all, []byte(base)) {
			t.Error("the path of the base is in the file")
		}
		_, err = s.Import(t.Context(), &file, ImportOptions{Name: "moved"})
		must(t, err)
		must(t, s.Fork(t.Context(), "moved", "sbx-b", user()))
		same(t, "imported", withoutOwners(t, s.Path("sbx-b")), withoutOwners(t, s.Path(ws)))
	})
}

// A fileEntry is one entry of a made-up file.
type fileEntry struct {
	h    tar.Header
	text string
}

func text(name, content string) fileEntry {
	return fileEntry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, content}
}

func folder(name string) fileEntry {
	return fileEntry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}

func special(kind byte, name, to string) fileEntry {
	return fileEntry{tar.Header{Typeflag: kind, Name: name, Linkname: to, Mode: 0o777}, ""}
}

// madeUp writes a file whose digest is right.
func madeUp(t testing.TB, entries ...fileEntry) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	must(t, err)
	w := tar.NewWriter(z)
	all := sha256.New()
	n := int64(0)
	add := func(e fileEntry) {
		h := e.h
		h.Format = tar.FormatPAX
		if h.ModTime.IsZero() {
			h.ModTime = time.Unix(0, 0)
		}
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, e.text)
		must(t, err)
		n++
		d := Entry{Path: strings.TrimSuffix(h.Name, "/"), Type: typeFile, Mode: uint32(h.Mode), Size: h.Size, Link: h.Linkname}
		switch h.Typeflag {
		case tar.TypeDir:
			d.Type = typeDir
		case tar.TypeSymlink:
			d.Type = typeLink
		case tar.TypeReg:
			d.Digest = digestOf([]byte(e.text))
		}
		addDigest(all, d)
	}
	head, err := json.Marshal(exportHead{Version: 1, Record: Record{Trees: []Tree{{Name: "home", Target: "/home/x"}}}})
	must(t, err)
	add(text(exportRecord, string(head)))
	for _, e := range entries {
		add(e)
	}
	sum, err := json.Marshal(exportSum{n, hex.EncodeToString(all.Sum(nil))})
	must(t, err)
	add(text(exportDigest, string(sum)))
	must(t, w.Close())
	must(t, z.Close())
	return out.Bytes()
}

// TestImportHostile holds that a file of unknown origin reaches nothing
// outside of its own folder, and that nothing is kept of one that is refused.
func TestImportHostile(t *testing.T) {
	s := newStore(t, Options{Means: Copy})
	root := folder("workspace/")
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("untouched"), 0o600))
	good := madeUp(t, root, text("workspace/a", "x"))
	damaged := bytes.Clone(good)
	damaged[len(damaged)/2] ^= 1
	for name, file := range map[string][]byte{
		"empty":                    {},
		"no zstd":                  []byte("PK\x03\x04 something else"),
		"cut":                      good[:len(good)-10],
		"damaged":                  damaged,
		"followed":                 append(bytes.Clone(good), good...),
		"no workspace":             madeUp(t),
		"file before folder":       madeUp(t, text("workspace/a", "x")),
		"dots":                     madeUp(t, root, text("workspace/../a", "x")),
		"dots at the end":          madeUp(t, root, folder("workspace/d/"), text("workspace/d/..", "x")),
		"dot":                      madeUp(t, root, text("workspace/./a", "x")),
		"double slash":             madeUp(t, root, text("workspace//a", "x")),
		"absolute":                 madeUp(t, root, text("/etc/passwd", "x")),
		"absolute inside":          madeUp(t, root, text("workspace//etc/passwd", "x")),
		"elsewhere":                madeUp(t, root, text("data/x", "x")),
		"through a link":           madeUp(t, root, special(tar.TypeSymlink, "workspace/l", filepath.Dir(outside)), text("workspace/l/outside", "x")),
		"through a link to inside": madeUp(t, root, folder("workspace/d/"), special(tar.TypeSymlink, "workspace/l", "d"), text("workspace/l/f", "x")),
		"over a link":              madeUp(t, root, special(tar.TypeSymlink, "workspace/l", outside), text("workspace/l", "x")),
		"hard link outside":        madeUp(t, root, special(tar.TypeLink, "workspace/h", outside)),
		"hard link up":             madeUp(t, root, special(tar.TypeLink, "workspace/h", "workspace/../../layer.json")),
		"hard link to later":       madeUp(t, root, special(tar.TypeLink, "workspace/h", "workspace/a"), text("workspace/a", "x")),
		"hard link to a folder":    madeUp(t, root, folder("workspace/d/"), special(tar.TypeLink, "workspace/h", "workspace/d")),
		"hard link through a link": madeUp(t, root, special(tar.TypeSymlink, "workspace/l", "/etc"), special(tar.TypeLink, "workspace/h", "workspace/l/passwd")),
		"device":                   madeUp(t, root, special(tar.TypeChar, "workspace/null", "")),
		"block device":             madeUp(t, root, special(tar.TypeBlock, "workspace/sda", "")),
		"pipe":                     madeUp(t, root, special(tar.TypeFifo, "workspace/p", "")),
		"twice":                    madeUp(t, root, text("workspace/a", "x"), text("workspace/a", "y")),
		"folder twice":             madeUp(t, root, root),
		"file as folder":           madeUp(t, root, text("workspace/a", "x"), text("workspace/a/b", "x")),
		"root as file":             madeUp(t, text("workspace", "x")),
		"link without target":      madeUp(t, root, special(tar.TypeSymlink, "workspace/l", "")),
		"long target":              madeUp(t, root, special(tar.TypeSymlink, "workspace/l", strings.Repeat("x", 5000))),
		"long name":                madeUp(t, root, text("workspace/"+strings.Repeat("x", 256), "x")),
		"archive elsewhere":        madeUp(t, root, text("archives/../x.tar.zst", "x")),
		"archive without record":   madeUp(t, root, text("archives/other.tar.zst", "x")),
		"archive twice":            madeUp(t, root, text("archives/home.tar.zst", "x"), text("archives/home.tar.zst", "x")),
		"archive as link":          madeUp(t, root, special(tar.TypeSymlink, "archives/home.tar.zst", outside)),
		"record twice":             madeUp(t, root, text(exportRecord, "{}")),
		"digest twice":             madeUp(t, root, text(exportDigest, "{}")),
		"attribute of the system":  madeUp(t, root, fileEntry{tar.Header{Typeflag: tar.TypeReg, Name: "workspace/a", Mode: 0o644, PAXRecords: map[string]string{exportXattrs: `"trusted.overlay.opaque" "y"`}}, ""}),
		"attribute unquoted":       madeUp(t, root, fileEntry{tar.Header{Typeflag: tar.TypeReg, Name: "workspace/a", Mode: 0o644, PAXRecords: map[string]string{exportXattrs: `x y`}}, ""}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Import(t.Context(), bytes.NewReader(file), ImportOptions{})
			wantCode(t, "import", err, sandbox.CodeValidation)
			for _, sub := range []string{"data", "tmp", "trash", "records"} {
				if names, err := readNames(s.path(sub), 5); err != nil || len(names) > 0 {
					t.Errorf("%s has %v, %v", sub, names, err)
				}
			}
			if data, _ := os.ReadFile(outside); string(data) != "untouched" {
				t.Errorf("the file outside is %q", data)
			}
		})
	}
	if _, err := s.Import(t.Context(), bytes.NewReader(good), ImportOptions{}); err != nil {
		t.Errorf("a good file is refused: %v", err)
	}
	// A large file of zeros takes no room, and one of other bytes is bounded.
	s.o.MaxBytes = 1 << 20
	for content, code := range map[string]sandbox.Code{strings.Repeat("\x00", 8<<20): "", strings.Repeat("x", 2<<20): sandbox.CodeBudgetExceeded} {
		_, err := s.Import(t.Context(), bytes.NewReader(madeUp(t, root, text("workspace/a", content))), ImportOptions{})
		if sandbox.CodeOf(err) != code {
			t.Errorf("%d bytes of %q: %v", len(content), content[0], err)
		}
	}
}

// FuzzImport holds that no file makes Import panic or leave something behind.
func FuzzImport(f *testing.F) {
	root := folder("workspace/")
	f.Add(madeUp(f, root, text("workspace/a", "x")))
	f.Add(madeUp(f, root, special(tar.TypeSymlink, "workspace/l", "/etc"), text("workspace/l/x", "x")))
	f.Add([]byte{})
	s := newStore(f, Options{Means: Copy, MaxBytes: 1 << 20})
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := s.Import(t.Context(), bytes.NewReader(file), ImportOptions{})
		if err == nil {
			must(t, s.Remove(t.Context(), r.ID))
		}
		if names, _ := readNames(s.path("data"), 1); len(names) > 0 {
			t.Errorf("%v is left after %v", names, err)
		}
	})
}

func blocksOf(fi os.FileInfo) int64 { return fi.Sys().(*syscall.Stat_t).Blocks }
