//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

var update = flag.Bool("update", false, "write docs/openapi.json anew")

const openapiFile = "../../docs/openapi.json"

// TestOpenAPIIsFresh holds that the document in docs is the one that the
// daemon of this program serves.
func TestOpenAPIIsFresh(t *testing.T) {
	t.Parallel()
	log := logrus.New()
	log.SetOutput(os.Stderr)
	d, err := newDaemon(cli.Options{StateDir: t.TempDir() + "/state", Log: log}, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	now, err := d.server.Document()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(openapiFile, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(openapiFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, now) {
		t.Error("docs/openapi.json is not what the daemon serves; run: make openapi")
	}
}

// TestOpenAPIIsLinted holds that the linter finds nothing.
func TestOpenAPIIsLinted(t *testing.T) {
	t.Parallel()
	out, err := testenv.Redocly(t.Context(), t, "lint", openapiFile, "--config", "../../docs/redocly.yaml").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
