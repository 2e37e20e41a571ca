package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// headName is the file that says where the journal ends.
const headName = "head"

// A tail is an end of the journal: what the next line is chained to.
type tail struct {
	file   uint64 // number of the newest file, 0 when there is none
	size   int64  // bytes of it up to the end of its last line
	seq    uint64 // of the last line
	hash   digest // of the last line
	oldest uint64 // number of the oldest file that belongs to the journal
}

// The head contains a tail as text of fixed length, so that one small write can
// replace it in place, and a checksum. It keeps the cost of an append
// independent of the size of the journal, and shows when written data has
// disappeared. A head that is behind does no harm: locate finds the lines
// written since by reading on from it.
const (
	headFormat = "journal 1 file %016x size %016x seq %016x oldest %016x hash %s"
	headSize   = 9 + 22 + 22 + 21 + 24 + 6 + 2*sha256.Size + 1 + 16 + 1
)

// appendHead appends the head for t to dst in headFormat. It does not use fmt,
// because every append writes a head.
func appendHead(dst []byte, t tail) []byte {
	start := len(dst)
	for _, n := range [...]struct {
		name  string
		value uint64
	}{{"journal 1 file ", t.file}, {" size ", uint64(t.size)}, {" seq ", t.seq}, {" oldest ", t.oldest}} {
		dst = append(dst, n.name...)
		var digits [8]byte
		binary.BigEndian.PutUint64(digits[:], n.value)
		dst = hex.AppendEncode(dst, digits[:])
	}
	dst = append(dst, " hash "...)
	dst = hex.AppendEncode(dst, t.hash[:])
	sum := sha256.Sum256(dst[start:])
	dst = append(dst, ' ')
	dst = hex.AppendEncode(dst, sum[:8])
	return append(dst, '\n')
}

// decodeHead reads what appendHead wrote and nothing else.
func decodeHead(data []byte) (tail, bool) {
	var t tail
	var hash, sum string
	if len(data) != headSize {
		return t, false
	}
	if _, err := fmt.Sscanf(string(data), headFormat+" %s\n", &t.file, &t.size, &t.seq, &t.oldest, &hash, &sum); err != nil {
		return tail{}, false
	}
	if len(hash) != 2*sha256.Size || t.size < 0 {
		return tail{}, false
	}
	if _, err := hex.Decode(t.hash[:], []byte(hash)); err != nil {
		return tail{}, false
	}
	return t, bytes.Equal(appendHead(nil, t), data)
}

// readHead returns false when there is no valid head.
func readHead(dir string) (tail, bool, error) {
	f, err := openRegular(filepath.Join(dir, headName), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return tail{}, false, nil
	}
	if err != nil {
		return tail{}, false, err
	}
	defer f.Close()
	data := make([]byte, headSize+1)
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return tail{}, false, err
	}
	t, ok := decodeHead(data[:n])
	return t, ok, nil
}

// openHead opens the head for writing, and creates it when it is missing. It
// moves an entry of that name that is not a file aside.
func openHead(dir string) (*os.File, error) {
	path := filepath.Join(dir, headName)
	f, err := openRegular(path, os.O_RDWR|os.O_CREATE)
	if errors.Is(err, errNotRegular) {
		if err = moveAside(path); err == nil {
			f, err = openRegular(path, os.O_RDWR|os.O_CREATE)
		}
	}
	return f, err
}

// errNotRegular: a link, a folder or the like is where a file should be.
var errNotRegular = errors.New("not a regular file")

// openRegular opens the file at path and nothing but a regular file.
func openRegular(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR):
		return nil, fmt.Errorf("%s: %w", path, errNotRegular)
	case err != nil:
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, errNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
