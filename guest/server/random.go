//go:build linux

package server

import "golang.org/x/sys/unix"

// randomHex returns n random bytes in hexadecimal. It asks the kernel
// itself: package crypto/rand would be a third of the program.
func randomHex(n int) string {
	b := make([]byte, n)
	for done := 0; done < n; {
		got, err := unix.Getrandom(b[done:], 0)
		if err != nil && err != unix.EINTR {
			panic("getrandom: " + err.Error()) // the system call is there since Linux 3.17
		}
		done += max(got, 0)
	}
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 2*n)
	for _, c := range b {
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}
