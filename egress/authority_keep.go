package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

const (
	keyFile  = "authority.pem" // certificate and key
	lockFile = "lock"

	maxKeyFile = 64 << 10    // bytes
	lockWait   = time.Minute // for another process that creates a key on a busy machine
	lockLook   = 5 * time.Millisecond

	typeCertificate = "CERTIFICATE"
	typeKey         = "PRIVATE KEY"
)

// lock takes the exclusive lock for writing in the folder.
func (a *Authority) lock() (unlock func(), err error) {
	path := filepath.Join(a.dir, lockFile)
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW), flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(ctx, lockLook); err != nil {
		return nil, statedir.Unavailable("open egress authority", path, err)
	}
	return func() { _ = l.Close() }, nil
}

// first creates the authority of a folder that has none. If the public
// certificate still exists, the key was lost, and first returns an error: the
// user has to remove that certificate before another authority is created.
func (a *Authority) first(now time.Time) (pair, error) {
	public := filepath.Join(a.dir, trustDir, certFile)
	if _, err := os.Lstat(public); !errors.Is(err, fs.ErrNotExist) {
		path := filepath.Join(a.dir, keyFile)
		return pair{}, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "open egress authority", Resource: path,
			Message: path + " is missing while sandboxes may trust the authority that it held",
			Hint:    "restore it; or remove " + public + ", and another authority is made",
		}
	}
	return made(now)
}

// readPair reads the file of the authority. The error is fs.ErrNotExist
// unchanged if there is none, otherwise a *sandbox.Error.
func readPair(path string) (pair, error) {
	const op = "open egress authority"
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return pair{}, fs.ErrNotExist
	}
	if err != nil {
		return pair{}, statedir.Unavailable(op, path, err)
	}
	defer f.Close()
	if err := checkOurs(f); err != nil {
		return pair{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return pair{}, statedir.Unavailable(op, path, err)
	}
	defer clear(data)
	p, err := parsePair(data)
	if err != nil {
		return pair{}, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: op, Resource: path,
			Message: path + " is damaged: it " + err.Error(),
			Hint: "restore it; or remove it and " + filepath.Join(filepath.Dir(path), trustDir, certFile) +
				", and another authority is made",
		}
	}
	return p, nil
}

// checkOurs returns an error unless f is a regular file that belongs to the
// current user and that no other user can read or write.
func checkOurs(f *os.File) error {
	const op = "open egress authority"
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return statedir.Unavailable(op, f.Name(), err)
	}
	refuse := func(message, hint string) error {
		return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: op, Resource: f.Name(), Message: f.Name() + " " + message, Hint: hint}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return refuse("is not a regular file", "move it away")
	case int(st.Uid) != os.Geteuid():
		return refuse(fmt.Sprintf("belongs to uid %d and we run as uid %d", st.Uid, os.Geteuid()), "run as its owner")
	case st.Mode&0o077 != 0:
		return refuse(fmt.Sprintf("holds a key and is open to other users (mode %04o)", st.Mode&0o7777),
			"remove it and the folder "+trustDir+" beside it if another user may have read it, else chmod 600 "+f.Name())
	}
	return nil
}

// parsePair parses one certificate and its key, and accepts nothing else. Its
// errors complete the sentence "it …" and reveal no content.
func parsePair(data []byte) (p pair, err error) {
	if len(data) > maxKeyFile {
		return p, errors.New("is too long")
	}
	for len(data) > 0 {
		var b *pem.Block
		if b, data = pem.Decode(data); b == nil {
			return p, errors.New("holds something that is not PEM")
		}
		switch {
		case b.Type == typeCertificate && p.cert == nil:
			if p.cert, err = x509.ParseCertificate(b.Bytes); err != nil {
				return p, errors.New("holds a certificate that cannot be read")
			}
		case b.Type == typeKey && p.key == nil:
			key, err := x509.ParsePKCS8PrivateKey(b.Bytes)
			clear(b.Bytes)
			var ok bool
			if p.key, ok = key.(*ecdsa.PrivateKey); err != nil || !ok || p.key.Curve != elliptic.P256() {
				return p, errors.New("holds a key that cannot be read")
			}
		default:
			return p, errors.New("holds more than a certificate and its key")
		}
	}
	return p, p.check()
}

// check returns an error if the pair is not an authority made by this package.
func (p pair) check() error {
	switch {
	case p.cert == nil:
		return errors.New("holds no certificate")
	case p.key == nil:
		return errors.New("holds no key")
	case !p.key.PublicKey.Equal(p.cert.PublicKey):
		return errors.New("holds a key that is not the certificate's")
	case !p.cert.IsCA || !p.cert.MaxPathLenZero || p.cert.KeyUsage != x509.KeyUsageCertSign || p.cert.CheckSignatureFrom(p.cert) != nil:
		return errors.New("holds a certificate that is not one of this program's authorities")
	}
	return nil
}

// write stores the pair atomically.
func (p pair) write(path string) error {
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return err
	}
	defer clear(der)
	data := pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: p.cert.Raw})
	data = append(data, pem.EncodeToMemory(&pem.Block{Type: typeKey, Bytes: der})...)
	defer clear(data)
	dir := filepath.Dir(path)
	if err := replace(path, data, 0o600, dir); err != nil {
		return err
	}
	return statedir.SyncDir(dir)
}

// replace atomically replaces the file at path, if any, whatever its mode was.
// The new file is written in the folder tmp first.
func replace(path string, data []byte, mode fs.FileMode, tmp string) error {
	f, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(mode), renameio.WithTempDir(tmp))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
