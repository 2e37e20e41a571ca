package egress

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMadeOnce(t *testing.T) {
	r := authorityNewRig(t)
	defer syscall.Umask(syscall.Umask(0)) // the modes do not depend on the umask
	a := r.open(t)
	for path, mode := range map[string]fs.FileMode{r.dir: fs.ModeDir | 0o700, r.path(keyFile): 0o600, r.path(lockFile): 0o600} {
		if fi, err := os.Stat(path); err != nil || fi.Mode() != mode {
			t.Errorf("%s has mode %v, %v; want %v", path, fi.Mode(), err, mode)
		}
	}
	before := r.read(t, keyFile)
	if b := r.open(t); !b.Certificate().Equal(a.Certificate()) || r.read(t, keyFile) != before {
		t.Error("a second opening made another authority")
	}
	c := a.Certificate()
	life := c.NotAfter.Sub(r.clock.at)
	if !c.IsCA || c.MaxPathLen != 0 || !c.MaxPathLenZero || c.KeyUsage != x509.KeyUsageCertSign || life < caLife-time.Minute || life > caLife {
		t.Errorf("the certificate is %+v", c)
	}
	if !strings.HasPrefix(c.Subject.CommonName, commonName) {
		t.Errorf("nobody recognises %s", c.Subject)
	}
}

// TestMadeOnceByMany checks that processes that start at once agree.
func TestMadeOnceByMany(t *testing.T) {
	if dir := os.Getenv("AUTHORITY_TEST_DIR"); dir != "" {
		a, err := Open(dir)
		authorityMust(t, err)
		_, err = a.Bundle()
		authorityMust(t, err)
		fmt.Printf("serial %v\n", a.Certificate().SerialNumber)
		return
	}
	r := authorityNewRig(t)
	const n = 12
	var wg sync.WaitGroup
	serials := make([]string, n)
	for i := range n {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestMadeOnceByMany$")
			cmd.Env = append(os.Environ(), "AUTHORITY_TEST_DIR="+r.dir, "SSL_CERT_FILE="+r.world.roots[1])
			out, err := cmd.CombinedOutput()
			_, rest, ok := bytes.Cut(out, []byte("serial "))
			if err != nil || !ok {
				t.Errorf("%v: %s", err, out)
				return
			}
			serials[i] = strings.Fields(string(rest))[0]
		})
	}
	wg.Wait()
	want := certificates(t, r.read(t, trustDir, certFile))[0].SerialNumber.String()
	for _, s := range serials {
		if s != want {
			t.Errorf("somebody has authority %s, the folder shows %s", s, want)
		}
	}
	if names, _ := os.ReadDir(r.dir); len(names) != 3 {
		t.Errorf("the folder holds %v", names)
	}
}

func TestRefusedFiles(t *testing.T) {
	other := func(r *authorityRig, typ string) []byte { // a block of another authority
		p, _ := made(r.clock.at)
		der := p.cert.Raw
		if typ == typeKey {
			der, _ = x509.MarshalPKCS8PrivateKey(p.key)
		}
		return pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der})
	}
	blocks := func(t *testing.T, r *authorityRig) (cert, key []byte) {
		b, rest := pem.Decode([]byte(r.read(t, keyFile)))
		k, _ := pem.Decode(rest)
		return pem.EncodeToMemory(b), pem.EncodeToMemory(k)
	}
	write := func(content func(t *testing.T, r *authorityRig) []byte) func(*testing.T, *authorityRig) {
		return func(t *testing.T, r *authorityRig) {
			authorityMust(t, os.WriteFile(r.path(keyFile), content(t, r), 0o600))
		}
	}
	damaged, denied := sandbox.CodeUnavailable, sandbox.CodePermissionDeny
	tests := []struct {
		name string
		code sandbox.Code
		text string
		do   func(*testing.T, *authorityRig)
	}{
		{"empty", damaged, "no certificate", write(func(*testing.T, *authorityRig) []byte { return nil })},
		{"zeroes", damaged, "not PEM", write(func(*testing.T, *authorityRig) []byte { return make([]byte, 500) })},
		{"cut", damaged, "not PEM", write(func(t *testing.T, r *authorityRig) []byte { d := r.read(t, keyFile); return []byte(d[:len(d)-40]) })},
		{"too long", damaged, "too long", write(func(*testing.T, *authorityRig) []byte { return bytes.Repeat([]byte("a"), maxKeyFile+1) })},
		{"no key", damaged, "no key", write(func(t *testing.T, r *authorityRig) []byte { c, _ := blocks(t, r); return c })},
		{"no certificate", damaged, "no certificate", write(func(t *testing.T, r *authorityRig) []byte { _, k := blocks(t, r); return k })},
		{"another's key", damaged, "not the certificate's", write(func(t *testing.T, r *authorityRig) []byte {
			c, _ := blocks(t, r)
			return append(c, other(r, typeKey)...)
		})},
		{"two certificates", damaged, "more than", write(func(t *testing.T, r *authorityRig) []byte {
			return append([]byte(r.read(t, keyFile)), other(r, typeCertificate)...)
		})},
		{"a leaf in its place", damaged, "not one of this program's", write(leafWithKey)},
		{"readable by the group", denied, "open to other users", func(t *testing.T, r *authorityRig) { authorityMust(t, os.Chmod(r.path(keyFile), 0o640)) }},
		{"readable by all", denied, "open to other users", func(t *testing.T, r *authorityRig) { authorityMust(t, os.Chmod(r.path(keyFile), 0o604)) }},
		{"a folder", denied, "not a regular file", func(t *testing.T, r *authorityRig) {
			authorityMust(t, os.Remove(r.path(keyFile)))
			authorityMust(t, os.Mkdir(r.path(keyFile), 0o700))
		}},
		{"a pipe", denied, "not a regular file", func(t *testing.T, r *authorityRig) {
			authorityMust(t, os.Remove(r.path(keyFile)))
			authorityMust(t, syscall.Mkfifo(r.path(keyFile), 0o600))
		}},
		{"a link", damaged, "cannot use", func(t *testing.T, r *authorityRig) {
			authorityMust(t, os.Rename(r.path(keyFile), r.path("elsewhere")))
			authorityMust(t, os.Symlink("elsewhere", r.path(keyFile)))
		}},
		{"lost", damaged, "missing while sandboxes may trust", func(t *testing.T, r *authorityRig) { authorityMust(t, os.Remove(r.path(keyFile))) }},
		{"another's", denied, "belongs to uid 4711", func(t *testing.T, r *authorityRig) {
			testenv.Require(t, "root") // only root can change the owner of a file
			authorityMust(t, os.Chown(r.path(keyFile), 4711, 4711))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := authorityNewRig(t)
			_, err := r.open(t).Bundle()
			authorityMust(t, err)
			shown := r.read(t, trustDir, certFile)
			tt.do(t, r)
			_, err = open(r.dir, r.world)
			authorityRefused(t, err, tt.code, r.path(keyFile), tt.text)
			if err != nil && strings.Contains(err.Error(), "PRIVATE") {
				t.Error("the error holds the key: ", err)
			}
			if r.read(t, trustDir, certFile) != shown {
				t.Error("sandboxes are shown another authority")
			}
		})
	}
}

