package testenv

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/images/about"
)

// codeMissing asks once a process whether an engine answers, and makes the image
// of the code interpreter unless it is there and of the recipe of this tree, as
// browserMissing does that of browsers.
var codeMissing = sync.OnceValue(func() string {
	if why := engineMissing(); why != "" {
		return why
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	lock := filepath.Join(os.TempDir(), "sandbox-code-image.lock")
	script, program := filepath.Join(root(), "scripts", "image.sh"), filepath.Join(root(), "bin", "sandbox")
	if out, err := exec.CommandContext(ctx, "flock", lock, script, program, "--code").CombinedOutput(); err != nil {
		return "the image " + about.CodeImage + " could not be made: " + err.Error() + ": " + strings.TrimSpace(string(out))
	}
	return ""
})
