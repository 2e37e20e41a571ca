package config

import (
	"fmt"
	"path"
	"strings"
)

// maxTempPrefix is the longest path that Linux opens, in bytes.
const maxTempPrefix = 4095

// tempPrefixes checks the folders to which temporary files are limited. What
// policies would take for another place than it looks like is refused, so that
// a prefix opens no more than it says.
func (p *problems) tempPrefixes(list []string, at string) {
	for i, s := range list {
		if why, hint := badTempPrefix(s); why != "" {
			if len(s) > 80 {
				s = strings.ToValidUTF8(s[:80], "") + "…"
			}
			p.badly(fmt.Sprintf("%s[%d]", at, i), hint, "%q %s", s, why)
		}
	}
}

// badTempPrefix says what is wrong with a prefix, and what to write instead. It
// is empty for a good one.
func badTempPrefix(s string) (why, hint string) {
	const write = "write it like /tmp/build"
	clean := strings.TrimSuffix(s, "/")
	switch {
	case !strings.HasPrefix(s, "/"):
		return "is not absolute", write
	case strings.Trim(s, "/") == "":
		return "is the root folder, of which no temporary file is", write
	case len(s) > maxTempPrefix:
		return fmt.Sprintf("has %d bytes; a path has %d at most", len(s), maxTempPrefix), write
	case strings.Contains("/"+s+"/", "/../"):
		return "goes up with ..", write
	case path.Clean(clean) != clean:
		return "is not clean", write
	case strings.ContainsAny(s, "*?[]{}\\"):
		return "has a sign of a pattern; a prefix names one folder and means all below it", "leave out what follows the last / before the sign"
	case !temporary(clean):
		return "does not lie in /tmp or /var/tmp", "name a folder below those, or open other folders with filesystem.allowWrite"
	}
	return "", ""
}

// temporary reports whether a clean absolute path is a folder for temporary
// files or lies in one; macOS has them below /private.
func temporary(p string) bool {
	p = strings.TrimPrefix(p, "/private")
	return within(p, "/tmp") || within(p, "/var/tmp")
}
