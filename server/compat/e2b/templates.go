package e2b

import (
	"cmp"
	"slices"

	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Templates that SDKs name by default.
const (
	templateBase = "base"
	templateCode = "code-interpreter-v1"
)

// presets are the names of presets of the settings.
var presets = [...]string{"strict", "restricted", "normal", "permissive"}

// ask has body ask for what a template is: nothing for the base, a preset of the
// settings, or else an image. Whether a request may name it daemon.create says.
func ask(body map[string]any, template string) {
	switch {
	case template == "" || template == templateBase:
	case template == templateCode:
		body["image"] = about.CodeImage
	case slices.Contains(presets[:], template):
		body["preset"] = template
	default:
		body["image"] = template
	}
}

// template returns the template that a sandbox was made from.
func template(s api.Sandbox) string {
	if s.Preset != "" {
		return s.Preset
	}
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
