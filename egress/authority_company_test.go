package egress

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

// certs returns a text of n certificates, with other text around them.
func certs(t *testing.T, n int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.pem")
	writeRoots(t, file, n)
	data, err := os.ReadFile(file)
	authorityMust(t, err)
	return "# notes\n" + string(data)
}

// TestBundleWith checks the folder for sandboxes that trust a company's
// authority: the roots of their image, or of this machine, with the company's
// certificates and the authority's own in each file.
func TestBundleWith(t *testing.T) {
	company := strings.TrimPrefix(certs(t, 2), "# notes\n")
	tests := []struct {
		name  string
		image string
		roots string // of the image
		want  int    // certificates in the bundle: roots, the company's 2 and the authority's
	}{
		{"an image with roots", "sha256:1", certs(t, 4), 4 + 2 + 1},
		{"an image without", "sha256:2", "", 2 + 2 + 1},
		{"an image whose file holds none", "sha256:3", "hello", 2 + 2 + 1},
		{"this machine", "", "", 2 + 2 + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := authorityNewRig(t)
			a := r.open(t)
			reads := 0
			base := Base{Image: tt.image, Read: func() ([]byte, error) { reads++; return []byte(tt.roots), nil }}
			dir, err := a.BundleWith(base, []byte(company))
			authorityMust(t, err)
			if dir != CompanyDir(r.dir, tt.image, []byte(company)) {
				t.Errorf("the folder is %s", dir)
			}
			for file, want := range map[string]int{bundleFile: tt.want, certFile: 3} {
				data, err := os.ReadFile(filepath.Join(dir, file))
				authorityMust(t, err)
				all := certificates(t, string(data))
				if len(all) != want || !all[want-1].Equal(a.Certificate()) || !strings.Contains(string(data), company) || strings.Contains(string(data), "notes") {
					t.Errorf("%s holds %d certificates, want %d, the company's and ours among them", file, len(all), want)
				}
			}
			store, err := os.ReadFile(filepath.Join(dir, javaFile))
			authorityMust(t, err)
			if in, err := pkcs12.DecodeTrustStore(store, ""); err != nil || len(in) != tt.want {
				t.Errorf("the store of Java holds %d, %v", len(in), err)
			}
			// Another process finds the folder, and does not ask the engine
			// again.
			before, err := os.Stat(filepath.Join(dir, javaFile))
			authorityMust(t, err)
			_, err = r.open(t).BundleWith(base, []byte(company))
			authorityMust(t, err)
			after, err := os.Stat(filepath.Join(dir, javaFile))
			authorityMust(t, err)
			if !os.SameFile(before, after) || tt.image != "" && reads != 1 {
				t.Errorf("it is made again, after %d reads of the image", reads)
			}
			// A changed file is restored, and a renewed certificate is
			// included.
			authorityMust(t, os.WriteFile(filepath.Join(dir, bundleFile), nil, 0o644))
			r.clock.at = r.clock.at.Add(caLife - caLeft/2)
			_, err = a.BundleWith(base, []byte(company))
			authorityMust(t, err)
			data, err := os.ReadFile(filepath.Join(dir, bundleFile))
			authorityMust(t, err)
			if all := certificates(t, string(data)); len(all) != tt.want || !all[tt.want-1].Equal(a.Certificate()) {
				t.Errorf("later the bundle holds %d certificates", len(all))
			}
		})
	}
}

// TestBundleWithForgets checks that folders unused for long are removed, and
// that an image whose roots cannot be read is not treated as one without
// roots.
func TestBundleWithForgets(t *testing.T) {
	r := authorityNewRig(t)
	a := r.open(t)
	one, two := []byte(certs(t, 1)), []byte(certs(t, 1))
	old, err := a.BundleWith(Base{}, one)
	authorityMust(t, err)
	if _, err := a.BundleWith(Base{Image: "sha256:1", Read: func() ([]byte, error) { return nil, errors.New("no engine") }}, one); err == nil {
		t.Error("an image was taken for one without roots")
	}
	then := r.clock.at.Add(-companyLife - time.Hour)
	authorityMust(t, os.Chtimes(old, then, then))
	dir, err := a.BundleWith(Base{}, two)
	authorityMust(t, err)
	if _, err := os.Stat(old); err == nil || dir == old {
		t.Error("the folder that nothing uses is there")
	}
}

// TestCompanyEnv checks that variables of an image stay, unless they name the
// roots of the image, which the bundle contains too.
func TestCompanyEnv(t *testing.T) {
	env := CompanyEnv(map[string]string{"SSL_CERT_FILE": "/etc/ssl/certs/ca-bundle.crt", "PIP_CERT": "/opt/pinned.pem", "NPM_CONFIG_CAFILE": "/opt/x", "PATH": "/bin"})
	if env["SSL_CERT_FILE"] == "" || env["CURL_CA_BUNDLE"] == "" || env["NODE_EXTRA_CA_CERTS"] == "" {
		t.Errorf("it lacks variables: %v", env)
	}
	for _, name := range []string{"PIP_CERT", "npm_config_cafile", "PATH"} {
		if v, ok := env[name]; ok {
			t.Errorf("%s=%s takes the place of the image's", name, v)
		}
	}
	if got := Roots(map[string]string{"SSL_CERT_FILE": "/etc/ssl/cert.pem"})[0]; got != "/etc/ssl/cert.pem" {
		t.Errorf("%s is read first", got)
	}
}
