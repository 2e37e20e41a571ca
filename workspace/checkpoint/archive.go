package checkpoint

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/workspace"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// An exported checkpoint is a tar file, compressed with zstd, of these entries
// in this order:
//
//	checkpoint.json          the record, without what holds for one machine alone
//	workspace/…              the files of the workspace, parents before children
//	archives/NAME.tar.zst    the further folders
//	digest.json              SHA-256 of all before
//
// The digest is that of the lines of a manifest, one for each entry, which hold
// its name, type, mode, size, time, link, extended attributes and the SHA-256 of
// its content. So it does not depend on how tar and zstd write them.
const (
	exportRecord    = "checkpoint.json"
	exportWorkspace = "workspace"
	exportArchives  = "archives"
	exportDigest    = "digest.json"
	exportVersion   = 1
	exportXattrs    = "SANDBOX.xattrs" // PAX record: quoted names and values
)

// Bounds of an imported file.
const (
	maxImportBytes  = 1 << 40 // of all files, holes included, where no other bound is set
	maxImportWindow = 64 << 20
	maxImportXattrs = 256 << 10
	holeSize        = 4096
	maxComponent    = 255
	maxLink         = 4095
)

type exportHead struct {
	Version int    `json:"version"`
	Record  Record `json:"record"`
}

type exportSum struct {
	Entries int64  `json:"entries"`
	SHA256  string `json:"sha256"`
}

// An ExportReport says what a file of an exported checkpoint has.
type ExportReport struct {
	Entries int64
	Bytes   int64   // of the files, uncompressed
	Digest  string  // SHA-256 over all entries
	LeftOut LeftOut // pipes, sockets and devices
}

const opExport, opImport = "export checkpoint", "import checkpoint"

// Export writes the checkpoint ref to w as one file: a tar file, compressed
// with zstd, with SHA-256 digests and without a path or a user of this machine.
// A private workspace's base is in it as it is now.
func (s *Store) Export(ctx context.Context, ref string, w io.Writer) (ExportReport, error) {
	r, err := s.find(ref, nil)
	if err != nil {
		return ExportReport{}, err
	}
	z, err := zstd.NewWriter(w, zstd.WithWindowSize(8<<20))
	if err != nil {
		return ExportReport{}, fail(opExport, r.ID, err)
	}
	e := &exporter{s: s, ctx: ctx, r: r, tar: tar.NewWriter(z), all: sha256.New(), buf: make([]byte, bufferSize)}
	err = e.run()
	if err == nil {
		err = e.tar.Close()
	}
	if e := z.Close(); err == nil {
		err = e
	}
	if err != nil {
		return ExportReport{}, fail(opExport, r.ID, err)
	}
	return e.report, nil
}

type exporter struct {
	s      *Store
	ctx    context.Context
	r      Record
	tar    *tar.Writer
	all    hash.Hash
	buf    []byte
	report ExportReport
	links  map[inode]string
}

// note adds an entry to the digest.
func addDigest(all hash.Hash, e Entry) {
	e.UID, e.GID, e.CTime, e.Ino = 0, 0, 0, 0
	_, _ = all.Write(e.appendTo(nil))
}

func (e *exporter) run() error {
	head := exportHead{Version: exportVersion, Record: e.r}
	r := &head.Record
	r.Workspace, r.Sandbox, r.Tenant, r.Agent, r.Session, r.Parent = "", "", "", "", "", ""
	r.Trees = nil
	for _, t := range e.r.Trees {
		r.Trees = append(r.Trees, Tree{Name: t.Name, Target: t.Target})
	}
	data, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return err
	}
	if err := e.bytes(exportRecord, data); err != nil {
		return err
	}
	for _, t := range e.r.Trees {
		if t.Archive != "" {
			err = e.archive(t)
		} else {
			err = e.tree(t)
		}
		if err != nil {
			return err
		}
	}
	e.report.Digest = hex.EncodeToString(e.all.Sum(nil))
	data, err = json.Marshal(exportSum{e.report.Entries, e.report.Digest})
	if err != nil {
		return err
	}
	return e.content(&tar.Header{Typeflag: tar.TypeReg, Name: exportDigest, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatPAX}, bytes.NewReader(data), nil)
}

func (e *exporter) bytes(name string, data []byte) error {
	entry := Entry{Path: name, Type: typeFile, Mode: 0o644, Size: int64(len(data))}
	return e.file(entry, bytes.NewReader(data))
}

