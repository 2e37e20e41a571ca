package egress

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"golang.org/x/sys/unix"
)

// maxRoots bounds the file of the system's roots, in bytes.
const maxRoots = 16 << 20

// rootFiles returns the paths of files in which systems keep all their roots,
// in the order in which crypto/x509 looks.
func rootFiles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Gentoo, Arch
		"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
		"/etc/ssl/ca-bundle.pem",                            // openSUSE
		"/etc/pki/tls/cacert.pem",                           // OpenELEC
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // CentOS, RHEL 7
		"/etc/ssl/cert.pem",                                 // Alpine, macOS
	}
}

// A stamp identifies a version of a file, to detect changes.
type stamp struct {
	path       string
	dev, ino   uint64
	mode       uint32
	size       int64
	mod, chang unix.Timespec
}

// stampOf describes the file at path, following links.
func stampOf(path string) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return stamp{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return stamp{path: path, dev: uint64(st.Dev), ino: st.Ino, mode: uint32(st.Mode), size: st.Size, mod: st.Mtim, chang: st.Ctim}, nil
}

// systemRoots finds the file with the roots that programs of this machine
// trust: the one named by SSL_CERT_FILE of the orchestrator, otherwise the
// system's own.
func (w world) systemRoots() (stamp, error) {
	const op = "find the system's root certificates"
	if path := w.getenv("SSL_CERT_FILE"); path != "" {
		s, err := stampOf(path)
		if err != nil {
			e := sandbox.Errorf(sandbox.CodeUnavailable, op, "SSL_CERT_FILE names %s, which cannot be read", path)
			e.Resource, e.Err, e.Hint = path, err, "correct or unset the variable"
			return stamp{}, e
		}
		return s, nil
	}
	for _, path := range w.roots {
		if s, err := stampOf(path); err == nil && s.size > 0 {
			return s, nil
		}
	}
	e := sandbox.Errorf(sandbox.CodeUnavailable, op, "this machine has no file of root certificates")
	e.Hint = "install the package ca-certificates, or name such a file in SSL_CERT_FILE"
	return stamp{}, e
}

// readRoots returns the certificates in the file at path as PEM, and nothing
// else from it: a key beside them must never be visible in a sandbox.
func readRoots(path string) ([]byte, error) {
	const op = "read the system's root certificates"
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, statedir.Unavailable(op, path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRoots+1))
	if err == nil && len(data) > maxRoots {
		err = errors.New("the file is too long")
	}
	if err != nil {
		return nil, statedir.Unavailable(op, path, err)
	}
	out := onlyCertificates(data)
	if len(out) == 0 {
		e := sandbox.Errorf(sandbox.CodeUnavailable, op, "%s holds no certificate", path)
		e.Resource, e.Hint = path, "install the package ca-certificates, or name another file in SSL_CERT_FILE"
		return nil, e
	}
	return out, nil
}
