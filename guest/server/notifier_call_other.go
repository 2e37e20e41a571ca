//go:build linux && !amd64 && !arm64

package server

// olderTargetsOf is targetsOf for calls that newer processors do not have.
func olderTargetsOf(int32) []target { return nil }

// isRmdir reports whether a call is rmdir(2), which newer processors do not have.
func isRmdir(int32) bool { return false }

func olderMetadataOf(int32) (metadata, bool) { return metadata{}, false }