// file writes a regular file.
func (e *exporter) file(entry Entry, in io.Reader) error {
	sum := sha256.New()
	h := header(entry)
	if err := e.content(h, in, sum); err != nil {
		return err
	}
	entry.Digest = hex.EncodeToString(sum.Sum(nil))
	e.count(entry)
	return nil
}

func (e *exporter) content(h *tar.Header, in io.Reader, sum hash.Hash) error {
	if err := e.tar.WriteHeader(h); err != nil {
		return err
	}
	out := io.Writer(e.tar)
	if sum != nil {
		out = io.MultiWriter(e.tar, sum)
	}
	n, err := io.CopyBuffer(out, contextReader{e.ctx, io.LimitReader(in, h.Size)}, e.buf)
	if err == nil && n != h.Size {
		err = fmt.Errorf("%q shrank while it was read", h.Name)
	}
	return err
}

func (e *exporter) count(entry Entry) {
	addDigest(e.all, entry)
	e.report.Entries++
	if entry.Type == typeFile && entry.Link == "" {
		e.report.Bytes += entry.Size
	}
}

// header returns the tar header of an entry.
func header(e Entry) *tar.Header {
	h := &tar.Header{Name: e.Path, Mode: int64(e.Mode), ModTime: time.Unix(0, e.MTime), Format: tar.FormatPAX, PAXRecords: map[string]string{}}
	switch e.Type {
	case typeDir:
		h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
	case typeLink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
	default:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
		if e.Link != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, e.Link, 0
		}
	}
	var text []string
	for _, key := range sortedKeys(e.Xattrs) {
		text = append(text, strconv.Quote(key), strconv.Quote(e.Xattrs[key]))
	}
	if len(text) > 0 {
		h.PAXRecords[exportXattrs] = strings.Join(text, " ")
	}
	return h
}

func (e *exporter) archive(t Tree) error {
	f, err := os.Open(e.s.archivePath(t.Archive))
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	return e.file(Entry{Path: exportArchives + "/" + t.Name + ".tar.zst", Type: typeFile, Mode: 0o644, Size: fi.Size()}, f)
}

// tree writes the files that a tree shows.
func (e *exporter) tree(t Tree) error {
	owner := workspace.Owner{}
	if len(t.Layers) > 0 {
		owner = t.Layers[0].Owner
	}
	root, _, err := e.s.view(e.r, t, owner)
	if err != nil {
		return err
	}
	defer root.Close()
	e.links = map[inode]string{}
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return err
	}
	if err := e.folder(int(root.Fd()), ".", &st); err != nil {
		return err
	}
	return walkTree(root, func(rel string, st *unix.Stat_t) (bool, error) {
		if err := e.ctx.Err(); err != nil {
			return false, err
		}
		dir, err := openBeneath(root, path.Dir(rel))
		if err != nil {
			return false, err
		}
		defer unix.Close(dir)
		return true, e.entry(dir, path.Base(rel), rel, st)
	})
}

func exportName(rel string) string { return path.Join(exportWorkspace, rel) }

func (e *exporter) folder(fd int, rel string, st *unix.Stat_t) error {
	entry := entryOf(exportName(rel), typeDir, st)
	entry.Size = 0
	var err error
	if entry.Xattrs, err = xattrs(fd, "", e.buf); err != nil {
		return err
	}
	if err := e.tar.WriteHeader(header(entry)); err != nil {
		return err
	}
	e.count(entry)
	return nil
}

