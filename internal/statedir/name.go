package statedir

import "github.com/bulkhead-dev/sandbox"

// maxName is the longest sandbox name; engines and host names allow no more.
const maxName = 63

// CheckName refuses a sandbox name that is not made of [a-z0-9-], does not
// begin with a letter or digit, or is longer than 63 characters. Everything
// that turns a name into a path calls it first: such a name holds no
// separator, no dot and no option dash.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName && name[0] != '-'
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-'
	}
	if ok {
		return nil
	}
	return sandbox.Errorf(sandbox.CodeValidation, "check name",
		"%q is not a sandbox name: 1 to %d characters of a-z, 0-9 and -, not beginning with -", name, maxName)
}
