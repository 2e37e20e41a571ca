//go:build !linux

package hostpath

// straight is for systems that tell it in one look.
func straight(string) (canonical string, ok bool) { return "", false }
