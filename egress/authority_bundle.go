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

// The folder that sandboxes are shown at [sandbox.TrustDir], and its files.
const (
	trustDir   = "trust"
	bundleFile = "ca-bundle.crt" // the system's roots and ours
	certFile   = "ca.crt"        // ours alone
	wgetFile   = "wgetrc"        // makes wget read the bundle: it has no variable for that
)

// bundleState tells whether the folder is still as it was written.
type bundleState struct {
	source stamp
	serial string
	files  []stamp
}

// Bundle makes the folder of public certificates as it has to be now, and
// returns its path. It holds the system's root certificates together with the
// authority's, and the latter alone; both are replaced as a whole, so that who
// has the folder mounted sees the new ones. Everybody may read the folder and
// only we may write it. It costs some system calls as long as neither the
// system's roots nor the authority's certificate have changed.
//
// Processes with different SSL_CERT_FILE that share a state folder write the
// bundle in turn: the last one counts.
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

// stamps describes the files of the folder, or is nil when one is missing.
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
	return statedir.Unavailable("write trust folder", dir, syncDir(dir))
}

func wgetText() []byte {
	return fmt.Appendf(nil, "ca_certificate = %s/%s\n", sandbox.TrustDir, bundleFile)
}

// publish replaces the file at path unless it is right. The temporary file is
// not in the folder: what is shown there has its name at all times.
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
