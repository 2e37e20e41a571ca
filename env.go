package sandbox

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxVariable is the longest name of a variable, in bytes.
const maxVariable = 256

// CheckEnv refuses variables that no command can have, as [CodeValidation] of
// the field "env": without a name, with an equals sign or a character in it
// that cannot be printed, with one of more than 256 bytes, or with a NUL in the
// value. A kernel accepts some of these, but a reader of the output of env
// would take one such variable for several. The error does not contain values.
// It is the rule for what comes with a command; settings are held to names that
// a shell can write.
func CheckEnv(env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) { // so that of several it is always the same one
		if why := badVariable(name, env[name]); why != "" {
			return &Error{Code: CodeValidation, Op: "check environment", Field: "env", Message: why}
		}
	}
	return nil
}

// badVariable says what is wrong with a variable, or nothing.
func badVariable(name, value string) string {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	switch {
	case name == "":
		return "a variable has no name"
	case len(name) > maxVariable:
		return "the name of a variable has " + strconv.Itoa(len(name)) + " bytes; " + strconv.Itoa(maxVariable) + " are allowed"
	case strings.Contains(name, "="), strings.ContainsFunc(name, unprintable):
		return strconv.Quote(name) + " is no name of a variable"
	case strings.IndexByte(value, 0) >= 0:
		return "the value of " + strconv.Quote(name) + " holds a NUL byte"
	}
	return ""
}
