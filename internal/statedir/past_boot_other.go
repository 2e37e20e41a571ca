//go:build !linux

package statedir

import (
	"crypto/rand"
	"time"
)

// sinceBoot counts from the first look of this clock: nothing compares with
// what other processes have read, so only one that stays forgets.
func sinceBoot() func() (string, time.Duration, error) {
	boot, begun := rand.Text(), time.Now()
	return func() (string, time.Duration, error) { return boot, time.Since(begun), nil }
}
