package config

import "regexp"

// The forms of words. They are in the syntax that Go and JSON Schema share.
var (
	nameForm       = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	imageForm      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}$`)
	prefixForm     = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,13}$`)
	hostForm       = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9._:\[\]-]{1,253}$`)
	hostOrAllForm  = regexp.MustCompile(`^(\*|(\*\.)?[A-Za-z0-9._:\[\]-]{1,253})$`)
	capabilityForm = regexp.MustCompile(`^[A-Za-z_]{1,64}$`)
	gpusForm       = regexp.MustCompile(`^(all|[0-9]{1,3}|device=[A-Za-z0-9,._-]{1,200})$`)
	variableForm   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)
	hostNameForm   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
)

// forms returns the form that a tag names, or nil.
func forms(name string) *regexp.Regexp {
	switch name {
	case "name":
		return nameForm
	case "image":
		return imageForm
	case "prefix":
		return prefixForm
	case "host":
		return hostForm
	case "hostOrAll":
		return hostOrAllForm
	case "capability":
		return capabilityForm
	case "gpus":
		return gpusForm
	}
	return nil
}
