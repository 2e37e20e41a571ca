package cli

import (
	"strconv"
	"strings"
)

// unknownFlagPrefix begins what the flag library says about a flag that does not
// exist.
const unknownFlagPrefix = "flag provided but not defined: -"

// flagFault writes what the flag library says about a flag in our words. The
// library has one dash before every name, and ours are written with two when
// they are longer than a letter.
func flagFault(message string) string {
	if name, ok := strings.CutPrefix(message, unknownFlagPrefix); ok {
		return "there is no flag " + dashed(name)
	}
	if name, ok := strings.CutPrefix(message, "flag needs an argument: -"); ok {
		return dashed(name) + " needs a value"
	}
	for _, kind := range []string{"invalid value ", "invalid boolean value "} {
		rest, ok := strings.CutPrefix(message, kind)
		if !ok {
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			continue
		}
		rest = strings.TrimPrefix(strings.TrimPrefix(rest[len(quoted):], " for "), "flag ")
		if name, why, ok := strings.Cut(strings.TrimPrefix(rest, "-"), ": "); ok {
			return dashed(name) + " cannot be " + quoted + ": " + why
		}
	}
	return message
}

// dashed writes the name of a flag as people do.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
