package manager

import (
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// The names of the sandbox's own user.
const (
	accountName  = "sandbox" // in the passwd file of every sandbox
	accountAlias = "user"
)

// checkUser refuses the name of an account that no command runs as, whatever the
// sandbox is. Numbers are left to sameUser.
func checkUser(name string) error {
	switch uid, gid, ok := numbersOf(name); {
	case name == "" || name == accountName || name == accountAlias:
		return nil
	case name == "root" || strings.HasPrefix(name, "root:") || ok && (uid == 0 || gid == 0):
		return &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: "run", Field: "user", Resource: termsafe.Line(name),
			Message: "no command of a sandbox runs as root", Hint: `leave the user out, or write "sandbox"`,
		}
	case ok:
		return nil
	}
	return noSuchUser(name)
}

// sameUser refuses numbers that are not those of the sandbox's user.
func sameUser(name string, uid, gid int) error {
	u, g, ok := numbersOf(name)
	if !ok || u == uid && (g < 0 || g == gid) {
		return nil
	}
	return noSuchUser(name)
}

func noSuchUser(name string) error {
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "run", Field: "user", Resource: termsafe.Line(name),
		Message: "the sandbox has no user " + strconv.Quote(termsafe.Line(name)) + " to run commands as", Hint: `leave the user out, or write "sandbox"`,
	}
}

// numbersOf returns the numbers of UID or UID:GID; gid is negative without one.
func numbersOf(name string) (uid, gid int, ok bool) {
	first, second, both := strings.Cut(name, ":")
	u, err := strconv.ParseUint(first, 10, 31)
	if err != nil {
		return 0, 0, false
	}
	if !both {
		return int(u), -1, true
	}
	g, err := strconv.ParseUint(second, 10, 31)
	if err != nil {
		return 0, 0, false
	}
	return int(u), int(g), true
}
