package manager

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider"
)

// caField is the setting of the file with a company's certificates.
const caField = "docker.caFile"

// maxCA bounds that file, in bytes.
const maxCA = 1 << 20

// A Trusted is what sandboxes trust that are shown a company's certificates.
type Trusted struct {
	Dir             string            // the folder of certificates
	Env             map[string]string // that makes programs trust them
	Java, ImageJava string            // see [config.Facts]
}

// authorities returns the certificates in the file of docker.caFile as PEM, each
// once, and nil where the setting is empty. exposed are canonical folders that
// code in some sandbox can write.
//
// The content of the file decides which servers sandboxes, and the proxy with its
// secrets, trust. So authorities refuses a file that other users could
// have written, as for a settings file, and never uses a part of a file that it
// cannot parse to its end.
func (d *describer) authorities(res config.Resolved, exposed []string) ([]byte, error) {
	named := res.Docker.CAFile
	if named == "" {
		return nil, nil
	}
	refused := func(code sandbox.Code, resource, message, hint string, cause error) error {
		if o := res.Origin(caField); strings.HasPrefix(o, "environment ") {
			message += " (named by " + config.CAVariable + ")"
		}
		return &sandbox.Error{Code: code, Op: "resolve", Field: caField, Resource: resource, Message: message, Hint: hint, Err: cause}
	}
	file, err := hostpath.Expand(named, d.m.host.Home, d.m.host.Env)
	if err != nil {
		return nil, refused(sandbox.CodeValidation, named, "the file cannot be named", "write /… or ~/…", err)
	}
	if !strings.HasPrefix(file, "/") {
		return nil, refused(sandbox.CodeValidation, named, "the path is not absolute", "write /… or ~/…", nil)
	}
	canonical, via, err := hostpath.Trace(file)
	if err != nil {
		return nil, refused(sandbox.CodeValidation, file, "the file cannot be found", "name a PEM file that this user can read", err)
	}
	for _, place := range append(via, canonical) {
		if slices.ContainsFunc(exposed, func(dir string) bool { return strings.HasPrefix(place, strings.TrimSuffix(dir, "/")+"/") }) {
			return nil, refused(sandbox.CodeCapabilityBlocked, file, "the file is reached through "+place+", which code in a sandbox can write",
				"keep it in a folder that no sandbox can write", nil)
		}
	}
	data, code, message, hint, err := readCA(canonical)
	if message == "" {
		data, message, hint = certificatesIn(data, file)
		code = sandbox.CodeValidation
	}
	if message != "" {
		return nil, refused(code, file, message, hint, err)
	}
	return data, nil
}

// Authorities returns the file that docker.caFile names for who, as the settings
// spell it, with the certificates in it as PEM. Both are empty where it names none.
// The error is that of a sandbox which is to be made with it.
func (m *Manager) Authorities(who config.Who, flags *config.SandboxSettings) (file string, certificates []byte, err error) {
	res, err := config.Resolve(m.current(), who, flags)
	if err != nil {
		return "", nil, err
	}
	exposed, err := m.describer.exposed()
	if err != nil {
		return res.Docker.CAFile, nil, err
	}
	certificates, err = m.describer.authorities(res, exposed)
	return res.Docker.CAFile, certificates, err
}

// readCA reads the file at path, which has no links, or says why it is refused.
func readCA(path string) (data []byte, code sandbox.Code, message, hint string, err error) {
	code, hint = sandbox.CodeValidation, "name a PEM file that this user can read"
	// Without blocking, or a named pipe would never open.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, code, "there is no such file", "name a PEM file that exists, or leave the setting out", err
	case err != nil:
		return nil, code, "the file cannot be opened", hint, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, code, "the file cannot be examined", hint, err
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil, code, "it is a folder, not a file", "name the PEM file in it", nil
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, code, "it is no regular file", "name a PEM file", nil
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return nil, sandbox.CodePermissionDeny, fmt.Sprintf("the file belongs to uid %d, which could change whom sandboxes trust", st.Uid), fmt.Sprintf("chown %d %s", os.Geteuid(), path), nil
	case st.Mode&0o022 != 0:
		return nil, sandbox.CodePermissionDeny, fmt.Sprintf("the file can be written by other users (mode %04o), who could change whom sandboxes trust", st.Mode&0o7777), "chmod go-w " + path, nil
	}
	data, err = io.ReadAll(io.LimitReader(f, maxCA+1))
	switch {
	case err != nil:
		return nil, code, "the file cannot be read", hint, err
	case len(data) > maxCA:
		return nil, code, fmt.Sprintf("the file is larger than %d bytes", maxCA), "name a file with the certificates of your authorities alone", nil
	}
	return data, "", "", "", nil
}

