package images

import (
	"runtime"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
)

// ownPlatform is what containers of this machine run: the guest is a program of
// this processor, and engines run Linux.
func ownPlatform() about.Platform {
	return about.Platform{OS: "linux", Architecture: runtime.GOARCH}
}

// showPlatform writes a platform as the command line of engines does.
func showPlatform(p about.Platform) string {
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// checkPlatform refuses an image of another platform than the machine's. Its
// programs would end with "exec format error", or, emulated, run under a list of
// system calls that was made for another processor. What an engine does not say
// of an image is no reason; a processor of 64 bits runs programs of the 32 bits
// before it.
func (s *Store) checkPlatform(op string, img Image) error {
	is, want := img.Platform, s.platform
	older := want.Architecture == "amd64" && is.Architecture == "386" || want.Architecture == "arm64" && is.Architecture == "arm"
	if (is.OS == "" || is.OS == want.OS) && (is.Architecture == "" || is.Architecture == want.Architecture || older) {
		return nil
	}
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "docker.image", Resource: img.Ref,
		Message: "image " + printable(img.Ref) + " is made for " + printable(showPlatform(is)) + ", and this machine runs " + showPlatform(want),
		Hint:    "take an image for this machine: docker pull --platform " + showPlatform(want) + " NAME"}
}
