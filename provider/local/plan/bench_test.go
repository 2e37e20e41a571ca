package plan

import (
	"fmt"
	"testing"
)

// BenchmarkMake plans a workspace with a hundred closed files, the work before
// each command of a sandbox.
func BenchmarkMake(b *testing.B) {
	w := scratch()
	for i := range 20 {
		dir := fmt.Sprintf("/state/ws/d%d", i)
		w.Kinds[dir] = Dir
		for j := range 5 {
			p := fmt.Sprintf("%s/.env.%d", dir, j)
			w.Kinds[p] = File
			w.Denies = append(w.Denies, Deny{Path: p, Read: true, Rule: "**/.env.*"})
		}
	}
	w.Views = append(w.Views, View{Source: "/state/ws", Target: "/state/ws", Write: true, Why: "own folder"})
	for b.Loop() {
		if _, err := Make(w); err != nil {
			b.Fatal(err)
		}
	}
}
