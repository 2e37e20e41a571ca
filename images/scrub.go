package images

import (
	"archive/tar"
	"io"
	"path"
	"strings"
	"time"
)

// sourcesFile is where the image keeps its package sources.
const sourcesFile = "etc/apt/sources.list.d/official.sources"

// scrub copies the root folder in the tar stream r to w and leaves out what
// belongs to the host or to the making: the host's package sources, proxies,
// credentials and added certificates, name and resolver, device nodes, package
// lists, caches and logs. Manual pages and translations go too, as in
// Debian's own slim images. sources becomes the only package source; empty
// means none.
func scrub(w io.Writer, r io.Reader, sources string, now time.Time) error {
	in, out := tar.NewReader(r), tar.NewWriter(w)
	for {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if dropped(h) {
			continue
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
	// The producer of the stream may fail after the end of the archive; then
	// nothing of the stream must be used.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	if sources != "" {
		h := &tar.Header{Name: "./" + sourcesFile, Mode: 0o644, Size: int64(len(sources)), ModTime: now}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(out, sources); err != nil {
			return err
		}
	}
	return out.Close()
}

// dropped reports whether an entry stays out of the image. Folders stay,
// because packages expect them, except below the places that must be empty.
func dropped(h *tar.Header) bool {
	name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	switch name {
	case "etc/apt/sources.list", "etc/apt/auth.conf", "etc/apt/apt.conf", "etc/apt/trusted.gpg",
		"etc/resolv.conf", "etc/hostname", "etc/hosts",
		"etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
		"etc/apt/apt.conf.d/00mmdebstrap", "etc/dpkg/dpkg.cfg.d/00mmdebstrap":
		return true
	}
	for _, dir := range []string{"dev/", "proc/", "sys/", "run/", "tmp/", "var/tmp/", "debootstrap/", "var/lib/apt/lists/", "var/cache/apt/"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	if h.Typeflag == tar.TypeDir {
		return false
	}
	for _, dir := range []string{"etc/apt/sources.list.d/", "etc/apt/auth.conf.d/", "usr/local/share/ca-certificates/",
		"var/log/", "var/cache/", "usr/share/man/", "usr/share/locale/", "usr/share/info/"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	// Licences must travel with the programs.
	return strings.HasPrefix(name, "usr/share/doc/") && path.Base(name) != "copyright"
}
