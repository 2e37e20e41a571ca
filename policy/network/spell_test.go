package network_test

import (
	"fmt"
	"strings"
)

// spell writes an IPv4 address in a number of parts, each in the base that two
// bits of bases say.
func spell(n uint32, bases uint8, parts int) string {
	var out []string
	rest := uint64(n)
	for i := range parts {
		bits := 8
		if i == parts-1 {
			bits = 8 * (4 - i)
		}
		shift := 32 - 8*i - bits
		v := rest >> shift & (1<<bits - 1)
		format := [4]string{"%d", "0%o", "0x%x", "0X%X"}[bases>>(2*i)&3]
		if v == 0 {
			format = "%d"
		}
		out = append(out, fmt.Sprintf(format, v))
	}
	return strings.Join(out, ".")
}
