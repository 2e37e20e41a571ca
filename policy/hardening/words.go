package hardening

import "strings"

// The forms of words are functions and no patterns: a pattern is compiled at
// every start of the program, whether it is needed or not.

// maxWord is how long a name of an engine's object may be, in bytes.
const maxWord = 128

// onWindowsDrive reports whether s starts like C: does.
func onWindowsDrive(s string) bool {
	return len(s) >= 2 && s[1] == ':' && letter(s[0])
}

// plainWord reports whether s starts with a letter or digit and goes on with
// those and the bytes of marks.
func plainWord(s, marks string) bool {
	if s == "" || !letter(s[0]) && !digit(s[0]) {
		return false
	}
	for i := range len(s) {
		if !letter(s[i]) && !digit(s[i]) && strings.IndexByte(marks, s[i]) < 0 {
			return false
		}
	}
	return true
}

func isVolumeName(s string) bool  { return plainWord(s, "_.-") }
func isNetworkName(s string) bool { return len(s) <= maxWord && plainWord(s, "_.-") }
func isRuntimeName(s string) bool { return len(s) <= maxWord && plainWord(s, "_.-") }
func isProfileName(s string) bool { return len(s) <= maxWord && plainWord(s, "_.@+-") }

// isNetworkID reports whether s is an engine's id or a beginning of one that
// it takes for it.
func isNetworkID(s string) bool {
	return len(s) >= 12 && len(s) <= 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func digit(c byte) bool  { return '0' <= c && c <= '9' }
func letter(c byte) bool { return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }
