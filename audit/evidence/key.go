package evidence

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// secret returns the signing key, and creates it when there is none. It does
// not create one when there are chains already: they were signed with another
// key, and a new key would hide that it was removed.
func (s *Store) secret() (ed25519.PrivateKey, error) {
	s.keyMu.Lock()
	defer s.keyMu.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	key, err := readKey(s.keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		if key, err = s.newKey(); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	s.key = key
	return key, nil
}

func (s *Store) newKey() (ed25519.PrivateKey, error) {
	have, err := s.list()
	if err != nil {
		return nil, err
	}
	if len(have.chains) > 0 {
		key, err := readKey(s.keyFile) // another process may have made it, and the chain, just now
		if !errors.Is(err, fs.ErrNotExist) {
			return key, err
		}
		return nil, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "read evidence key", Resource: s.keyFile,
			Message: "the key that signs evidence is missing while there is evidence",
			Hint:    "restore " + s.keyFile + ", or move " + s.dir + " away to begin anew",
		}
	}
	if err := makeKey(s.keyFile); err != nil {
		return nil, statedir.Unavailable("make evidence key", s.keyFile, err)
	}
	return readKey(s.keyFile)
}

// PublicKey returns the public part of the key that signs, and nil when there
// is no key yet. Nothing is made.
func (s *Store) PublicKey() (ed25519.PublicKey, error) {
	key, err := readKey(s.keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return key.Public().(ed25519.PublicKey), nil
}

// readKey returns fs.ErrNotExist unchanged and every other failure as a
// *sandbox.Error. It refuses a file that other users may read or that another
// user owns, because a holder of the key can sign anything.
func readKey(path string) (ed25519.PrivateKey, error) {
	const op = "read evidence key"
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fs.ErrNotExist
	}
	refuse := func(code sandbox.Code, hint, format string, args ...any) error {
		return &sandbox.Error{Code: code, Op: op, Resource: path, Message: path + " " + fmt.Sprintf(format, args...), Hint: hint}
	}
	const restore = "restore it: a new key would not be that of the evidence before"
	if errors.Is(err, unix.ELOOP) {
		return nil, refuse(sandbox.CodePermissionDeny, restore, "is a link")
	}
	if err != nil {
		return nil, statedir.Unavailable(op, path, err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, statedir.Unavailable(op, path, err)
	}
	switch euid := os.Geteuid(); {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, refuse(sandbox.CodePermissionDeny, restore, "is not a file")
	case int(st.Uid) != euid:
		return nil, refuse(sandbox.CodePermissionDeny, "run as its owner", "belongs to uid %d and we run as uid %d", st.Uid, euid)
	case st.Mode&0o077 != 0:
		return nil, refuse(sandbox.CodePermissionDeny, "chmod 0600 "+path+", and ask who may have read it", "is open to others (mode %04o)", st.Mode&0o7777)
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(secretSize)+1))
	if err != nil {
		return nil, statedir.Unavailable(op, path, err)
	}
	key, ok := parseSecret(string(text))
	if !ok {
		return nil, refuse(sandbox.CodeUnavailable, restore, "does not hold a key that signs evidence")
	}
	return key, nil
}

// makeKey puts a new key at path unless there is one by then: each process
// writes a complete file of its own, and link(2) lets exactly one of them
// become the key. A rename would replace the one that another process signs
// with already.
func makeKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, ".evidence-key-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	err = tmp.Chmod(0o600)
	if err == nil {
		_, err = tmp.WriteString(secretCheckpoint(key))
	}
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
