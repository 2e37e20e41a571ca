package manager

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// TestAuthorities holds which files docker.caFile may name, and that a file is
// taken as a whole or refused.
func TestAuthorities(t *testing.T) {
	one, two := certificateDER(t), certificateDER(t)
	a, b := pemOf("CERTIFICATE", one), pemOf("CERTIFICATE", two)
	dir := t.TempDir()
	write := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	tests := []struct {
		name string
		make func(path string) error
		code sandbox.Code // empty: it is taken
		says string
		want string
	}{
		{"one", write(a), "", "", a},
		{"several, one of them twice, with notes and CRLF", write("\ufeff" + strings.ReplaceAll(a, "\n", "\r\n") + "# two\n" + b + a), "", "", a + b},
		{"a link", func(path string) error { return os.Symlink(writeTo(t, a), path) }, "", "", a},
		{"missing", func(string) error { return nil }, sandbox.CodeValidation, "no such file", ""},
		{"a folder", func(path string) error { return os.Mkdir(path, 0o755) }, sandbox.CodeValidation, "folder", ""},
		{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o644) }, sandbox.CodeValidation, "no regular file", ""},
		{"empty", write(""), sandbox.CodeValidation, "no certificate", ""},
		{"text", write("hello"), sandbox.CodeValidation, "no certificate", ""},
		{"DER", write(string(one)), sandbox.CodeValidation, "DER", ""},
		{"with a key", write(a + pemOf("PRIVATE KEY", one)), sandbox.CodeValidation, "private key", ""},
		{"with an old key", write(a + pemOf("EC PRIVATE KEY", one)), sandbox.CodeValidation, "private key", ""},
		{"with a request", write(a + pemOf("CERTIFICATE REQUEST", one)), sandbox.CodeValidation, "block 2", ""},
		{"damaged", write(a + pemOf("CERTIFICATE", two[:50])), sandbox.CodeValidation, "certificate 2", ""},
		{"cut", write(a + b[:len(b)/2]), sandbox.CodeValidation, "2 blocks begin", ""},
		{"beside a line", write(a + "x" + b), sandbox.CodeValidation, "2 blocks begin", ""},
		{"too large", write(a + strings.Repeat("#", maxCA)), sandbox.CodeValidation, "larger", ""},
		{"others may write", func(path string) error { return errors.Join(write(a)(path), os.Chmod(path, 0o664)) }, sandbox.CodePermissionDeny, "written by other", ""},
		{"below what a sandbox writes", func(path string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "ws"), 0o755), os.WriteFile(filepath.Join(dir, "ws", "ca"), []byte(a), 0o644), os.Symlink(filepath.Join(dir, "ws", "ca"), path))
		}, sandbox.CodeCapabilityBlocked, "code in a sandbox can write", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ca.pem")
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			d := describer{m: &Manager{host: Host{Home: filepath.Dir(path)}}}
			var res config.Resolved
			res.Docker.CAFile = "~/ca.pem"
			got, err := d.authorities(res, []string{filepath.Join(dir, "ws")})
			if sandbox.CodeOf(err) != tt.code || !bytes.Equal(got, []byte(tt.want)) {
				t.Fatalf("got %q, %v", got, err)
			}
			var e *sandbox.Error
			if tt.code != "" && (!errors.As(err, &e) || e.Field != "docker.caFile" || e.Hint == "" || !strings.Contains(e.Message, tt.says)) {
				t.Errorf("the refusal is %+v", e)
			}
		})
	}
	var res config.Resolved
	res.Docker.CAFile = "ca.pem" // as the environment may say
	if _, err := (&describer{m: new(Manager)}).authorities(res, nil); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a relative path: %v", err)
	}
}

func certificateDER(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "company"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func pemOf(kind string, data []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
}

func writeTo(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.pem")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestJavaTrustOfCalls holds that a call which sets options of Java keeps the
// store of its sandbox, and that its map stays the caller's.
func TestJavaTrustOfCalls(t *testing.T) {
	inside := map[string]string{"JAVA_TOOL_OPTIONS": "-Xmx1g -Djavax.net.ssl.trustStore=/s -Djavax.net.ssl.trustStoreType=PKCS12"}
	for call, want := range map[string]string{
		"-Da=b":                            "-Da=b -Djavax.net.ssl.trustStore=/s -Djavax.net.ssl.trustStoreType=PKCS12",
		"-Djavax.net.ssl.trustStore=/mine": "-Djavax.net.ssl.trustStore=/mine",
	} {
		env := map[string]string{"JAVA_TOOL_OPTIONS": call}
		if got := withJavaTrust(inside, env)["JAVA_TOOL_OPTIONS"]; got != want || env["JAVA_TOOL_OPTIONS"] != call {
			t.Errorf("%s becomes %s, and the caller's is %s", call, got, env["JAVA_TOOL_OPTIONS"])
		}
	}
	if got := withJavaTrust(inside, map[string]string{"A": "b"}); len(got) != 1 {
		t.Errorf("a call without them becomes %v", got)
	}
}
