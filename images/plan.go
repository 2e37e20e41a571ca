package images

import (
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// plan is a bootstrap that has been decided on.
type plan struct {
	recipe   recipe // that the base is for
	tool     string // path of mmdebstrap or debootstrap
	distro   distro
	packages []string
	sources  []aptSource // to install from; the host's own where they serve
	neutral  string      // what the image will have as its sources file
	env      []string    // proxies for the tool
}

func (p plan) toolName() string { return path.Base(p.tool) }

// ref is the tag of the result.
func (p plan) ref() string { return p.recipe.bootstrapRef(p.distro.suite) }

// plan looks at the host and decides how to bootstrap a base for r. It
// changes nothing.
func (s *Store) plan(r recipe) (plan, error) {
	p := plan{recipe: r, distro: distro{id: "debian", suite: "bookworm"}, packages: packagesOf(r.dockerfile)}
	if f, err := s.host.Open("etc/os-release"); err == nil {
		p.distro = parseOSRelease(f)
		f.Close()
	}
	p.packages = packagesOf(r.on(p.distro.suite).dockerfile)
	official := officialSources(s.host, p.distro)
	p.neutral = renderDeb822(official)
	p.sources = serving(hostSources(s.host), p.distro.suite)
	if p.sources == nil {
		p.sources = official
		for i := range p.sources {
			// The host's apt may keep its keys elsewhere.
			if _, err := fs.Stat(s.host, strings.TrimPrefix(p.sources[i].signedBy, "/")); err != nil {
				p.sources[i].signedBy = ""
			}
		}
	}
	if p.sources == nil {
		return p, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "bootstrap image", Resource: p.ref(),
			Message: "the host names no package sources of " + p.distro.id + " " + p.distro.suite, Hint: "configure apt, or pull the image: sandbox images pull"}
	}
	for _, name := range proxyVariables() {
		if v := s.getenv(name); v != "" {
			p.env = append(p.env, name+"="+v)
		}
	}
	for _, tool := range []string{"mmdebstrap", "debootstrap"} {
		if at, err := s.look(tool); err == nil {
			p.tool = at
			return p, nil
		}
	}
	return p, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "bootstrap image", Resource: p.ref(),
		Message: "neither mmdebstrap nor debootstrap is installed", Hint: "`apt-get install mmdebstrap`"}
}

// hostSources collects the package sources of the host. Files that cannot be
// read count as empty: apt itself would not use them either.
func hostSources(host fs.FS) []aptSource {
	var out []aptSource
	read := func(name string, parse func(io.Reader) []aptSource) {
		f, err := host.Open(name)
		if err != nil {
			return
		}
		defer f.Close()
		out = append(out, parse(f)...)
	}
	read("etc/apt/sources.list", parseOneLine)
	const parts = "etc/apt/sources.list.d"
	entries, _ := fs.ReadDir(host, parts)
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
	for _, e := range entries {
		switch path.Ext(e.Name()) {
		case ".list":
			read(path.Join(parts, e.Name()), parseOneLine)
		case ".sources":
			read(path.Join(parts, e.Name()), parseDeb822)
		}
	}
	for i := range out {
		out[i].uris = expandMirrors(host, out[i].uris)
	}
	return out
}

// expandMirrors replaces "mirror+file:" lists, which cloud images of Debian
// use, by the addresses in them, so that the tools need not know the scheme.
func expandMirrors(host fs.FS, uris []string) []string {
	var out []string
	for _, u := range uris {
		file, ok := strings.CutPrefix(u, "mirror+file:")
		if !ok {
			out = append(out, u)
			continue
		}
		data, err := fs.ReadFile(host, strings.TrimLeft(file, "/"))
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(data), "\n") {
			if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
				out = append(out, f[0])
			}
		}
	}
	return out
}
