//go:build !race

package grant_test

const raceEnabled = false