func (e *exporter) entry(dir int, name, rel string, st *unix.Stat_t) error {
	switch kindOf(st) {
	case typeDir:
		fd, err := open(dir, name, folderFlags, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return e.folder(fd, rel, st)
	case typeLink:
		n, err := unix.Readlinkat(dir, name, e.buf)
		if err != nil {
			return err
		}
		entry := entryOf(exportName(rel), typeLink, st)
		entry.Link, entry.Size, entry.Mode = string(e.buf[:n]), 0, 0o777
		if err := e.tar.WriteHeader(header(entry)); err != nil {
			return err
		}
		e.count(entry)
		return nil
	case typeFile:
	default:
		e.report.LeftOut.Special++
		e.report.LeftOut.name(rel)
		return nil
	}
	entry := entryOf(exportName(rel), typeFile, st)
	id := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // an int32 elsewhere
	if first, ok := e.links[id]; ok && st.Nlink > 1 {
		entry.Link, entry.Size = first, 0
		if err := e.tar.WriteHeader(header(entry)); err != nil {
			return err
		}
		e.count(entry)
		return nil
	}
	fd, err := open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	if entry.Xattrs, err = xattrs(fd, "", e.buf); err != nil {
		return err
	}
	if st.Nlink > 1 {
		e.links[id] = entry.Path
	}
	return e.file(entry, f)
}

// ImportOptions say whose the imported checkpoint is. What the file says about
// that does not count.
type ImportOptions struct {
	Name                            string // see [CheckLabel]; may be empty
	Sandbox, Tenant, Agent, Session string
	MaxBytes                        int64 // of the checkpoint, beside [Options].MaxBytes; 0 is no bound
}

// Import adds the checkpoint that Export wrote to r. The file is not trusted:
// names, links, sizes and numbers are bounded and checked, no link is followed,
// set-user-id and set-group-id bits are dropped, files belong to this process,
// and nothing is kept unless all digests are right.
func (s *Store) Import(ctx context.Context, r io.Reader, o ImportOptions) (Record, error) {
	if o.Name != "" {
		if err := CheckLabel(o.Name); err != nil {
			return Record{}, err
		}
	}
	means, _, err := s.Means(ctx)
	if err != nil {
		return Record{}, err
	}
	left, err := s.room(ctx, "", CreateOptions{Name: o.Name, Tenant: o.Tenant, MaxBytes: o.MaxBytes})
	if err != nil {
		return Record{}, err
	}
	z, err := zstd.NewReader(contextReader{ctx, r}, zstd.WithDecoderMaxWindow(maxImportWindow), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return Record{}, badFile(err)
	}
	defer z.Close()
	rec := Record{
		ID: newID(), Name: o.Name, Sandbox: o.Sandbox, Tenant: o.Tenant, Agent: o.Agent, Session: o.Session,
		CreatedAt: s.o.Now().UTC(), Means: means, UserXattr: inUserNamespace(),
	}
	c := &creation{s: s, r: &rec, left: left}
	defer c.close()
	i := &importer{
		s: s, c: c, ctx: ctx, r: &rec, in: z, tar: tar.NewReader(z), all: sha256.New(), buf: make([]byte, bufferSize),
		left: maxImportBytes, dirs: map[string]Entry{}, files: map[string]bool{}, archives: map[string]bool{},
	}
	if left > 0 {
		i.blocks = left
	}
	if err := i.run(); err != nil {
		return Record{}, i.wrong(err)
	}
	if err := c.complete(ctx, nil, func() error { return nil }); err != nil {
		return Record{}, err
	}
	return rec, nil
}

// errFile marks what is wrong with the file itself.
type errFile struct{ error }

func wrongf(format string, args ...any) error { return errFile{fmt.Errorf(format, args...)} }

func badFile(err error) error {
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: opImport, Field: "file", Err: err,
		Message: "this is no exported checkpoint, or it is damaged", Hint: "export it again",
	}
}

type importer struct {
	s    *Store
	c    *creation
	ctx  context.Context
	r    *Record
	in   io.Reader
	tar  *tar.Reader
	all  hash.Hash
	buf  []byte
	tree *os.File // the folder of the workspace

	head     exportHead
	stage    staged
	n        int64
	left     int64 // bytes of files that may follow, holes included
	blocks   int64 // bytes that may be written, 0 for any number
	written  int64
	dirs     map[string]Entry
	files    map[string]bool
	archives map[string]bool
	manifest []Entry
	done     bool
}

// wrong separates errors of the file from those of this machine.
func (i *importer) wrong(err error) error {
	var file errFile
	var known *sandbox.Error
	switch {
	case errors.As(err, &known), i.ctx.Err() != nil:
		return fail(opImport, "the file", errors.Join(err, i.ctx.Err()))
	case errors.As(err, &file), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return badFile(err)
	}
	var errno unix.Errno
	if !errors.As(err, &errno) { // of the decoder
		return badFile(err)
	}
	return fail(opImport, "the file", err)
}

func (i *importer) run() error {
	for {
		if err := i.ctx.Err(); err != nil {
			return err
		}
		h, err := i.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errFile{err}
		}
		if i.done {
			return wrongf("%q comes after the digest", h.Name)
		}
		if i.n++; i.n > maxEntries {
			return wrongf("it has more than %d entries", maxEntries)
		}
		if err := i.entry(h); err != nil {
			return err
		}
	}
	rest, err := io.ReadAll(io.LimitReader(i.in, 1<<20))
	if err != nil {
		return errFile{err}
	}
	if len(rest) == 1<<20 || !zeros(rest) {
		return wrongf("data follows the end")
	}
	if !i.done || i.tree == nil {
		return wrongf("it ends too early")
	}
	return i.finish()
}

