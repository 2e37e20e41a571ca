package statedir

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/bulkhead-dev/sandbox"
)

const (
	listeningFile = "listening.json"
	maxListening  = 64 << 10 // bytes
)

// SetListening records the canonical paths of the unix sockets at which a daemon
// of this state folder listens, for every program that decides what a sandbox may
// see. No path removes the record.
func (d *Dir) SetListening(paths []string) error {
	file := filepath.Join(d.path, listeningFile)
	var err error
	if len(paths) == 0 {
		if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		var data []byte
		if data, err = json.Marshal(paths); err == nil {
			err = renameio.WriteFile(file, append(data, '\n'), 0o600)
		}
	}
	return Unavailable("record listen addresses", file, err)
}

// Listening returns the paths of the sockets at which a daemon of this state
// folder listens, or has listened until it was killed. A path at which nothing
// is any more does not count. An error means that nothing can be said.
func (d *Dir) Listening() ([]string, error) {
	_, paths, err := d.ListeningAt()
	var out []string
	for _, p := range paths {
		if _, err := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
			out = append(out, p)
		}
	}
	return out, err
}

// ListeningAt returns the file that Listening reads, and all paths in it.
func (d *Dir) ListeningAt() (file string, paths []string, err error) {
	file = filepath.Join(d.path, listeningFile)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil, nil
	}
	if err != nil {
		return file, nil, Unavailable("read listen addresses", file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxListening))
	if err != nil {
		return file, nil, Unavailable("read listen addresses", file, err)
	}
	if err := json.Unmarshal(data, &paths); err != nil {
		return file, nil, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "read listen addresses", Resource: file, Message: "the file is damaged", Err: err,
			Hint: "restart the daemon, or remove the file when no daemon uses this state folder",
		}
	}
	return file, paths, nil
}
