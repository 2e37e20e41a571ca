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
	companiesDir = "companies" // parent of the folders of BundleWith
	rootsDir     = "roots"     // the root certificates of images; mounted in no sandbox
	javaFile     = "truststore.p12"

	// companyLife is how long an unused folder of BundleWith is kept.
	companyLife = 90 * 24 * time.Hour
	// companyTouch is the interval at which a folder is marked as used.
	companyTouch = 24 * time.Hour
)

// companyState records a folder of BundleWith as it was written, to detect
// changes.
type companyState struct {
	bundleState
	used time.Time // when it was last marked as used
}

// JavaOptions are the options that make a Java virtual machine trust the store
// of [Authority.BundleWith]. The store has no password, which Java accepts
// since version 8.
const JavaOptions = "-Djavax.net.ssl.trustStore=" + sandbox.TrustDir + "/" + javaFile + " -Djavax.net.ssl.trustStoreType=PKCS12"

// A Base holds the roots that a sandbox trusts without the company's
// certificates: those of its image, or of this machine.
type Base struct {
	// Image is the id of the image, empty for this machine.
	Image string
	// Read returns the roots of the image as PEM, nil if it has none. It is
	// called once for an image; it may be nil for this machine.
	Read func() ([]byte, error)
}

// knownRootFiles returns the paths of files in which systems keep all their
// roots, in search order.
func knownRootFiles() []string {
	return append(rootFiles(), "/etc/ssl/certs/ca-bundle.crt") // Nix, openSUSE
}

// CompanyDir returns the folder of [Authority.BundleWith]; egress is the
// folder of the authority. Its name is a digest of the image's id and of the
// certificates, so other certificates have another folder.
func CompanyDir(egress, image string, ca []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "company-1\x00%s\x00", image)
	h.Write(ca)
	return filepath.Join(egress, companiesDir, hex.EncodeToString(h.Sum(nil)[:16]))
}

// BundleWith creates the folder of public certificates for sandboxes that
// trust a company's authority: the files of [Authority.Bundle], with the roots
// of base in place of the system's, the certificates in ca (PEM) added to both
// files, and a store of all of them for Java. The roots of this machine are
// used for an image that has none, because most variables of Env replace a
// program's own roots.
//
// It returns the path, which is that of [CompanyDir]. Changed files are
// replaced as a whole.
func (a *Authority) BundleWith(base Base, ca []byte) (string, error) {
	a.publishing.Lock()
	defer a.publishing.Unlock()
	dir := CompanyDir(a.dir, base.Image, ca)
	ours, err := a.current()
	if err != nil {
		return "", err
	}
	source, _ := a.world.systemRoots() // the error is returned below if the roots are needed
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

// rootsOf returns the roots of base as PEM. Those of an image are cached,
// since the content of an image id never changes.
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

// machineRoots returns the roots of this machine, nil if it has none.
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
	_ = os.Chtimes(dir, now, now) // marks the folder as used for forgetCompanies
	forgetCompanies(parent, now)
	return statedir.Unavailable("write trust folder", dir, statedir.SyncDir(dir))
}

// forgetCompanies removes folders that were not used for long, on a
// best-effort basis: a folder that is needed again is created again.
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

// javaStore returns a PKCS#12 store of trusted certificates from PEM. Each
// certificate has a name of its own, because Java keeps one certificate for a
// name.
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

// onlyCertificates returns the parsable certificates in a PEM text, and
// nothing else of it.
func onlyCertificates(text []byte) []byte {
	var out bytes.Buffer
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		if b.Type != typeCertificate {
			continue
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			continue // as crypto/x509 does: some old roots cannot be parsed
		}
		_ = pem.Encode(&out, &pem.Block{Type: typeCertificate, Bytes: b.Bytes})
	}
	return out.Bytes()
}

// CompanyEnv returns the variables that make common programs trust the bundle
// of [Authority.BundleWith], without those that the image itself sets. A
// variable of the image that names the image's own roots is overridden all the
// same: the bundle contains these too. Java's options are [JavaOptions].
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

// Roots returns the files that may hold the roots of an image with these
// variables: the file that a variable names comes first.
func Roots(image map[string]string) []string {
	files := knownRootFiles()
	if at := path.Clean(image["SSL_CERT_FILE"]); slices.Contains(files, at) {
		files = append([]string{at}, files...)
	}
	return files
}
