package images

import (
	"bufio"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// maxAptFile bounds what is read of one file with package sources.
const maxAptFile = 1 << 20

// aptSource is one place that packages come from, see sources.list(5).
type aptSource struct {
	uris       []string
	suites     []string
	components []string
	signedBy   string // path or key block, as written; may have several lines
	trusted    bool
}

// parseOneLine reads the one-line format. What it does not understand it
// leaves out: a missing source is noticed, a misread one might not be.
func parseOneLine(r io.Reader) []aptSource {
	var out []aptSource
	sc := bufio.NewScanner(io.LimitReader(r, maxAptFile))
	sc.Buffer(nil, maxAptFile)
	for sc.Scan() {
		line, _, _ := strings.Cut(sc.Text(), "#")
		line = strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(line, "deb ")
		if !ok {
			continue
		}
		var src aptSource
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			options, after, closed := strings.Cut(rest[1:], "]")
			if !closed {
				continue
			}
			rest = after
			for _, o := range strings.Fields(options) {
				k, v, _ := strings.Cut(o, "=")
				switch strings.ToLower(k) {
				case "signed-by":
					src.signedBy = strings.ReplaceAll(v, ",", " ")
				case "trusted":
					src.trusted = yes(v)
				}
			}
		}
		f := strings.Fields(rest)
		if len(f) < 3 {
			continue // flat repositories have no components and no Debian in them
		}
		src.uris, src.suites, src.components = f[:1], f[1:2], f[2:]
		out = append(out, src)
	}
	return out
}

// parseDeb822 reads the format of .sources files.
func parseDeb822(r io.Reader) []aptSource {
	var out []aptSource
	fields, last := map[string]string{}, ""
	flush := func() {
		if src, ok := fromFields(fields); ok {
			out = append(out, src)
		}
		fields, last = map[string]string{}, ""
	}
	sc := bufio.NewScanner(io.LimitReader(r, maxAptFile))
	sc.Buffer(nil, maxAptFile)
	for sc.Scan() {
		line := strings.TrimRight(sc.Text(), " \t\r")
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			flush()
		case line[0] == ' ' || line[0] == '\t':
			if last != "" {
				fields[last] += "\n" + line
			}
		default:
			k, v, ok := strings.Cut(line, ":")
			if !ok {
				last = ""
				continue
			}
			last = strings.ToLower(strings.TrimSpace(k))
			fields[last] = strings.TrimSpace(v)
		}
	}
	flush()
	return out
}

func fromFields(f map[string]string) (aptSource, bool) {
	src := aptSource{
		uris: strings.Fields(f["uris"]), suites: strings.Fields(f["suites"]),
		components: strings.Fields(f["components"]), signedBy: f["signed-by"], trusted: yes(f["trusted"]),
	}
	binary := false
	for _, t := range strings.Fields(f["types"]) {
		binary = binary || t == "deb"
	}
	enabled := f["enabled"] == "" || yes(f["enabled"])
	return src, binary && enabled && len(src.uris) > 0 && len(src.suites) > 0 && len(src.components) > 0
}

func yes(v string) bool {
	switch strings.ToLower(v) {
	case "yes", "true", "1", "on", "with", "enable":
		return true
	}
	return false
}

// serving returns what of sources serves suite: the suite itself, its updates
// and its security fixes. Other suites (backports, another release, third
// parties) are left out, since they would change what the image is. It
// returns nil when the suite itself is not among them.
func serving(sources []aptSource, suite string) []aptSource {
	wanted := map[string]bool{suite: true, suite + "-updates": true, suite + "-security": true, suite + "/updates": true}
	var out []aptSource
	found := false
	for _, src := range sources {
		var suites []string
		for _, name := range src.suites {
			if wanted[name] {
				suites = append(suites, name)
				found = found || name == suite && slices.Contains(src.components, "main")
			}
		}
		var uris []string
		for _, u := range src.uris {
			if !strings.HasPrefix(u, "cdrom:") {
				uris = append(uris, u)
			}
		}
		if len(suites) == 0 || len(uris) == 0 || !slices.Contains(src.components, "main") && !slices.Contains(src.components, "universe") {
			continue
		}
		src.suites, src.uris = suites, uris
		out = append(out, src)
	}
	if !found {
		return nil
	}
	return out
}

// exampleSources is where package apt documents the distribution's own
// sources. They name no one's mirror, and so may stay in an image.
const exampleSources = "usr/share/doc/apt/examples/sources.list"

// officialSources are the distribution's own sources as the host's package
// apt documents them, reduced to what serves the suite. There are none when
// the file is missing, as it is on hosts without documentation.
func officialSources(host fs.FS, d distro) []aptSource {
	f, err := host.Open(exampleSources)
	if err != nil {
		return nil
	}
	defer f.Close()
	sources := serving(parseOneLine(f), d.suite)
	for i := range sources {
		sources[i].components = slices.DeleteFunc(sources[i].components, func(c string) bool { return c != "main" && c != "universe" })
		sources[i].signedBy, sources[i].trusted = "/usr/share/keyrings/"+d.id+"-archive-keyring.gpg", false
	}
	return sources
}

// renderDeb822 writes sources in the format of .sources files.
func renderDeb822(sources []aptSource) string {
	var b strings.Builder
	for i, src := range sources {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString("Types: deb\n")
		b.WriteString("URIs: " + strings.Join(src.uris, " ") + "\n")
		b.WriteString("Suites: " + strings.Join(src.suites, " ") + "\n")
		b.WriteString("Components: " + strings.Join(src.components, " ") + "\n")
		if src.signedBy != "" {
			b.WriteString("Signed-By: " + src.signedBy + "\n")
		}
		if src.trusted {
			b.WriteString("Trusted: yes\n")
		}
	}
	return b.String()
}
