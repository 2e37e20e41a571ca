package manager

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// nothing says that no grant helps. It does not say why: that would tell code
// inside what the host has.
const nothing = "there is nothing to permit"

// opening finds what has to be permitted for v to go well: the path of the
// host, or the folder in which it is to be made when there is none yet. It
// returns why nothing can be permitted otherwise.
func opening(l *acquired, v sandbox.Violation) (g sandbox.Grant, why string) {
	place, err := hostpath.Canonical(v.HostPath)
	if err != nil {
		return g, nothing
	}
	_, err = os.Lstat(place)
	switch {
	case err == nil:
		return granting(v.Operation, place)
	case !errors.Is(err, fs.ErrNotExist), v.Operation != sandbox.OpWrite:
		return g, nothing
	}
	place = path.Dir(place)
	if st, err := os.Lstat(place); err != nil || !st.IsDir() {
		return g, nothing
	}
	// The rules were asked about the path, not about the folder around it.
	if j, ok := l.Sandbox.(sandbox.Judge); ok {
		switch verdict := j.Judge(sandbox.OpWrite, path.Dir(v.Resource)); {
		case verdict.Builtin:
			return g, listed
		case verdict.Allowed:
			return g, nothing
		}
	}
	return granting(sandbox.OpWrite, place)
}

// granting is a grant of place, which is not everything.
func granting(op sandbox.Operation, place string) (sandbox.Grant, string) {
	if place == "/" {
		return sandbox.Grant{}, "not everything can be permitted"
	}
	return sandbox.Grant{Operation: op, Path: place}, ""
}
