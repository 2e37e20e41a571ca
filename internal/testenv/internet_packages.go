package testenv

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// The one package, in each of the worlds that know packages. Each says
// PackageSays when it is used.
const (
	packageName   = "greeting"
	PackageModule = Modules + "/greeting" // its path in Go
	PackageSays   = "greetings from the package"
	wheelName     = packageName + "-1.0-py3-none-any.whl"
	tarballName   = packageName + "-1.0.0.tgz"
	moduleVersion = "v1.0.0"
)

// A file is one entry of an archive.
type file struct{ name, text string }

func zipped(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		w, err := z.Create(f.name)
		must(t, err)
		_, err = io.WriteString(w, f.text)
		must(t, err)
	}
	must(t, z.Close())
	return b.Bytes()
}

func tarred(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	a := tar.NewWriter(z)
	for _, f := range files {
		must(t, a.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))}))
		_, err := io.WriteString(a, f.text)
		must(t, err)
	}
	must(t, a.Close())
	must(t, z.Close())
	return b.Bytes()
}

// newIndex returns a simple repository of Python packages (PEP 503).
func newIndex(t testing.TB) http.Handler {
	t.Helper()
	const info = packageName + "-1.0.dist-info/"
	wheel := zipped(t,
		file{packageName + "/__init__.py", "def say():\n    return " + fmt.Sprintf("%q", PackageSays) + "\n"},
		file{info + "METADATA", "Metadata-Version: 2.1\nName: " + packageName + "\nVersion: 1.0\n"},
		file{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		file{info + "RECORD", packageName + "/__init__.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	)
	sum := sha256.Sum256(wheel)
	m := http.NewServeMux()
	m.HandleFunc("GET /simple/"+packageName+"/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!DOCTYPE html><html><body><a href=\"/files/%s#sha256=%x\">%s</a></body></html>\n", wheelName, sum, wheelName)
	})
	m.HandleFunc("GET /files/"+wheelName, func(w http.ResponseWriter, _ *http.Request) { w.Write(wheel) })
	return m
}

// newRegistry returns an npm registry.
func newRegistry(t testing.TB) http.Handler {
	t.Helper()
	tarball := tarred(t,
		file{"package/package.json", `{"name":"` + packageName + `","version":"1.0.0","main":"index.js"}`},
		file{"package/index.js", fmt.Sprintf("exports.say = () => %q;\n", PackageSays)},
	)
	old, sum := sha1.Sum(tarball), sha512.Sum512(tarball)
	m := http.NewServeMux()
	m.HandleFunc("GET /"+packageName, func(w http.ResponseWriter, r *http.Request) {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{
			"name": packageName, "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{
				"name": packageName, "version": "1.0.0", "main": "index.js",
				"dist": map[string]string{
					"tarball": scheme + "://" + r.Host + "/" + packageName + "/-/" + tarballName,
					"shasum":  hex.EncodeToString(old[:]), "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
				},
			}},
		})
	})
	m.HandleFunc("GET /"+packageName+"/-/"+tarballName, func(w http.ResponseWriter, _ *http.Request) { w.Write(tarball) })
	return m
}

// newModules returns a proxy of Go modules.
func newModules(t testing.TB) http.Handler {
	t.Helper()
	const (
		prefix = PackageModule + "@" + moduleVersion + "/"
		mod    = "module " + PackageModule + "\n\ngo 1.21\n"
		info   = `{"Version":"` + moduleVersion + `","Time":"2026-01-01T00:00:00Z"}`
		path   = "GET /" + PackageModule + "/@v/"
	)
	archive := zipped(t,
		file{prefix + "go.mod", mod},
		file{prefix + "greeting.go", fmt.Sprintf("package greeting\n\nfunc Say() string { return %q }\n", PackageSays)},
	)
	m := http.NewServeMux()
	text := func(pattern, text string) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
	}
	text(path+"list", moduleVersion+"\n")
	text(path+moduleVersion+".info", info)
	text(path+moduleVersion+".mod", mod)
	text("GET /"+PackageModule+"/@latest", info)
	text(path+moduleVersion+".zip", string(archive))
	return m
}
