package statedir

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// A guestCache remembers one installation that was verified by reading both
// files. It saves two digests over 2.5 MB, about 3 ms, at every start.
type guestCache struct {
	Source    fileID `json:"source"`
	Installed fileID `json:"installed"`
	Digest    string `json:"digest"`
}

func (d *Dir) cachePath() string { return filepath.Join(d.Guest(), "verified.json") }

// cachedGuest returns the reference for the source id if both it and the
// installed copy are as they were when they were last read.
func (d *Dir) cachedGuest(id fileID) (sandbox.GuestRef, bool) {
	data, err := os.ReadFile(d.cachePath())
	if err != nil || len(data) > 4096 {
		return sandbox.GuestRef{}, false
	}
	var c guestCache
	if json.Unmarshal(data, &c) != nil || len(c.Digest) != 64 || filepath.Base(c.Digest) != c.Digest {
		return sandbox.GuestRef{}, false
	}
	dir := filepath.Join(d.Guest(), c.Digest)
	id.regular = false
	if c.Source != id || c.Installed != identifyPath(filepath.Join(dir, GuestBinary)) {
		return sandbox.GuestRef{}, false
	}
	return sandbox.GuestRef{Dir: dir, Digest: c.Digest}, true
}

// cacheGuest remembers a verified installation. It is an optimisation: a
// failure to write only means that the next start reads the files again.
func (d *Dir) cacheGuest(id fileID, ref sandbox.GuestRef) {
	installed := identifyPath(filepath.Join(ref.Dir, GuestBinary))
	now := time.Now()
	if !id.settled(now) || !installed.settled(now) || installed.Size != id.Size {
		return
	}
	data, err := json.Marshal(guestCache{Source: id, Installed: installed, Digest: ref.Digest})
	if err != nil {
		return
	}
	_ = renameio.WriteFile(d.cachePath(), data, 0o600, renameio.WithTempDir(d.Guest()))
}

// identifyPath returns the zero fileID when path is no regular file.
func identifyPath(path string) fileID {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return fileID{}
	}
	defer f.Close()
	id, err := identify(f)
	if err != nil || !id.regular {
		return fileID{}
	}
	id.regular, id.Path = false, path
	return id
}
