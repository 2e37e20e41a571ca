package wire

import "strings"

// Limits of file operations in bytes.
const (
	// MaxInline is how much content an answer, or the request of a write,
	// carries itself. A file of that size is one frame each way.
	MaxInline = 60 << 10
	// maxFilePath bounds a path or a link's target; Linux takes less.
	maxFilePath = 8 << 10
	// maxFileName bounds one name in a folder, as Linux does.
	maxFileName = 255
)

// A FileOp says what a file request asks for.
type FileOp uint8

// The file operations. A guest that does not know one answers with Failed
// (KindUnsupported).
const (
	FileStat     FileOp = 1  // describe; links are followed
	FileLstat    FileOp = 2  // describe the thing itself
	FileReadLink FileOp = 3  // the content of the answer is the target
	FileSymlink  FileOp = 4  // Other is the target
	FileMkdir    FileOp = 5  // with the permission bits Perm
	FileRemove   FileOp = 6  // with FileRecursive a whole tree
	FileRename   FileOp = 7  // to Other, below the same root
	FileReadDir  FileOp = 8  // the content is a FileEntry for each name
	FileRead     FileOp = 9  // from Offset on, at most Limit bytes
	FileWrite    FileOp = 10 // replace as one step; Perm is for a new file
	FileWatch    FileOp = 11 // the content is a FileChange for each change, without end; with FileRecursive of the folders below, too (FeatureFilesWatch)
)

// Flags of a file request.
const (
	FileRecursive = 1 << iota // FileRemove: also a folder that is not empty; FileWatch: also the folders below
	FileExclusive             // FileWrite: nothing of the name may exist
	FileInline                // FileWrite: Content is all there is, no Data follows
	FileNoLinks               // a link below the root, or on the way to it, is KindLink (FeatureFilesNoLinks)
	FileClear                 // FileRemove, with FileRecursive: open folders that their owner has closed (FeatureFilesNoLinks)
)

const knownFileFlags = FileRecursive | FileExclusive | FileInline | FileNoLinks | FileClear

// FileChannel is the channel of content: Data of a read, a listing or a
// write, with Credit the other way.
const FileChannel = 0

// FlagMore in the flags of a FileAnswer says that the content goes on in
// Data frames, and that Done or Failed ends the stream.
const FlagMore = 0x01

// A File asks for a file operation. Root is the absolute path of a mount;
// Path lies below it and is resolved by the kernel as a command would, with
// links that lead out of the mount refused. The last link is followed by
// FileStat, FileRead, FileReadDir and FileWrite.
type File struct {
	Op      FileOp
	Flags   uint8
	Perm    uint32 // permission bits
	Offset  uint64 // bytes
	Limit   uint64 // bytes
	Root    string
	Path    string // relative to Root; empty is Root itself
	Other   string // see the operations
	Content []byte // with FileInline; at most MaxInline
}

// Encode returns the payload of a File frame.
func (m File) Encode() []byte {
	e := encoder{b: make([]byte, 0, 64+len(m.Root)+len(m.Path)+len(m.Other)+len(m.Content))}
	e.u8(uint8(m.Op))
	e.u8(m.Flags)
	e.u32(m.Perm)
	e.u64(m.Offset)
	e.u64(m.Limit)
	e.str(m.Root)
	e.str(m.Path)
	e.str(m.Other)
	e.u32(uint32(len(m.Content)))
	e.b = append(e.b, m.Content...)
	return e.b
}

// DecodeFile reads the payload of a File frame. Content is part of p.
func DecodeFile(p []byte) (File, error) {
	d := decoder{b: p}
	m := File{Op: FileOp(d.u8()), Flags: d.u8(), Perm: d.u32(), Offset: d.u64(), Limit: d.u64()}
	m.Root, m.Path, m.Other = d.str(), d.str(), d.str()
	m.Content = d.take(d.count(1))
	for _, s := range []string{m.Root, m.Path, m.Other} {
		if len(s) > maxFilePath || strings.IndexByte(s, 0) >= 0 {
			d.bad = true
		}
	}
	if m.Flags&^knownFileFlags != 0 || len(m.Content) > MaxInline {
		d.bad = true
	}
	return m, d.end("file request")
}

// FileInfo describes a file as lstat(2) does, with the numbers of Linux.
type FileInfo struct {
	Mode    uint32 // st_mode: kind and permission bits
	Size    uint64 // bytes
	Seconds int64  // of the last change of content, since 1970
	Nanos   uint32 // the rest of that time
}

// fileInfoLen is the length of a FileInfo on the wire.
const fileInfoLen = 24

func (e *encoder) fileInfo(m FileInfo) {
	e.u32(m.Mode)
	e.u64(m.Size)
	e.u64(uint64(m.Seconds))
	e.u32(m.Nanos)
}

func (d *decoder) fileInfo() FileInfo {
	m := FileInfo{Mode: d.u32(), Size: d.u64(), Seconds: int64(d.u64()), Nanos: d.u32()}
	if m.Size >= 1<<63 || m.Nanos >= 1e9 {
		d.bad = true
	}
	return m
}

// FileAnswerHead is the length of what precedes the content of a FileAnswer.
const FileAnswerHead = fileInfoLen + 4

// A FileAnswer is the answer of an operation that returns something.
type FileAnswer struct {
	Info    FileInfo
	Content []byte // its beginning, if there is FlagMore
}

// Encode returns the payload of a FileAnswer frame.
func (m FileAnswer) Encode() []byte {
	b := make([]byte, FileAnswerHead, FileAnswerHead+len(m.Content))
	b = append(b, m.Content...)
	PutFileAnswer(b, m.Info)
	return b
}

// PutFileAnswer writes what precedes the content into payload, which has
// room for it and then holds the content.
func PutFileAnswer(payload []byte, info FileInfo) {
	e := encoder{b: payload[:0]}
	e.fileInfo(info)
	e.u32(uint32(len(payload) - FileAnswerHead))
}

// DecodeFileAnswer reads the payload of a FileAnswer frame. Content is part
// of p.
func DecodeFileAnswer(p []byte) (FileAnswer, error) {
	d := decoder{b: p}
	m := FileAnswer{Info: d.fileInfo()}
	m.Content = d.take(d.count(1))
	return m, d.end("file answer")
}

// A FileEntry is one name in a folder, and the thing itself.
type FileEntry struct {
	Info FileInfo
	Name string
}

// AppendFileEntry appends m to the content of a listing.
func AppendFileEntry(b []byte, m FileEntry) []byte {
	e := encoder{b: b}
	e.fileInfo(m.Info)
	e.str(m.Name)
	return e.b
}

// MaxFileEntry is the longest that an entry can be.
const MaxFileEntry = fileInfoLen + 4 + maxFileName

// DecodeFileEntries reads a whole listing. A name that could be anything
// but a name in the folder is a violation.
func DecodeFileEntries(p []byte) ([]FileEntry, error) {
	var list []FileEntry
	d := decoder{b: p}
	for len(d.b) > 0 && !d.bad {
		m := FileEntry{Info: d.fileInfo(), Name: d.str()}
		if !isFileName(m.Name) {
			d.bad = true
		}
		list = append(list, m)
	}
	if err := d.end("listing"); err != nil {
		return nil, err
	}
	return list, nil
}

// isFileName reports whether s can be a name in a folder.
func isFileName(s string) bool {
	return s != "" && s != "." && s != ".." && len(s) <= maxFileName && !strings.ContainsAny(s, "/\x00")
}