// certificatesIn returns the certificates in a text of PEM, each once and in its
// order, or says why the text is refused.
func certificatesIn(text []byte, file string) (out []byte, message, hint string) {
	const begin = "-----BEGIN "
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	switch {
	case bytes.Contains(text, []byte("PRIVATE KEY-----")):
		return nil, "the file holds a private key, which no sandbox may be shown", "name a file with certificates alone: openssl storeutl -noout -certs -text shows what one holds"
	case !bytes.Contains(text, []byte(begin)) && isDER(text):
		return nil, "the certificate is in DER, not in PEM", "convert it: openssl x509 -inform der -in " + file + " -out ca.pem"
	case !bytes.Contains(text, []byte(begin)):
		return nil, "the file holds no certificate in PEM", "name a file with lines -----BEGIN CERTIFICATE-----"
	}
	var all bytes.Buffer
	seen, blocks := map[string]bool{}, 0
	for b, rest := pem.Decode(text); b != nil; b, rest = pem.Decode(rest) {
		blocks++
		if b.Type != "CERTIFICATE" {
			return nil, fmt.Sprintf("block %d of the file is %q and no certificate", blocks, clipped(b.Type)), "name a file with blocks CERTIFICATE alone"
		}
		if _, err := x509.ParseCertificate(b.Bytes); err != nil {
			return nil, fmt.Sprintf("certificate %d of the file is damaged: %s", blocks, clipped(err.Error())), "export it again"
		}
		if !seen[string(b.Bytes)] {
			seen[string(b.Bytes)] = true
			_ = pem.Encode(&all, &pem.Block{Type: b.Type, Bytes: b.Bytes})
		}
	}
	if blocks != bytes.Count(text, []byte(begin)) {
		return nil, fmt.Sprintf("%d blocks begin in the file and %d can be read", bytes.Count(text, []byte(begin)), blocks), "export the certificates again; each line -----BEGIN has to begin a line"
	}
	return all.Bytes(), "", ""
}

func isDER(data []byte) bool {
	_, err := x509.ParseCertificate(data)
	return err == nil
}

// clipped is a text of a file as a message may repeat it.
func clipped(s string) string {
	const most = 100
	if len(s) > most {
		s = s[:most] + "…"
	}
	return s
}

// company finds what sandboxes of p trust with the certificates in ca, and with
// effects makes it.
func (d *describer) company(ctx context.Context, p sandbox.Provider, ca []byte, i intent, f *config.Facts) error {
	if len(ca) == 0 {
		return nil
	}
	if d.m.host.TrustWith == nil {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "resolve", Field: caField, Message: "this program has no folder of certificates for sandboxes", Hint: "leave the setting out"}
	}
	if _, elsewhere := p.(provider.ImageSource); elsewhere {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "resolve", Field: caField, Message: "the roots of an image cannot be read with the provider " + p.Name(),
			Hint: "add the certificates to the image, and leave the setting out"}
	}
	image := f.ImageID
	if image == noImage {
		image = ""
	}
	t, err := d.m.host.TrustWith(ctx, ca, image, i == effects)
	if err != nil {
		return err
	}
	f.TrustDir, f.TrustEnv, f.TrustJava, f.ImageJava = t.Dir, t.Env, t.Java, t.ImageJava
	return nil
}
