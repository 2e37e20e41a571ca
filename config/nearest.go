package config

import (
	"slices"
	"strings"
)

// nearest returns the key of known that name was probably meant to be, or "".
// At most a third of the letters may differ, and two neighbours that changed
// places count once.
func nearest[V any](name string, known map[string]V) string {
	if len(name) > 64 {
		return ""
	}
	keys := make([]string, 0, len(known))
	for k := range known {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	best, least := "", 1000
	for _, k := range keys {
		most := max(len(name), len(k)) / 3
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d <= most && d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the number of letters that have to be changed, put in, taken out
// or swapped with their neighbour to get from a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
