//go:build linux && !amd64

package probe

func foreignCall() (nr uintptr, known bool) { return 0, false }
