package egress

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// The folder that is mounted in sandboxes at [sandbox.TrustDir], and its
// files.
const (
	trustDir   = "trust"
	bundleFile = "ca-bundle.crt" // the system's roots and the authority's certificate
	certFile   = "ca.crt"        // the authority's certificate alone
	wgetFile   = "wgetrc"        // makes wget read the bundle: it has no variable for that
)

// bundleState records the folder as it was written, to detect changes.
type bundleState struct {
	source stamp
	serial string
	files  []stamp
}

// Bundle brings the folder of public certificates up to date and returns its
// path. The folder holds the system's root certificates together with the
// authority's, and the latter alone; both files are replaced as a whole, so
// that sandboxes with the folder mounted see the new ones. Every user may read
// the folder and only the current one may write it. The call costs a few
// system calls if neither the system's roots nor the authority's certificate
// have changed.
//
// If processes with different SSL_CERT_FILE share a state folder, each
// overwrites the bundle of the others.
func (a *Authority) Bundle() (string, error) {
	a.publishing.Lock()
	defer a.publishing.Unlock()
	dir := filepath.Join(a.dir, trustDir)
	ours, err := a.current()
	if err != nil {
		return "", err
	}
	source, err := a.world.systemRoots()
	if err != nil {
		return "", err
	}
	want := bundleState{source: source, serial: ours.SerialNumber.String(), files: stamps(dir)}
	if want.files != nil && want.source == a.bundle.source && want.serial == a.bundle.serial && slices.Equal(want.files, a.bundle.files) {
		return dir, nil
	}
	if err := a.writeTrust(dir, source.path, ours); err != nil {
		return "", err
	}
	want.files = stamps(dir)
	a.bundle = want
	return dir, nil
}

// stamps describes the files of the folder. It returns nil if one is missing.
func stamps(dir string) []stamp {
	var out []stamp
	for _, name := range []string{".", bundleFile, certFile, wgetFile} {
		s, err := stampOf(filepath.Join(dir, name))
		if err != nil {
			return nil
		}
		if name == "." { // its times change when files are replaced
			s = stamp{path: s.path, dev: s.dev, ino: s.ino, mode: s.mode}
		}
		out = append(out, s)
	}
	return out
}

// writeTrust brings the folder dir up to date.
func (a *Authority) writeTrust(dir, source string, ca *x509.Certificate) error {
	roots, err := readRoots(source)
	if err != nil {
		return err
	}
	unlock, err := a.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := statedir.MakeShown(dir); err != nil {
		return err
	}
	ours := pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: ca.Raw})
	for _, f := range []struct {
		name string
		data []byte
	}{
		{certFile, ours},
		{bundleFile, slices.Concat(roots, ours)},
		{wgetFile, wgetText()},
	} {
		path := filepath.Join(dir, f.name)
		if err := a.publish(path, f.data); err != nil {
			return statedir.Unavailable("write trust folder", path, err)
		}
	}
	return statedir.Unavailable("write trust folder", dir, statedir.SyncDir(dir))
}

func wgetText() []byte {
	return fmt.Appendf(nil, "ca_certificate = %s/%s\n", sandbox.TrustDir, bundleFile)
}

// publish replaces the file at path unless its content is right. The temporary
// file is outside the folder, so that only complete files are visible there.
func (a *Authority) publish(path string, data []byte) error {
	fi, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && fi.Mode() == 0o644 && fi.Size() == int64(len(data)) {
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
			return nil
		}
	}
	return replace(path, data, 0o644, a.dir)
}
