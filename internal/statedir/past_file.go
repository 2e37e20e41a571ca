package statedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// maxFile bounds the file, in bytes.
const maxFile = 1 << 10

// load returns what is kept, which is nothing where there is no file. c.mu is
// held where it is kept in memory.
func (c *Clock) load() (state, error) {
	if c.Path == "" {
		return c.memory, nil
	}
	f, err := os.OpenFile(c.Path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return state{}, nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
		return state{}, c.damaged()
	case err != nil:
		return state{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if errors.Is(err, unix.EISDIR) {
		return state{}, c.damaged()
	}
	if err != nil {
		return state{}, err
	}
	s, ok := decode(data)
	if !ok {
		return state{}, c.damaged()
	}
	return s, nil
}

// save writes s down. c.mu and the lock are held.
func (c *Clock) save(s state) error {
	if c.Path == "" {
		c.memory = s
		return nil
	}
	data, err := encode(s)
	if err != nil {
		return err
	}
	dir := filepath.Dir(c.Path)
	if err := renameio.WriteFile(c.Path, data, 0o600, renameio.WithTempDir(dir), renameio.WithStaticPermissions(0o600)); err != nil {
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// locked calls fn while no other process moves the time on.
func (c *Clock) locked(fn func() error) error {
	if c.Path == "" {
		return fn()
	}
	f, err := os.OpenFile(filepath.Dir(c.Path), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close() // gives up the lock
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return fn()
		}
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func encode(s state) ([]byte, error) {
	data, err := json.Marshal(s)
	return append(data, '\n'), err
}

// decode reads what encode has written and nothing else.
func decode(data []byte) (state, bool) {
	var s state
	if json.Unmarshal(data, &s) != nil {
		return state{}, false
	}
	want, err := encode(s)
	return s, err == nil && bytes.Equal(want, data) && s.Boot != "" && s.Past >= 0 && s.Up >= 0 && s.Wait > 0
}

func (c *Clock) damaged() error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "tell the time", Resource: c.Path,
		Message: "the file " + c.Path + " cannot be read, so it is not known what may have been forgotten",
		Hint:    "remove it when the clock of the machine is right",
	}
}
