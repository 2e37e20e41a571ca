package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

const (
	folderDigits = 40 // of a SHA-256: two tenants never share a folder
	nameSuffix   = ".tenant"
	maxNameFile  = 4 << 10 // bytes
)

// folderOf returns the name of the folder of a tenant's chain, which never
// contains any part of the tenant's name.
func folderOf(tenant string) string {
	sum := sha256.Sum256([]byte("evidence of tenant\x00" + tenant))
	return hex.EncodeToString(sum[:])[:folderDigits]
}

func isFolder(name string) bool {
	return len(name) == folderDigits && strings.Trim(name, "0123456789abcdef") == ""
}

// A listing is what lies in the folder of evidence.
type listing struct {
	chains    []string // folders of chains
	orphans   []string // folders that a file names and that are not there
	old       bool     // the one journal of everybody, from before there were chains
	strangers []string // what is not ours
}

// list reads the folder. One that is missing is empty.
func (s *Store) list() (listing, error) {
	var n listing
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return n, statedir.Unavailable("list evidence", s.dir, err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		if e.IsDir() && isFolder(e.Name()) {
			there[e.Name()] = true
			n.chains = append(n.chains, e.Name())
		}
	}
	for _, e := range entries {
		folder, named := strings.CutSuffix(e.Name(), nameSuffix)
		digits, records := strings.CutSuffix(e.Name(), ".jsonl")
		switch {
		case there[e.Name()], strings.HasPrefix(e.Name(), "."): // of a write that did not come to its end
		case named && isFolder(folder):
			if !there[folder] {
				n.orphans = append(n.orphans, folder)
			}
		case records && strings.Trim(digits, "0123456789") == "" && e.Type().IsRegular():
			n.old = true
		case e.Name() != "head" && e.Name() != "lock" && e.Name() != "next.tmp":
			n.strangers = append(n.strangers, e.Name())
		}
	}
	return n, nil
}

// nameFile returns the file that says whose chain is in the folder.
func (s *Store) nameFile(folder string) string { return filepath.Join(s.dir, folder+nameSuffix) }

// readName returns the tenant that the file next to a folder names; false when
// there is no valid one.
func (s *Store) readName(folder string) (string, bool, error) {
	f, err := os.OpenFile(s.nameFile(folder), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) {
		return "", false, nil
	}
	if err != nil {
		return "", false, statedir.Unavailable("read evidence", s.nameFile(folder), err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxNameFile))
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EAGAIN) {
		return "", false, nil
	}
	if err != nil {
		return "", false, statedir.Unavailable("read evidence", s.nameFile(folder), err)
	}
	var tenant string
	if json.Unmarshal(data, &tenant) != nil || folderOf(tenant) != folder {
		return "", false, nil
	}
	return tenant, true, nil
}

// writeName writes the name file next to the folder of a tenant. It does not
// replace an existing file with other content, because another party put it
// there.
func (s *Store) writeName(tenant string) error {
	folder := folderOf(tenant)
	if _, ok, err := s.readName(folder); ok || err != nil {
		return err
	}
	path := s.nameFile(folder)
	if _, err := os.Lstat(path); err == nil {
		// Another one may have made it since.
		if _, ok, err := s.readName(folder); ok || err != nil {
			return err
		}
		return &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "record evidence", Resource: path,
			Message: path + " does not name the tenant whose evidence lies beside it",
			Hint:    "it was changed: see \"sandbox evidence verify\", then remove it",
		}
	}
	data, err := json.Marshal(tenant)
	if err == nil {
		err = renameio.WriteFile(path, append(data, '\n'), 0o600, renameio.WithTempDir(s.dir), renameio.WithStaticPermissions(0o600))
	}
	return statedir.Unavailable("record evidence", path, err)
}
