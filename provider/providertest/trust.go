package providertest

import (
	"bytes"
	"context"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress"
)

// A TrustFolder is an authority with its folder of public certificates. With
// [TrustFolder.Check] it tests that a provider shows the folder as it has to.
type TrustFolder struct {
	authority *egress.Authority
	dir       string
}

// NewTrustFolder makes an authority in dir, which is <state folder>/egress.
func NewTrustFolder(t testing.TB, dir string) *TrustFolder {
	t.Helper()
	a, err := egress.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := &TrustFolder{authority: a}
	if f.dir, err = a.Bundle(); err != nil {
		t.Fatal(err)
	}
	return f
}

// Mount is the mount that shows the folder.
func (f *TrustFolder) Mount() sandbox.Mount {
	return sandbox.Mount{Source: f.dir, Target: sandbox.TrustDir, ReadOnly: true, Role: sandbox.RoleTrust}
}

// Check holds that sb, a sandbox with that mount, can read the certificates and
// nothing else of ours, that it cannot change them, and that it sees new ones.
func (f *TrustFolder) Check(t *testing.T, sb sandbox.Sandbox) {
	t.Helper()
	ours := f.read(t, "ca.crt")
	if got, code := sh(t, sb, "cat "+sandbox.TrustDir+"/ca.crt"); code != 0 || got != strings.TrimSpace(ours) {
		t.Errorf("the certificate reads as %q, code %d", got, code)
	}
	if got, _ := sh(t, sb, "ls -A "+sandbox.TrustDir); got != "ca-bundle.crt\nca.crt\nwgetrc" {
		t.Errorf("the folder holds %q", got)
	}
	if got, _ := sh(t, sb, "find / -xdev -name authority.pem 2>/dev/null; grep -l 'PRIVATE KEY' -r "+sandbox.GuestDir+"/trust"); got != "" {
		t.Errorf("a key is to be seen: %q", got)
	}
	for _, line := range []string{
		"echo x >D/ca.crt", "echo x >>D/ca-bundle.crt", "echo x >D/new", "rm D/ca.crt", "mv D/ca.crt D/x", "mv D D2",
		"chmod 777 D", "chmod 777 D/ca.crt", "mkdir D/d", "ln -s /etc/passwd D/l", "mount -o remount,rw D",
	} {
		if got, code := sh(t, sb, strings.ReplaceAll(line, "D", sandbox.TrustDir)); code == 0 {
			t.Errorf("%s worked: %s", line, got)
		}
	}
	for name, path := range f.authority.Env() {
		if got, code := sh(t, sb, "test -s "+path); code != 0 {
			t.Errorf("%s names %s, which is not there: %s", name, path, got)
		}
	}
	if f.read(t, "ca.crt") != ours {
		t.Error("the certificate has changed on the host")
	}
	f.renewed(t, sb)
}

// renewed holds that the sandbox, which stays open, sees a bundle that was
// written since.
func (f *TrustFolder) renewed(t *testing.T, sb sandbox.Sandbox) {
	t.Helper()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	one, _ := pem.Decode([]byte(f.read(t, "ca-bundle.crt")))
	if one == nil {
		t.Fatal("the bundle holds no certificate")
	}
	if err := os.WriteFile(roots, pem.EncodeToMemory(one), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", roots)
	if _, err := f.authority.Bundle(); err != nil {
		t.Fatal(err)
	}
	if got, _ := sh(t, sb, "grep -c BEGIN "+sandbox.TrustDir+"/ca-bundle.crt"); got != "2" {
		t.Errorf("the sandbox sees %s certificates, not the one root and ours", got)
	}
}

func (f *TrustFolder) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func sh(t *testing.T, sb sandbox.Sandbox, line string) (string, int) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	var out bytes.Buffer
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String()), exit.Code
}