// leafWithKey returns a certificate issued by the authority, which is not an
// authority itself.
func leafWithKey(t *testing.T, r *authorityRig) []byte {
	leaf, err := r.open(t).Leaf("a.example")
	authorityMust(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	authorityMust(t, err)
	data := pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: leaf.Certificate[0]})
	return append(data, pem.EncodeToMemory(&pem.Block{Type: typeKey, Bytes: key})...)
}

// TestAnotherWhenAsked follows the hint of a lost key.
func TestAnotherWhenAsked(t *testing.T) {
	r := authorityNewRig(t)
	a := r.open(t)
	_, err := a.Bundle()
	authorityMust(t, err)
	authorityMust(t, errors.Join(os.Remove(r.path(keyFile)), os.Remove(r.path(trustDir, certFile))))
	if b := r.open(t); b.Certificate().Equal(a.Certificate()) {
		t.Error("it is the one that was lost")
	}
}

func TestRefusedFolders(t *testing.T) {
	r := authorityNewRig(t)
	authorityMust(t, os.Mkdir(r.dir, 0o700))
	authorityMust(t, os.Chmod(r.dir, 0o770))
	_, err := open(r.dir, r.world)
	authorityRefused(t, err, sandbox.CodePermissionDeny, r.dir, "can be written by other users")
}

// TestRenewed checks that an authority is renewed in time, with the same key,
// so that clients that trust the old certificate accept leaves of the new one,
// and the other way around.
func TestRenewed(t *testing.T) {
	tests := []struct {
		name string
		pass time.Duration
		want bool
	}{
		{"young", time.Hour, false},
		{"just enough left", caLife - caLeft - time.Hour, false},
		{"too little left", caLife - caLeft + time.Hour, true},
		{"expired", caLife + 24*time.Hour, true},
		{"the clock went back", -48 * time.Hour, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := authorityNewRig(t)
			old := r.open(t)
			before := old.Certificate()
			early, err := old.Leaf("api.example.com")
			authorityMust(t, err)
			r.clock.at = r.clock.at.Add(tt.pass)
			now := r.open(t).Certificate()
			if got := !now.Equal(before); got != tt.want {
				t.Fatalf("renewed: %t", got)
			}
			late, err := old.Leaf("late.example.com") // the process that was running all the time
			authorityMust(t, err)
			if !old.Certificate().Equal(now) {
				t.Error("an open authority did not take up the new certificate")
			}
			for root, at := range map[*x509.Certificate]time.Time{before: before.NotBefore.Add(time.Hour), now: r.clock.at} {
				for _, leaf := range []*x509.Certificate{early.Leaf, late.Leaf} {
					if at.Before(leaf.NotBefore) || at.After(leaf.NotAfter) {
						at = leaf.NotBefore.Add(leafLife / 2)
					}
					if at.After(root.NotAfter) || at.Before(root.NotBefore) {
						continue
					}
					if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool(root), CurrentTime: at}); err != nil {
						t.Errorf("a leaf of %v under the root of %v: %v", leaf.NotBefore, root.NotBefore, err)
					}
				}
			}
		})
	}
}

// TestRenewalThatFails checks that a process continues with a certificate that
// is still valid.
func TestRenewalThatFails(t *testing.T) {
	r := authorityNewRig(t)
	a := r.open(t)
	r.clock.at = r.clock.at.Add(caLife - caLeft + time.Hour)
	authorityMust(t, os.WriteFile(r.path(keyFile), nil, 0o600))
	if _, err := a.Leaf("a.example"); err != nil {
		t.Error("while the certificate holds: ", err)
	}
	r.clock.at = r.clock.at.Add(caLeft - leafLife)
	_, err := a.Leaf("b.example")
	authorityRefused(t, err, sandbox.CodeUnavailable, r.path(keyFile), "damaged")
}
