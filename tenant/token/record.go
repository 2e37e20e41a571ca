package token

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// maxRecord bounds a file, in bytes: four names of which each byte may take
// six, and numbers.
const maxRecord = 16 << 10

// A record is the content of a file. The sum detects files that were torn,
// moved or edited by hand; it does not protect against a process that may write
// to the folder.
type record struct {
	ID   string `json:"id"`
	Hash string `json:"hash"` // SHA-256 of the secret
	Claims
	Created time.Time `json:"created"`
	Sum     string    `json:"sum"`
}

// errDamaged is the error for a file without valid contents.
var errDamaged = errors.New("the file cannot be read; revoke the token, or move the file away")

func encode(r record) ([]byte, error) {
	r.Sum = ""
	bare, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(bare)
	r.Sum = hex.EncodeToString(sum[:])
	data, err := json.Marshal(r)
	return append(data, '\n'), err
}

// decode reads what encode has written of the token id and nothing else.
func decode(id string, data []byte) (record, bool) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, false
	}
	want, err := encode(r)
	if err != nil || !bytes.Equal(want, data) || r.ID != id || r.check() != nil || !inRange(r.Created) {
		return record{}, false
	}
	hash, err := hex.DecodeString(r.Hash)
	return r, err == nil && len(hash) == sha256.Size
}

// A stamp distinguishes one content of a file from another: files are created
// anew and never modified, and a program that modifies one all the same changes
// its change time.
type stamp struct {
	inode, size  uint64
	ctime, mtime int64 // nanoseconds
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{inode: st.Ino, size: uint64(st.Size), ctime: st.Ctim.Nano(), mtime: st.Mtim.Nano()}
}

// read returns the record at path. A missing one is fs.ErrNotExist, one that is
// no whole record is errDamaged.
func read(path string) (record, stamp, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return record{}, stamp{}, errDamaged
	}
	if err != nil {
		return record{}, stamp{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return record{}, stamp{}, fmt.Errorf("stat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxRecord {
		return record{}, stamp{}, errDamaged
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return record{}, stamp{}, err
	}
	r, ok := decode(filepath.Base(path), data)
	if !ok {
		return record{}, stamp{}, errDamaged
	}
	return r, stampOf(&st), nil
}

// write puts a record at path in one step, so that no reader sees half of it,
// and returns when it will survive a loss of power.
func write(path string, r record) error {
	data, err := encode(r)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(dir), renameio.WithStaticPermissions(0o600)); err != nil {
		return err
	}
	return statedir.SyncDir(dir)
}