func (i *importer) entry(h *tar.Header) error {
	switch {
	case i.n == 1 || h.Name == exportRecord:
		return i.record(h)
	case h.Name == exportDigest:
		return i.digest(h)
	case strings.HasPrefix(h.Name, exportArchives+"/"):
		return i.archive(h)
	}
	e, err := parseHeader(h)
	if err != nil {
		return err
	}
	return i.file(h, e)
}

// small reads a short file of the archive.
func (i *importer) small(h *tar.Header, v any) ([]byte, error) {
	if h.Typeflag != tar.TypeReg || h.Size > maxJSON {
		return nil, wrongf("%q is no short file", h.Name)
	}
	data, err := io.ReadAll(i.tar)
	if err != nil {
		return nil, errFile{err}
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, errFile{err}
	}
	return data, nil
}

func (i *importer) record(h *tar.Header) error {
	if i.n != 1 || h.Name != exportRecord {
		return wrongf("it does not begin with %s alone", exportRecord)
	}
	data, err := i.small(h, &i.head)
	if err != nil {
		return err
	}
	if i.head.Version != exportVersion {
		return wrongf("its version is %d, and this program reads %d", i.head.Version, exportVersion)
	}
	from := i.head.Record
	i.r.Shells, i.r.Running, i.r.Image, i.r.SpecHash, i.r.LeftOut = from.Shells, from.Running, from.Image, from.SpecHash, from.LeftOut
	i.r.Busy, i.r.Auto = from.Busy, from.Auto
	for _, text := range append([]string{from.Image, from.SpecHash}, from.LeftOut.Paths...) {
		if len(text) > maxLink {
			return wrongf("its record is too long")
		}
	}
	i.count(Entry{Path: exportRecord, Type: typeFile, Mode: 0o644, Size: h.Size, Digest: digestOf(data)})
	return nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (i *importer) count(e Entry) { addDigest(i.all, e) }

func (i *importer) digest(h *tar.Header) error {
	var sum exportSum
	if _, err := i.small(h, &sum); err != nil {
		return err
	}
	if got := hex.EncodeToString(i.all.Sum(nil)); sum.SHA256 != got || sum.Entries != i.n-1 {
		return wrongf("its digest is %s over %d entries, and should be %.64q over %d", got, i.n-1, sum.SHA256, sum.Entries)
	}
	i.done = true
	return nil
}

// parseHeader returns the entry of a file of the workspace, with the path below
// it.
func parseHeader(h *tar.Header) (Entry, error) {
	bad := func(what string) (Entry, error) {
		return Entry{}, wrongf("%s: %s", strconv.QuoteToASCII(h.Name[:min(len(h.Name), 200)]), what)
	}
	name := h.Name
	e := Entry{Mode: uint32(h.Mode) & 0o1777, MTime: h.ModTime.UnixNano(), Link: h.Linkname}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Type, name = typeDir, strings.TrimSuffix(name, "/")
	case tar.TypeReg:
		e.Type, e.Size = typeFile, h.Size
		if e.Link != "" {
			return bad("a file with a target")
		}
	case tar.TypeLink:
		e.Type = typeFile
		rel, ok := relName(e.Link)
		if !ok {
			return bad("a hard link to a file that is not in the workspace")
		}
		e.Link = rel
	case tar.TypeSymlink:
		e.Type = typeLink
		if e.Link == "" || len(e.Link) > maxLink || strings.ContainsRune(e.Link, 0) {
			return bad("a link with an impossible target")
		}
	default:
		return bad("neither a file, nor a folder, nor a link")
	}
	rel, ok := relName(name)
	if !ok || rel == "." && e.Type != typeDir {
		return bad("a name that is none of a file below the workspace")
	}
	if h.Size < 0 || h.Mode < 0 {
		return bad("negative numbers")
	}
	e.Path = rel
	var err error
	e.Xattrs, err = parseXattrs(h.PAXRecords[exportXattrs])
	if err != nil {
		return bad("extended attributes that cannot be read")
	}
	return e, nil
}

