package images

import (
	"bufio"
	"io"
	"regexp"
	"strings"
)

// distro is what /etc/os-release says, as far as a bootstrap needs it.
type distro struct {
	id    string // "debian", "ubuntu", …
	suite string // "bookworm"
}

// word is what a distribution ID or a suite may look like. They become
// arguments of programs and parts of tags.
func word(s string) bool {
	return len(s) <= 40 && regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`).MatchString(s)
}

// parseOSRelease reads the format of os-release(5). Hosts of another family
// than Debian, and anything that cannot be made sense of, come out as Debian
// bookworm, which is what [DefaultImage] promises.
func parseOSRelease(r io.Reader) distro {
	fallback := distro{id: "debian", suite: "bookworm"}
	fields := map[string]string{}
	sc := bufio.NewScanner(io.LimitReader(r, 64<<10))
	for sc.Scan() {
		k, v, ok := strings.Cut(strings.TrimSpace(sc.Text()), "=")
		if ok {
			fields[k] = strings.Trim(v, `"'`)
		}
	}
	id, suite := fields["ID"], fields["VERSION_CODENAME"]
	like := " " + fields["ID_LIKE"] + " "
	switch {
	case id == "debian", id == "ubuntu":
	case strings.Contains(like, " ubuntu ") && fields["UBUNTU_CODENAME"] != "":
		id, suite = "ubuntu", fields["UBUNTU_CODENAME"]
	case strings.Contains(like, " debian ") && fields["DEBIAN_CODENAME"] != "":
		id, suite = "debian", fields["DEBIAN_CODENAME"]
	default:
		return fallback
	}
	if !word(id) || !word(suite) {
		return fallback
	}
	return distro{id: id, suite: suite}
}
