package images

import (
	"strings"

	"github.com/distribution/reference"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// maxRef bounds a reference; registries accept no more.
const maxRef = 512

type refKind int

const (
	refForeign   refKind = iota // from a registry
	refRecipe                   // built from a recipe of ours
	refBootstrap                // bootstrapped from packages for one
	refOurs                     // another name that only we make
)

// classify says where an image of that reference comes from, and by which
// recipe when we make it.
func (s *Store) classify(ref string) (refKind, recipe) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return refForeign, recipe{}
	}
	name := reference.FamiliarName(named)
	ours := name == setupRepo || name == projectRepo
	for _, r := range s.recipes {
		switch {
		case reference.FamiliarString(named) == r.ref:
			return refRecipe, r
		case name == r.bootRepo && strings.HasSuffix(ref, "-bootstrap"):
			return refBootstrap, r
		}
		ours = ours || name == r.bootRepo || name == repoOf(r.ref)
	}
	if ours || name == repoOf(DefaultImage) {
		return refOurs, recipe{}
	}
	return refForeign, recipe{}
}

func repoOf(ref string) string {
	repo, _, _ := strings.Cut(ref, ":")
	return repo
}

// checkRef refuses what is no image reference or ID before it is sent
// anywhere.
func checkRef(op, ref string) error {
	fail := func(message string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "image", Resource: ref, Message: message,
			Hint: "write a reference such as " + DefaultImage + " or registry.example/name:tag"}
	}
	if ref == "" {
		return fail("the image reference is empty")
	}
	if len(ref) > maxRef {
		return fail("the image reference is too long")
	}
	if _, err := reference.ParseAnyReference(ref); err != nil {
		return fail("malformed image reference " + printable(ref))
	}
	return nil
}
