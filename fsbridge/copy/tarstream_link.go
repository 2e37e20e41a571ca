package copy

import "path"

// LinkStays reports whether a symbolic link called name in a tree, which is
// given by its path from there, may point to target: to a relative path that
// does not lead out of the tree. [Unpack] refuses other links.
func linkStays(name, target string) bool { return checkTarget(path.Clean(name), target) == nil }