// relName returns the path below the workspace of a name in the file.
func relName(name string) (string, bool) {
	if name == exportWorkspace {
		return ".", true
	}
	rel, ok := strings.CutPrefix(name, exportWorkspace+"/")
	if !ok || rel == "" || path.Clean(rel) != rel || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") || strings.HasPrefix(rel, "/") {
		return "", false
	}
	if strings.ContainsRune(rel, 0) || strings.Count(rel, "/") >= maxDepth {
		return "", false
	}
	for part := range strings.SplitSeq(rel, "/") {
		if len(part) > maxComponent {
			return "", false
		}
	}
	return rel, true
}

func parseXattrs(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > 4*maxImportXattrs {
		return nil, errors.New("too long")
	}
	m := map[string]string{}
	for text != "" {
		var pair [2]string
		for n := range pair {
			q, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, err
			}
			if pair[n], err = strconv.Unquote(q); err != nil {
				return nil, err
			}
			text = strings.TrimPrefix(text[len(q):], " ")
		}
		if !strings.HasPrefix(pair[0], "user.") || strings.HasPrefix(pair[0], "user.overlay.") || len(pair[0]) > maxComponent || len(pair[1]) > maxXattrs {
			return nil, errors.New("not of a user")
		}
		m[pair[0]] = pair[1]
	}
	return m, nil
}

// file makes one file of the workspace.
func (i *importer) file(h *tar.Header, e Entry) error {
	if i.tree == nil {
		if e.Path != "." {
			return wrongf("the files do not begin with their folder")
		}
		return i.begin(h, e)
	}
	if i.files[e.Path] {
		return wrongf("%q comes twice", e.Path)
	}
	if _, ok := i.dirs[path.Dir(e.Path)]; !ok || e.Path == "." {
		return wrongf("%q comes before its folder", e.Path)
	}
	i.files[e.Path] = true
	dir, err := openBeneath(i.tree, path.Dir(e.Path))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	name := path.Base(e.Path)
	switch {
	case e.Type == typeDir:
		if err := unix.Mkdirat(dir, name, 0o700); err != nil {
			return err
		}
		i.dirs[e.Path] = e
	case e.Type == typeLink:
		if err := errors.Join(unix.Symlinkat(e.Link, dir, name), setTimes(dir, name, e.MTime)); err != nil {
			return err
		}
	case e.Link != "":
		if _, dir := i.dirs[e.Link]; dir || !i.files[e.Link] {
			return wrongf("%q is a hard link to what is no earlier file", e.Path)
		}
		if err := linkBeneath(i.tree, e.Link, i.tree, e.Path); err != nil {
			return err
		}
	default:
		if err := i.regular(dir, name, &e); err != nil {
			return err
		}
	}
	i.add(h, e)
	return nil
}

// add counts an entry as the exporter did.
func (i *importer) add(h *tar.Header, e Entry) {
	i.manifest = append(i.manifest, e)
	e.Path = exportName(e.Path)
	if e.Type == typeFile && e.Link != "" {
		e.Link = h.Linkname
	}
	e.Mode = uint32(h.Mode)
	i.count(e)
}

// begin makes the folder of the workspace.
func (i *importer) begin(h *tar.Header, e Entry) error {
	st, err := i.c.stage()
	if err != nil {
		return err
	}
	tree := filepath.Join(st.dir, "fs")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return err
	}
	if i.tree, err = openFolder(tree); err != nil {
		return err
	}
	i.c.undo = append(i.c.undo, func() { i.tree.Close() })
	i.stage = st
	i.dirs["."] = e
	i.files["."] = true
	t := Tree{Name: WorkspaceTree, Target: sandbox.WorkspaceDir, Layers: []Layer{{ID: st.id, Owner: workspace.Owner{UID: os.Geteuid(), GID: os.Getegid()}}}}
	i.r.Trees = append(i.r.Trees, t)
	i.add(h, e)
	return nil
}

