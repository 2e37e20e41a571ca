package images

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Labels of the images that this package makes. An image built on another
// inherits its labels, so a bootstrapped base stays visible in what is built
// on it.
const (
	labelPrefix = "dev.bulkhead.sandbox.image."

	labelKind     = labelPrefix + "kind"              // an Origin
	labelBaseID   = labelPrefix + "base-id"           // identity of that
	labelBoot     = labelPrefix + "bootstrap"         // tool, distribution and suite
	labelPackages = labelPrefix + "packages"          // put in by a bootstrap
	labelDigest   = labelPrefix + "dockerfile-digest" // of the recipe, its files included
	labelSetup    = labelPrefix + "setup-digest"      // of base and commands
	labelProject  = labelPrefix + "project-digest"    // of base images, Dockerfile, context and arguments
	labelSource   = labelPrefix + "project"           // digest of the path of its Dockerfile
	labelBuild    = labelPrefix + "build"             // the build that made a layer
	labelReader   = labelPrefix + "reader"            // of a container that files are read from: when it was made
)

// annotate puts the annotations of the image specification into labels, so
// that tools of others show where an image comes from. Each is set on every
// image that this program makes: one built on another inherits the labels of
// that, which do not hold for it. base is empty for an image built on none.
func (s *Store) annotate(labels map[string]string, ref, version, base string) {
	labels[ocispec.AnnotationTitle] = ref
	labels[ocispec.AnnotationVersion] = version
	labels[ocispec.AnnotationCreated] = s.now().UTC().Format(time.RFC3339)
	if base != "" {
		labels[ocispec.AnnotationBaseImageName] = base
	}
}

func originOf(labels map[string]string) Origin {
	switch o := Origin(labels[labelKind]); o {
	case OriginSandbox, OriginBrowser, OriginCode, OriginLanguage, OriginProject, OriginBootstrap, OriginSetup:
		return o
	}
	return OriginForeign
}

// digest is the hex SHA-256 of text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// randomID names one build.
func randomID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails since Go 1.24
	return hex.EncodeToString(b)
}

// labelChange is a LABEL instruction. Dollar signs are escaped because the
// engine expands variables in it.
func labelChange(key, value string) string {
	r := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "\n", " ", "\r", " ")
	return "LABEL " + key + `="` + r.Replace(value) + `"`
}

// packagesOf reads the package list out of a recipe. The recipe is the one
// place where it is written down.
func packagesOf(recipe string) []string {
	m := regexp.MustCompile(`(?m)^ARG PACKAGES="([a-z0-9.+ -]+)"$`).FindStringSubmatch(recipe)
	if m == nil {
		return nil
	}
	return strings.Fields(m[1])
}
