package checkpoint

import "github.com/bulkhead-dev/sandbox/workspace"

// An overlay is a mount to be made of layers.
type overlay struct {
	lowers      []lower // the topmost first
	upper, work string  // empty for a view that cannot be written
	spare       string  // a folder of the store in which others may be made while it is mounted
	source      string  // what the table of mounts shows as its source
	userxattr   bool    // the overlay's notes are user.overlay.*, as in a user namespace
}

// A lower is a folder that an overlay shows. The files of the owner from
// appear as those of the owner to.
type lower struct {
	path     string
	from, to workspace.Owner
}

// sparePrefix begins the names of folders that lower folders are mounted at for
// a moment.
const sparePrefix = "lower-"

// A mounted is one line of the table of mounts.
type mounted struct{ fsType, source string }

// opaqueName is the extended attribute by which a folder of an overlay hides
// the folders of the same name below it.
func opaqueName(userxattr bool) string { return overlayPrefix(userxattr) + "opaque" }

func overlayPrefix(userxattr bool) string {
	if userxattr {
		return "user.overlay."
	}
	return "trusted.overlay."
}
