package statedir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

const (
	instanceFile   = "instance"
	instanceDigits = 16
)

// loadInstance returns the id in the folder dir and makes one when there is
// none. Of many processes that start at once all return the same id: each
// writes a complete file of its own, and link(2) lets exactly one of them
// become the id. A file that is not an id is an error and never replaced,
// because a new id would turn every container of the old one into a
// stranger.
func loadInstance(dir string) (string, error) {
	path := filepath.Join(dir, instanceFile)
	id, err := readInstance(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if recorded(dir) {
		return "", &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "read instance id", Resource: path,
			Message: "the instance id is missing while records of sandboxes exist",
			Hint:    "write the id that the records carry as \"instance\" into " + path,
		}
	}
	if err := makeInstance(dir, path); err != nil {
		return "", Unavailable("make instance id", path, err)
	}
	return readInstance(path)
}

// readInstance returns fs.ErrNotExist as it is and every other failure as a
// *sandbox.Error.
func readInstance(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fs.ErrNotExist
	}
	if err != nil {
		return "", Unavailable("read instance id", path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return "", Unavailable("read instance id", path, err)
	}
	id := strings.TrimSuffix(string(data), "\n")
	if !validInstance(id) {
		return "", &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "read instance id", Resource: path,
			Message: path + " does not hold an instance id of 16 hex digits",
			Hint: "restore it; \"sandbox --state-dir OTHER list --foreign\" shows the ids of what runs, " +
				"\"sandbox adopt\" takes it over when the id is lost",
		}
	}
	return id, nil
}

func validInstance(id string) bool {
	if len(id) != instanceDigits || strings.ToLower(id) != id {
		return false
	}
	_, err := hex.DecodeString(id)
	return err == nil
}

// makeInstance puts a new id at path unless there is one by then.
func makeInstance(dir, path string) error {
	var id [instanceDigits / 2]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".instance-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(hex.EncodeToString(id[:]) + "\n")
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(dir)
}

// recorded reports whether any record of a sandbox exists below dir.
func recorded(dir string) bool {
	for _, kind := range []string{"containers", "browsers"} {
		m, _ := filepath.Glob(filepath.Join(dir, registryDir, kind, "*.json"))
		if len(m) > 0 {
			return true
		}
	}
	return false
}

// SyncDir makes the entries of the folder dir survive a crash.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
