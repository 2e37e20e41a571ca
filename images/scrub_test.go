package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestScrub(t *testing.T) {
	files := []string{
		"./", "./bin/sh", "./etc/", "./etc/passwd", "./etc/resolv.conf", "./etc/hostname", "etc/hosts", "/etc/apt/sources.list",
		"./etc/apt/sources.list.d/", "./etc/apt/sources.list.d/0000main.sources", "./etc/apt/auth.conf.d/secret.conf", "./etc/apt/auth.conf",
		"./etc/apt/apt.conf.d/99mmdebstrap", "./etc/apt/apt.conf.d/01autoremove", "./etc/apt/trusted.gpg.d/debian.asc", "./etc/../etc/apt/apt.conf",
		"./dev/", "./dev/null", "./tmp/", "./tmp/left", "./var/lib/apt/lists/", "./var/lib/apt/lists/mirror_InRelease", "./var/lib/apt/lists/partial/",
		"./var/lib/dpkg/status", "./var/cache/apt/archives/x.deb", "./var/log/", "./var/log/dpkg.log",
		"./usr/local/share/ca-certificates/", "./usr/local/share/ca-certificates/host.crt", "./usr/share/man/man1/", "./usr/share/man/man1/ls.1.gz",
		"./usr/share/doc/bash/copyright", "./usr/share/doc/bash/changelog.gz",
	}
	var in, out bytes.Buffer
	w := tar.NewWriter(&in)
	for _, f := range files {
		h := &tar.Header{Name: f, Mode: 0o755, Size: int64(len(f)), Typeflag: tar.TypeReg, PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}
		if strings.HasSuffix(f, "/") {
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Close()
	if err := scrub(&out, &in, "Types: deb\n", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	var got []string
	r := tar.NewReader(&out)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name)
		if h.Name != "./"+sourcesFile && h.PAXRecords["SCHILY.xattr.user.a"] != "b" {
			t.Errorf("%s lost its attributes", h.Name)
		}
	}
	want := []string{"./", "./bin/sh", "./etc/", "./etc/passwd", "./etc/apt/sources.list.d/", "./etc/apt/apt.conf.d/01autoremove",
		"./etc/apt/trusted.gpg.d/debian.asc", "./dev/", "./tmp/", "./var/lib/apt/lists/", "./var/lib/dpkg/status", "./var/log/",
		"./usr/local/share/ca-certificates/", "./usr/share/man/man1/", "./usr/share/doc/bash/copyright", "./" + sourcesFile}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