// regular writes the content of a file; blocks of zeros become holes.
func (i *importer) regular(dir int, name string, e *Entry) error {
	if i.left -= e.Size; i.left < 0 {
		return tooLarge("the file", fmt.Sprintf("its files have more than %d bytes", int64(maxImportBytes)))
	}
	fd, err := open(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	sum := sha256.New()
	for at := int64(0); at < e.Size; {
		if err := i.ctx.Err(); err != nil {
			return err
		}
		b := i.buf[:min(int64(len(i.buf)), e.Size-at)]
		if _, err := io.ReadFull(i.tar, b); err != nil {
			return errFile{err}
		}
		sum.Write(b)
		for len(b) > 0 {
			part := b[:min(len(b), holeSize)]
			if !zeros(part) {
				if i.written += int64(len(part)); i.blocks > 0 && i.written > i.blocks {
					return overQuota("the file")
				}
				if _, err := f.WriteAt(part, at); err != nil {
					return err
				}
			}
			at += int64(len(part))
			b = b[len(part):]
		}
	}
	for key, value := range e.Xattrs {
		if err := unix.Fsetxattr(fd, key, []byte(value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return err
		}
	}
	e.Digest = hex.EncodeToString(sum.Sum(nil))
	return errors.Join(f.Truncate(e.Size), unix.Fchmod(fd, e.Mode), setTimes(dir, name, e.MTime))
}

func zeros(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// archive keeps a further folder. Its content is only ever unpacked in a
// sandbox.
func (i *importer) archive(h *tar.Header) error {
	base, ok := strings.CutSuffix(strings.TrimPrefix(h.Name, exportArchives+"/"), ".tar.zst")
	if !ok || h.Typeflag != tar.TypeReg || CheckLabel(base) != nil || base == WorkspaceTree || i.archives[base] {
		return wrongf("%s: no name of an archive, or one that comes twice", termsafe.Line(h.Name))
	}
	t, ok := i.head.Record.tree(base)
	if !ok || !path.IsAbs(t.Target) || path.Clean(t.Target) != t.Target || len(t.Target) > maxLink {
		return wrongf("%s: the record does not say where it belongs", base)
	}
	i.archives[base] = true
	if i.left -= h.Size; i.left < 0 || i.blocks > 0 && i.written+h.Size > i.blocks {
		return overQuota("the file")
	}
	i.written += h.Size
	st, err := i.c.stage()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(st.dir, archiveName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.CopyBuffer(io.MultiWriter(f, sum), i.tar, i.buf)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(st.dir, "layer.json"), layerInfo{Files: 1, Bytes: h.Size}); err != nil {
		return err
	}
	i.r.Trees = append(i.r.Trees, Tree{Name: base, Target: t.Target, Archive: st.id})
	i.count(Entry{Path: h.Name, Type: typeFile, Mode: 0o644, Size: h.Size, Digest: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// finish gives the folders their attributes and writes the manifest.
func (i *importer) finish() error {
	c := &copier{dst: i.tree}
	me := workspace.Owner{UID: os.Geteuid(), GID: os.Getegid()}
	c.owner = func(workspace.Owner) workspace.Owner { return me }
	for n := len(i.manifest) - 1; n >= 0; n-- { // children come after parents
		e := i.manifest[n]
		if e.Type != typeDir {
			continue
		}
		if e.Path == "." {
			e.Mode = workspaceMode
		}
		if err := c.finishFolder(e); err != nil {
			return err
		}
	}
	for n := range i.manifest {
		i.manifest[n].UID, i.manifest[n].GID = me.UID, me.GID
	}
	i.r.Files, i.r.Bytes = int64(len(i.manifest)), i.written
	if err := writeManifest(filepath.Join(i.stage.dir, "manifest"), "", i.manifest); err != nil {
		return statedir.Unavailable(opImport, i.stage.dir, err)
	}
	return nil
}

// OpenArchive opens a further folder that a checkpoint keeps, as a tar file. Its
// content comes from a sandbox and is not trusted. Read and Close of the result are
// safe for concurrent use.
func (s *Store) OpenArchive(ref, name string) (io.ReadCloser, error) {
	r, err := s.find(ref, nil)
	if err != nil {
		return nil, err
	}
	t, ok := r.tree(name)
	if !ok || t.Archive == "" {
		return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: "read checkpoint", Resource: r.ID, Message: fmt.Sprintf("the checkpoint keeps no folder %q", termsafe.Line(name))}
	}
	f, err := os.Open(s.archivePath(t.Archive))
	if err != nil {
		return nil, fail("read checkpoint", r.ID, err)
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(maxImportWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		f.Close()
		return nil, fail("read checkpoint", r.ID, err)
	}
	return &archiveReader{z: z, f: f}, nil
}

// An archiveReader reads a compressed file. Close may be called while a Read is
// under way, as with a file: the command that gets it as its standard input may
// still be reading when the command has ended.
type archiveReader struct {
	mu sync.Mutex
	z  *zstd.Decoder // nil once it is closed
	f  *os.File
}

func (a *archiveReader) Read(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.z == nil {
		return 0, os.ErrClosed
	}
	return a.z.Read(b)
}

func (a *archiveReader) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.z == nil {
		return os.ErrClosed
	}
	a.z.Close()
	a.z = nil
	return a.f.Close()
}
