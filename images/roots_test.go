package images

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
)

// TestFile holds which file of an image is read, for the layouts that systems
// keep their root certificates in, and that no container stays.
func TestFile(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string // content, or a link after "-> "
		paths []string
		want  string
	}{
		{"Debian", map[string]string{"etc/ssl/certs/ca-certificates.crt": "debian"}, nil, "debian"},
		{"RHEL, by a link", map[string]string{
			"etc/pki/tls/certs/ca-bundle.crt": "-> /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem": "rhel",
		}, nil, "rhel"},
		{"Alpine, by a link", map[string]string{"etc/ssl/cert.pem": "-> certs/all.pem", "etc/ssl/certs/all.pem": "alpine"}, nil, "alpine"},
		{"a folder that is a link", map[string]string{"etc/ssl": "-> ../usr/lib/ssl", "usr/lib/ssl/cert.pem": "-> all.pem", "usr/lib/ssl/all.pem": "moved"}, nil, "moved"},
		{"a link out of the image", map[string]string{"etc/ssl/cert.pem": "-> ../../../../etc/hosts.of.the.image", "etc/hosts.of.the.image": "inside"}, nil, "inside"},
		{"a loop, and then a file", map[string]string{"etc/ssl/cert.pem": "-> cert.pem", "etc/x.pem": "x"}, []string{"/etc/ssl/cert.pem", "/etc/x.pem"}, "x"},
		{"an empty file, and then one", map[string]string{"etc/ssl/cert.pem": "", "etc/x.pem": "x"}, []string{"/etc/ssl/cert.pem", "/etc/x.pem"}, "x"},
		{"nothing", map[string]string{"etc/hostname": "x"}, nil, ""},
	}
	c := engine(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := "sandbox-test-roots:" + randomID()
			stream, err := c.ImageImport(t.Context(), image.ImportSource{Source: tarOf(t, tt.files), SourceName: "-"}, ref, image.ImportOptions{Changes: []string{"ENV A=b=c", "VOLUME /data", "LABEL " + testLabel + "=images"}})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, stream)
			stream.Close()
			s := New(c, Config{})
			img, err := s.Inspect(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = c.ImageRemove(context.Background(), img.ID, image.RemoveOptions{Force: true}) })
			paths := tt.paths
			if paths == nil {
				paths = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}
			}
			got, err := s.File(t.Context(), img.ID, paths)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if env, err := s.Environment(t.Context(), img.ID); err != nil || env["A"] != "b=c" {
				t.Errorf("the image sets %v, %v", env, err)
			}
			left, err := c.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("ancestor", img.ID))})
			if err != nil || len(left) > 0 {
				t.Errorf("%d containers are left, %v", len(left), err)
			}
		})
	}
}

// tarOf makes an archive of files and links.
func tarOf(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	names := []string{}
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text := files[name]
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if target, ok := bytes.CutPrefix([]byte(text), []byte("-> ")); ok {
			h.Typeflag, h.Size, h.Linkname, text = tar.TypeSymlink, 0, string(target), ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}
