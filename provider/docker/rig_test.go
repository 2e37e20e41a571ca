package docker_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// sh runs a shell line and returns its output, both streams joined, and its code.
func sh(t testing.TB, sb sandbox.Sandbox, line string) (string, int) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	var out bytes.Buffer
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out})
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return strings.TrimSpace(out.String()), exit.Code
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
