//go:build linux

package server

import (
	"os/exec"
	"testing"
	"time"
)

// BenchmarkLook is one look at 64 commands of two processes each, beside
// whatever else there is.
func BenchmarkLook(b *testing.B) {
	var trees []*meterTree
	for range 64 {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // by a signal
		})
		trees = append(trees, newTree(cmd.Process.Pid, meterBounds{CPU: time.Hour, Memory: 1 << 40, Processes: 1000, Files: 1000}, meterOptions{}))
	}
	var tab meterTable
	for b.Loop() {
		if err := tab.Read(); err != nil {
			b.Fatal(err)
		}
		for _, t := range trees {
			t.Look(&tab)
		}
	}
	b.ReportMetric(float64(tab.Len()), "processes")
}
