package egress

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"software.sslmate.com/src/go-pkcs12"
)

const (
	companiesDir = "companies" // of the folders that BundleWith makes
	rootsDir     = "roots"     // of the root certificates of images; no sandbox is shown it
	javaFile     = "truststore.p12"

	// companyLife is how long a folder of BundleWith stays that nothing uses.
	companyLife = 90 * 24 * time.Hour
	// companyTouch is how often the folder is marked as used.
	companyTouch = 24 * time.Hour
)

// companyState tells whether a folder of BundleWith is still as it was written.
type companyState struct {
	bundleState
	used time.Time // when it was marked last
}

// JavaOptions are the options by which a Java virtual machine trusts what
// [Authority.BundleWith] put together. The store has no password, which Java
// accepts since version 8.
const JavaOptions = "-Djavax.net.ssl.trustStore=" + sandbox.TrustDir + "/" + javaFile + " -Djavax.net.ssl.trustStoreType=PKCS12"

// A Base is what a sandbox trusts without the company's certificates: the roots
// of its image, or of this machine.
type Base struct {
	// Image is the id of the image, empty for this machine.
	Image string
	// Read reads the roots of the image as PEM, nil where it has none. It is
	// asked once for an image; nil is needed for this machine alone.
	Read func() ([]byte, error)
}

// knownRootFiles returns the paths at which systems keep all their roots in one
// file, in the order in which they are looked for.
func knownRootFiles() []string {
	return append(rootFiles(), "/etc/ssl/certs/ca-bundle.crt") // Nix, openSUSE
}

// CompanyDir returns the folder that [Authority.BundleWith] makes, where egress
// is the folder of the authority. Its name is a digest of the image's id and of
// the certificates, so other certificates are another folder.
func CompanyDir(egress, image string, ca []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "company-1\x00%s\x00", image)
	h.Write(ca)
	return filepath.Join(egress, companiesDir, hex.EncodeToString(h.Sum(nil)[:16]))
}

// BundleWith makes the folder of public certificates for sandboxes that trust a
// company's authority: what [Authority.Bundle] makes, with the roots of base in
// place of the system's, the certificates in ca (PEM) added to both files, and a
// store of all of them for Java. The roots of this machine stand in for those of
// an image that has none, because most variables of Env take the place of a
// program's own roots.
//
// It returns the path, which is that of [CompanyDir]. Files are replaced as a
// whole where they have to be others.
func (a *Authority) BundleWith(base Base, ca []byte) (string, error) {
	a.publishing.Lock()
	defer a.publishing.Unlock()
	dir := CompanyDir(a.dir, base.Image, ca)
	ours, err := a.current()
	if err != nil {
		return "", err
	}
	source, _ := a.world.systemRoots() // where it is needed its error is told below
	now := a.world.now()
	if s, ok := a.companies[dir]; ok && s.source == source && s.serial == ours.SerialNumber.String() && s.files != nil &&
		now.Sub(s.used) < companyTouch && slices.Equal(s.files, companyStamps(dir)) {
		return dir, nil
	}
	roots, err := a.rootsOf(base)
	if err != nil {
		return "", err
	}
	if err := a.writeCompany(dir, roots, ca, ours); err != nil {
		return "", err
	}
	if a.companies == nil {
		a.companies = map[string]companyState{}
	}
	a.companies[dir] = companyState{bundleState{source: source, serial: ours.SerialNumber.String(), files: companyStamps(dir)}, now}
	return dir, nil
}

func companyStamps(dir string) []stamp {
	s, err := stampOf(filepath.Join(dir, javaFile))
	rest := stamps(dir)
	if err != nil || rest == nil {
		return nil
	}
	return append(rest, s)
}

