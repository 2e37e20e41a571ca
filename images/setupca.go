package images

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// caVariable names the file of a company's certificates that the setup commands
// trust while an image is made. The image trusts none of them.
const caVariable = "SANDBOX_CA_FILE"

const (
	maxCA    = 1 << 20
	caFile   = "sandbox-setup-ca.pem"
	caBundle = "/sandbox-setup-roots.pem" // the roots of the image and the company's
)

// caPrograms are the variables by which programs find their roots.
func caPrograms() []string {
	return []string{
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "npm_config_cafile", "GIT_SSL_CAINFO",
	}
}

// withCA lets the commands of a setup job trust the certificates that the variable
// names, where it is set: as arguments of the build, which leave nothing in the
// image but the files of the layers below its last one. It returns how many
// instructions that puts before the first command.
func (s *Store) withCA(job *buildJob) (instructions int, err error) {
	name := s.getenv(caVariable)
	if name == "" {
		return 0, nil
	}
	text, err := readCA(name)
	if err != nil {
		return 0, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: job.op, Field: caVariable, Resource: name, Message: "the certificates for docker.setup cannot be used",
			Hint: "name a file of PEM certificates, or unset " + caVariable, Err: err,
		}
	}
	lines := []string{
		"COPY " + caFile + " /" + caFile,
		`RUN cat /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /` + caFile + ` >` + caBundle + ` 2>/dev/null || true`,
	}
	for _, v := range caPrograms() {
		lines = append(lines, "ARG "+v+"="+caBundle)
	}
	head, commands, _ := strings.Cut(job.dockerfile, "USER 0\n")
	i := strings.LastIndex(commands, "USER ")
	job.dockerfile = head + "USER 0\n" + strings.Join(lines, "\n") + "\n" + commands[:i] + "RUN rm -f /" + caFile + " " + caBundle + "\n" + commands[i:]
	job.files = append(job.files, file{caFile, text, 0o644})
	return len(lines), nil
}

// readCA returns the certificates of a PEM file and nothing else of it.
func readCA(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return "", errors.Join(errors.New("it is no regular file"), err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCA+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxCA {
		return "", fmt.Errorf("it has more than %d bytes", maxCA)
	}
	var b strings.Builder
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return "", fmt.Errorf("it holds a block %q, which is no certificate", printable(block.Type))
		}
		b.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		data = rest
	}
	if b.Len() == 0 {
		return "", errors.New("it holds no certificate")
	}
	return b.String(), nil
}
