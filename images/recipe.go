package images

import (
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// A recipe is one image that this program builds.
type recipe struct {
	ref        string
	dockerfile string
	files      []file // beside the Dockerfile, for it to copy
	origin     Origin // what the image is labelled with
	bootRepo   string // of the base bootstrapped for it, tagged with the suite
}

// A file is one that a recipe copies. It belongs to root in the image.
type file struct {
	name, content string
	mode          int64
}

// ourRecipes are what a Store builds. The first is the default image's.
func ourRecipes() []recipe {
	return append([]recipe{
		{
			ref: DefaultImage, dockerfile: sandbox.DockerfileSandbox,
			origin: OriginSandbox, bootRepo: "sandbox-base",
		},
		{
			ref: BrowserImage, dockerfile: sandbox.DockerfileBrowser,
			files: []file{
				{"browser/entrypoint.sh", sandbox.EntrypointBrowser, 0o755},
				{"browser/policies.json", sandbox.PoliciesBrowser, 0o644},
				{"browser/settings.sh", sandbox.SettingsBrowser, 0o644},
			},
			origin: OriginBrowser, bootRepo: "sandbox-browser-base",
		},
		{
			ref: CodeImage, dockerfile: sandbox.DockerfileCode,
			files: []file{
				{"images/code/host.py", sandbox.HostCode, 0o755},
				{"images/code/charts.py", sandbox.ChartsCode, 0o644},
				{"images/code/kernels.py", sandbox.KernelsCode, 0o644},
				{"images/code/repl.js", sandbox.ReplCode, 0o644},
			},
			origin: OriginCode, bootRepo: "sandbox-code-base",
		},
	}, languageRecipes()...)
}

// digest changes with whatever goes into the image: it is that of the
// Dockerfile with the files after it.
func (r recipe) digest() string {
	text := r.dockerfile
	for _, f := range r.files {
		text += f.content
	}
	return digest(text)
}

// packages is the value of the packages label of a base that has all that the
// recipe wants.
func (r recipe) packages() string { return strings.Join(packagesOf(r.dockerfile), " ") }

// bootstrapRef is the tag of a base that was bootstrapped from suite.
func (r recipe) bootstrapRef(suite string) string { return r.bootRepo + ":" + suite + "-bootstrap" }

// recipe returns the one that makes ref; empty is the default image.
func (s *Store) recipe(op, ref string) (recipe, error) {
	if ref == "" {
		return s.recipes[0], nil
	}
	for _, r := range s.recipes {
		if r.ref == ref {
			return r, nil
		}
	}
	return recipe{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "image", Resource: ref,
		Message: "this program has no recipe of " + printable(ref), Hint: "it makes " + DefaultImage + ", " + BrowserImage + ", " + CodeImage + ", and those of the languages " + strings.Join(sandbox.Languages(), ", ")}
}

// madeFrom reports whether an image labelled as made from a recipe of that
// digest, or bootstrapped with these packages, fits a recipe of now.
func (s *Store) madeFrom(fits func(recipe) bool) bool {
	for _, r := range s.recipes {
		if fits(r) {
			return true
		}
	}
	return false
}
