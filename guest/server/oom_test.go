//go:build linux

package server

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNobodyInsideIsSpared(t *testing.T) {
	score := filepath.Join(t.TempDir(), "score")
	if err := beKillable(score); err != nil {
		t.Errorf("without the file: %v", err)
	}
	for have, want := range map[string]string{"-1000\n": "0", "-1\n": "0", "0\n": "0\n", "500\n": "500\n"} {
		if err := os.WriteFile(score, []byte(have), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := beKillable(score); err != nil {
			t.Errorf("%q: %v", have, err)
		}
		if b, err := os.ReadFile(score); err != nil || string(b) != want {
			t.Errorf("%q becomes %q, %v", have, b, err)
		}
	}
	if err := os.WriteFile(score, []byte("much"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := beKillable(score); err == nil {
		t.Error("what is no number is taken")
	}
}
