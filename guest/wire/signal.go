package wire

import "strconv"

// signalNames are the names of signal(7) on Linux by number; the guest
// always runs there, wherever the client does.
var signalNames = [...]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE",
	9: "KILL", 10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM",
	16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP", 20: "TSTP", 21: "TTIN", 22: "TTOU",
	23: "URG", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "IO",
	30: "PWR", 31: "SYS",
}

// SignalName returns the name of signal n without "SIG"; a real-time signal
// is "RTMIN+k", an impossible number its digits.
func SignalName(n int) string {
	switch {
	case n > 0 && n < len(signalNames):
		return signalNames[n]
	case n >= 34 && n <= 64:
		return "RTMIN+" + strconv.Itoa(n-34)
	}
	return strconv.Itoa(n)
}

// SignalNumber returns the number of the signal name, with or without
// "SIG", or 0 when there is none.
func SignalNumber(name string) int {
	if len(name) > 3 && name[:3] == "SIG" {
		name = name[3:]
	}
	for n := 1; n <= 64; n++ {
		if SignalName(n) == name && !(n >= 32 && n < 34) {
			return n
		}
	}
	return 0
}
