package fake_test

import (
	"bytes"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// TestCertificatesAreShown checks that the fake shows the folder of our own
// certificates as other providers do: commands can read it, none can write it,
// and file operations do not see it.
func TestCertificatesAreShown(t *testing.T) {
	p := fake.New(fake.Options{Deadline: testenv.Patience})
	s := faked.Spec("trust")
	s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/host/egress/trust", Target: sandbox.TrustDir, ReadOnly: true, Role: sandbox.RoleTrust})
	host := p.Engine().Folder("/host/egress/trust", 0)
	if err := host.Write("ca.crt", 0o644, "certificate\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	sb, err := p.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	sh := func(line string) (string, int) {
		var out bytes.Buffer
		c, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		exit, err := c.Wait()
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), exit.Code
	}
	if got, code := sh("cat " + sandbox.TrustDir + "/ca.crt"); got != "certificate\n" || code != 0 {
		t.Errorf("the certificate reads as %q, code %d", got, code)
	}
	if _, code := sh("echo x >" + sandbox.TrustDir + "/ca.crt"); code == 0 {
		t.Error("the certificate could be written")
	}
	files, err := fsbridge.Open(t.Context(), sb, s.Mounts, s.Tmpfs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.Stat(t.Context(), sandbox.TrustDir+"/ca.crt"); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("file operations say %v", err)
	}
}
