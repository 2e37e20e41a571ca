package sandbox

import _ "embed" // the recipes below

// DockerfileSandbox is the recipe of the default image. It travels with the
// program, so that a machine needs no checkout to build the image, and its
// digest tells whether an image was made from this recipe or an older one.
// It is never assigned to.
//
//go:embed Dockerfile.sandbox
var DockerfileSandbox string

// DockerfileBrowser is the recipe of the browser image. It is never
// assigned to.
//
//go:embed Dockerfile.browser
var DockerfileBrowser string

// EntrypointBrowser is the supervisor of browsers, which that recipe puts
// into the image. It is never assigned to.
//
//go:embed browser/entrypoint.sh
var EntrypointBrowser string

// SettingsBrowser is the part of it that reads settings. It is never assigned
// to.
//
//go:embed browser/settings.sh
var SettingsBrowser string

// PoliciesBrowser are the rules of Chromium that hold whatever settings say.
// It is never assigned to.
//
//go:embed browser/policies.json
var PoliciesBrowser string

// DockerfileCode is the recipe of the image of the code interpreter. It is
// never assigned to.
//
//go:embed Dockerfile.code
var DockerfileCode string

// HostCode is the kernel host, which that recipe puts into the image. It is
// never assigned to.
//
//go:embed images/code/host.py
var HostCode string

// ChartsCode has Python's kernel describe charts as data. It is never assigned
// to.
//
//go:embed images/code/charts.py
var ChartsCode string

// KernelsCode are the kernels of JavaScript and bash. It is never assigned to.
//
//go:embed images/code/kernels.py
var KernelsCode string

// ReplCode evaluates JavaScript for its kernel. It is never assigned to.
//
//go:embed images/code/repl.js
var ReplCode string

// Languages are the names of the images for one programming language, in order.
func Languages() []string { return []string{"go", "java", "node", "python", "rust"} }

// LanguageImage returns the reference of the image for the programming language
// of that name, such as sandbox-go:bookworm-slim, and "" for every other name.
// Settings and flags name such an image by the language alone.
func LanguageImage(name string) string {
	for _, l := range Languages() {
		if l == name {
			return "sandbox-" + name + ":bookworm-slim"
		}
	}
	return ""
}
