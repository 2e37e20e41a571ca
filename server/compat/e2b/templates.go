package e2b

import (
	"cmp"

	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Templates that SDKs name without being told.
const (
	templateBase = "base"
	templateCode = "code-interpreter-v1"
)

// imageOf returns the image that a template is; empty is the one of the settings.
// Any other name is that of an image. Whether a request may name the image
// daemon.create says.
func imageOf(template string) string {
	switch template {
	case "", templateBase:
		return ""
	case templateCode:
		return about.CodeImage
	}
	return template
}

// template returns the template that a sandbox was made from.
func template(s api.Sandbox) string {
	if s.Image == about.CodeImage {
		return templateCode
	}
	return cmp.Or(s.Image, templateBase)
}

// isFrom reports whether a sandbox was made from a template, by the name that a
// client may have for it.
func isFrom(s api.Sandbox, name string) bool {
	return name == template(s) || name == s.Image
}
