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
	refDefault                  // built from our recipe
	refBootstrap                // bootstrapped from packages
	refOurs                     // another name that only we make
)

// classify says where an image of that reference comes from.
func (s *Store) classify(ref string) refKind {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return refForeign
	}
	name := reference.FamiliarName(named)
	switch {
	case reference.FamiliarString(named) == s.target:
		return refDefault
	case name == bootstrapRepo && strings.HasSuffix(ref, "-bootstrap"):
		return refBootstrap
	case name == bootstrapRepo, name == setupRepo, name == repoOf(DefaultImage):
		return refOurs
	}
	return refForeign
}

func repoOf(ref string) string {
	repo, _, _ := strings.Cut(ref, ":")
	return repo
}

// bootstrapRef is the tag of a base that was bootstrapped from suite.
func bootstrapRef(suite string) string { return bootstrapRepo + ":" + suite + "-bootstrap" }

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
