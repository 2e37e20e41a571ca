package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

const (
	maxRecord = 64 << 10 // bytes; a record has about 800
	maxSpec   = 4 << 20  // bytes
)

// A file is a record as it lies on disk.
type file struct {
	Format int `json:"format"`
	Record
	SpecDigest string `json:"specDigest,omitempty"` // SHA-256 of the Spec's file
}

func encode(f file) ([]byte, error) {
	f.CreatedAt, f.LastUsedAt = f.CreatedAt.UTC(), f.LastUsedAt.UTC()
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, sandbox.Errorf(sandbox.CodeInternal, "write record", "cannot encode the record: %w", err)
	}
	if len(data) > maxRecord {
		return nil, sandbox.Errorf(sandbox.CodeValidation, "write record", "the record of %s is larger than %d bytes", f.Name, maxRecord)
	}
	return append(data, '\n'), nil
}

// decode reads the record name of the given kind from data. Every error
// wraps ErrCorrupt or ErrNewer.
func decode(data []byte, name string, kind sandbox.Kind) (file, error) {
	var f file
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(&f)
	if err == nil {
		err = atEnd(dec)
	}
	if err != nil || f.Format > Format {
		return file{}, unreadable(data, err)
	}
	want, err := kindDir(kind)
	if err != nil {
		return file{}, err
	}
	have, err := kindDir(f.Kind)
	switch {
	case f.Format != Format:
		return file{}, fmt.Errorf("%w: format %d", ErrCorrupt, f.Format)
	case f.Name != name:
		return file{}, fmt.Errorf("%w: it names %q", ErrCorrupt, f.Name)
	case err != nil || have != want:
		return file{}, fmt.Errorf("%w: it is of kind %q", ErrCorrupt, f.Kind)
	}
	return f, nil
}

// unreadable returns the error for a record that does not have our form. It
// distinguishes a record of a newer version, which may have added to the form,
// from a damaged one.
func unreadable(data []byte, why error) error {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if head.Format > Format {
		return fmt.Errorf("%w: format %d, this program knows %d", ErrNewer, head.Format, Format)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, why)
}

// atEnd is an error where something follows what was decoded.
func atEnd(dec *json.Decoder) error {
	_, err := dec.Token()
	switch {
	case err == io.EOF:
		return nil
	case err == nil:
		return errors.New("something follows the record")
	}
	return err
}

// readFile reads the record at path. What is not a regular file of sensible
// size is ErrCorrupt; other errors are those of the system.
func readFile(path, name string, kind sandbox.Kind) (file, error) {
	data, err := readBounded(path, maxRecord)
	if err != nil {
		return file{}, err
	}
	return decode(data, name, kind)
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("%w: not a regular file", ErrCorrupt)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%w: not a regular file", ErrCorrupt)
	case fi.Size() == 0:
		return nil, fmt.Errorf("%w: the file is empty", ErrCorrupt)
	case fi.Size() > limit:
		return nil, fmt.Errorf("%w: the file has %d bytes", ErrCorrupt, fi.Size())
	}
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// locked calls fn while no other process changes the file at path. The lock is
// on the file itself; once it is taken the path must still lead to that file,
// otherwise another process replaced the file meanwhile and locked locks the
// new one. A missing file is fs.ErrNotExist.
func locked(path string, fn func() error) error {
	for {
		l := flock.New(path, flock.SetFlag(os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK))
		if err := l.Lock(); err != nil {
			if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
				return fmt.Errorf("%w: not a regular file", ErrCorrupt)
			}
			return err
		}
		current, err := names(path, l)
		if err == nil && current {
			err = fn()
		}
		err = errors.Join(err, l.Unlock())
		if err != nil || current {
			return err
		}
	}
}

// names reports whether path leads to the locked file.
func names(path string, l *flock.Flock) (bool, error) {
	have, err := l.Stat()
	if err != nil {
		return false, err
	}
	want, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	return os.SameFile(have, want), nil
}

// replace writes the file at path in one step.
func replace(path string, data []byte) error {
	return renameio.WriteFile(path, data, 0o600,
		renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o600))
}

func (s *Store) specPath(name string) string { return filepath.Join(s.root, specsDir, name+".json") }

func encodeSpec(spec *sandbox.Spec) (data []byte, digest string, err error) {
	if spec == nil {
		return nil, "", nil
	}
	data, err = json.Marshal(spec)
	if err != nil {
		return nil, "", sandbox.Errorf(sandbox.CodeInternal, "write record", "cannot encode the spec: %w", err)
	}
	if len(data) > maxSpec {
		return nil, "", sandbox.Errorf(sandbox.CodeValidation, "write record", "the spec is larger than %d bytes", maxSpec)
	}
	return data, specDigest(data), nil
}

func specDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (s *Store) writeSpec(name string, data []byte) error {
	if data == nil {
		err := os.Remove(s.specPath(name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return statedir.Unavailable("write record", s.specPath(name), replace(s.specPath(name), data))
}

// readSpec returns nil when the Spec's file is not the one that the record
// was written with.
func (s *Store) readSpec(name, digest string) *sandbox.Spec {
	if digest == "" {
		return nil
	}
	data, err := readBounded(s.specPath(name), maxSpec)
	if err != nil {
		return nil
	}
	return specIn(data, digest)
}

// specIn returns the Spec in data, or nil where that is not the one of the digest.
func specIn(data []byte, digest string) *sandbox.Spec {
	if digest == "" || specDigest(data) != digest {
		return nil
	}
	var spec sandbox.Spec
	if json.Unmarshal(data, &spec) != nil {
		return nil
	}
	return &spec
}
