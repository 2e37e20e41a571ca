package images

import (
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// A language is what the image for one programming language has beyond the
// default image.
type language struct {
	packages string // of Debian
	env      string // an ENV instruction, or ""
}

// languageOf returns what the image for the language of that name adds. Debian 12
// has a cargo that does not speak the sparse protocol of registries, and beside it
// a newer one, which it builds browsers with: see [recipe.on].
func languageOf(name string) language {
	switch name {
	case "go":
		return language{packages: "golang-go gcc libc6-dev pkg-config"}
	case "java":
		return language{packages: "default-jdk-headless maven"}
	case "node":
		return language{packages: "nodejs npm"}
	case "python":
		// pip installs into the home of the sandbox's user, which is the only
		// place that it can write.
		return language{
			packages: "python3-dev python-is-python3 gcc libc6-dev",
			env:      "ENV PIP_BREAK_SYSTEM_PACKAGES=1 PATH=/home/sandbox/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
		}
	case "rust":
		return language{packages: "cargo-web rustc-web gcc libc6-dev pkg-config"}
	}
	return language{}
}

// languageRecipes are those of the images for one programming language each: the
// recipe of the default image, on which they are built, with more packages.
func languageRecipes() []recipe {
	var out []recipe
	for _, name := range sandbox.Languages() {
		l := languageOf(name)
		base := strings.Join(packagesOf(sandbox.DockerfileSandbox), " ")
		text := strings.Replace(sandbox.DockerfileSandbox, `ARG PACKAGES="`+base+`"`, "USER root\nARG PACKAGES=\""+base+" "+l.packages+`"`, 1)
		out = append(out, recipe{
			ref: sandbox.LanguageImage(name), dockerfile: text + l.env,
			origin: OriginLanguage, bootRepo: "sandbox-" + name + "-base",
		})
	}
	return out
}

// on returns r for a base of that suite: the names of some packages differ from
// those that Debian 12 has. What r is labelled with stays the same.
func (r recipe) on(suite string) recipe {
	if suite != "bookworm" && suite != "" {
		r.dockerfile = strings.NewReplacer("cargo-web", "cargo", "rustc-web", "rustc").Replace(r.dockerfile)
	}
	return r
}
