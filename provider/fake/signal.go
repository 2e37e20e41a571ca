package fake

// signalNumber returns the number of a signal by its name without prefix, and
// false for a name that there is not.
func signalNumber(name string) (int, bool) {
	switch name {
	case "HUP":
		return 1, true
	case "INT":
		return 2, true
	case "QUIT":
		return 3, true
	case "ABRT":
		return 6, true
	case "KILL":
		return 9, true
	case "USR1":
		return 10, true
	case "SEGV":
		return 11, true
	case "USR2":
		return 12, true
	case "PIPE":
		return 13, true
	case "ALRM":
		return 14, true
	case "TERM":
		return 15, true
	case "CHLD":
		return 17, true
	case "CONT":
		return 18, true
	case "STOP":
		return 19, true
	case "WINCH":
		return 28, true
	}
	return 0, false
}

// harmless reports whether a process that does not care survives the signal.
func harmless(name string) bool {
	return name == "CHLD" || name == "CONT" || name == "WINCH" || name == "STOP"
}
