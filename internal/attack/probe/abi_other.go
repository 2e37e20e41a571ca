//go:build linux && !amd64

package probe

func foreignCall() (nr uintptr, known bool) { return 0, false }

// olderWaysToSetMode are the calls that newer processors do not have.
func olderWaysToSetMode() map[string]func(path string, mode uint32) (int, error) { return nil }