// rootsOf returns the roots of base as PEM. Those of an image are kept, since an
// image never changes under its id.
func (a *Authority) rootsOf(base Base) ([]byte, error) {
	if base.Image == "" {
		return a.machineRoots()
	}
	const op = "keep the image's root certificates"
	sum := sha256.Sum256([]byte(base.Image))
	dir, err := statedir.MakePrivate(filepath.Join(a.dir, rootsDir))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, hex.EncodeToString(sum[:])+".pem")
	kept, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if kept, err = base.Read(); err != nil {
			return nil, err
		}
		kept = onlyCertificates(kept)
		unlock, err := a.lock()
		if err != nil {
			return nil, err
		}
		defer unlock()
		if err := replace(file, kept, 0o600, a.dir); err != nil {
			return nil, statedir.Unavailable(op, file, err)
		}
	} else if err != nil {
		return nil, statedir.Unavailable(op, file, err)
	}
	if len(kept) == 0 {
		return a.machineRoots()
	}
	return kept, nil
}

// machineRoots are the roots of this machine, nil where it has none.
func (a *Authority) machineRoots() ([]byte, error) {
	source, err := a.world.systemRoots()
	if err != nil && a.world.getenv("SSL_CERT_FILE") == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readRoots(source.path)
}

// writeCompany brings the folder dir up to date.
func (a *Authority) writeCompany(dir string, roots, ca []byte, ours *x509.Certificate) error {
	own := pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: ours.Raw})
	added := slices.Concat(ca, own)
	all := slices.Concat(roots, added)
	store, err := javaStore(all)
	if err != nil {
		return statedir.Unavailable("write trust folder", dir, err)
	}
	unlock, err := a.lock()
	if err != nil {
		return err
	}
	defer unlock()
	parent := filepath.Dir(dir)
	if _, err := statedir.MakePrivate(parent); err != nil {
		return err
	}
	if err := statedir.MakeShown(dir); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{certFile, added}, {bundleFile, all}, {wgetFile, wgetText()}, {javaFile, store},
	} {
		file := filepath.Join(dir, f.name)
		if err := a.publish(file, f.data); err != nil {
			return statedir.Unavailable("write trust folder", file, err)
		}
	}
	now := a.world.now()
	_ = os.Chtimes(dir, now, now) // by which forgetCompanies knows that it is used
	forgetCompanies(parent, now)
	return statedir.Unavailable("write trust folder", dir, syncDir(dir))
}

// forgetCompanies removes the folders that nothing has used for long. Best
// effort: one that is needed again is made again.
func forgetCompanies(parent string, now time.Time) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && fi.IsDir() && now.Sub(fi.ModTime()) > companyLife {
			_ = os.RemoveAll(filepath.Join(parent, e.Name()))
		}
	}
}

// javaStore makes a PKCS#12 store of trusted certificates from PEM. Each has a
// name of its own, because Java keeps one certificate for a name.
func javaStore(text []byte) ([]byte, error) {
	var entries []pkcs12.TrustStoreEntry
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		entries = append(entries, pkcs12.TrustStoreEntry{Cert: c, FriendlyName: fmt.Sprintf("ca-%d", len(entries)+1)})
	}
	return pkcs12.Passwordless.EncodeTrustStoreEntries(entries, "")
}

// onlyCertificates returns the certificates in a text of PEM that can be read,
// and nothing else of it.
func onlyCertificates(text []byte) []byte {
	var out bytes.Buffer
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		if b.Type != typeCertificate {
			continue
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			continue // as crypto/x509 does: old roots that it cannot read exist
		}
		_ = pem.Encode(&out, &pem.Block{Type: typeCertificate, Bytes: b.Bytes})
	}
	return out.Bytes()
}

// CompanyEnv returns the variables that make usual programs trust what
// [Authority.BundleWith] put together, without those that the image sets itself.
// A variable of the image that names the image's own roots is no such: the
// bundle holds these too. Java's options are [JavaOptions].
func CompanyEnv(image map[string]string) map[string]string {
	env := variables()
	for name, value := range image {
		for ours := range env {
			if strings.EqualFold(name, ours) && !slices.Contains(knownRootFiles(), path.Clean(value)) {
				delete(env, ours)
			}
		}
	}
	return env
}

// Roots returns which of RootFiles holds the roots of an image that sets these
// variables: the one that a variable names comes first.
func Roots(image map[string]string) []string {
	files := knownRootFiles()
	if at := path.Clean(image["SSL_CERT_FILE"]); slices.Contains(files, at) {
		files = append([]string{at}, files...)
	}
	return files
}
