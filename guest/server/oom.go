//go:build linux

package server

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

const oomScore = "/proc/self/oom_score_adj"

// beKillable gives up a protection from the kernel's choice of whom to end
// when memory runs out, which an orchestrator that is a service may have and
// all that it starts inherits: code in a sandbox that takes all memory must
// not have the host's other programs be ended in its place. It works only
// before the process is made undumpable. score is the file of that choice.
func beKillable(score string) error {
	b, err := os.ReadFile(score)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n >= 0 {
		return err
	}
	return os.WriteFile(score, []byte("0"), 0)
}
