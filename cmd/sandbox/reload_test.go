package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestSettingsAreReadAgain holds that a program which lives on goes by the
// settings file as it is when it is asked.
func TestSettingsAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "sandbox.json")
	write := func(more string) {
		t.Helper()
		text := `{"agents": {"defaults": {"sandbox": {"provider": "local", "commands": {"block": [` + more + `]}}}}}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`"something else"`)
	var reported strings.Builder
	log := logrus.New()
	log.SetOutput(&reported)
	c, done, err := backend{}.Manager(cli.Options{ConfigFile: file, StateDir: filepath.Join(dir, "state"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	verdict := func() string {
		t.Helper()
		e, err := c.Explain(t.Context(), config.Who{Agent: "main", Session: "s"}, nil, manager.Questions{Command: "make all"})
		if err != nil || len(e.Verdicts) == 0 {
			t.Fatalf("%+v, %v", e.Verdicts, err)
		}
		return e.Verdicts[0].Verdict
	}
	before := verdict()
	if strings.Contains(reported.String(), "in force") {
		t.Errorf("the settings that the program began with are told as changed: %s", &reported)
	}
	write(`"make:*"`)
	if now := verdict(); now != "deny" || before == "deny" {
		t.Errorf("the command was judged %s, and %s when it was blocked", before, now)
	}
	_, err = c.Run(t.Context(), manager.Request{Who: config.Who{Agent: "main", Session: "s"},
		Command: sandbox.Command{Args: []string{"make", "all"}, Stdout: io.Discard, Stderr: io.Discard}})
	if sandbox.CodeOf(err) != sandbox.CodeDenyTool {
		t.Errorf("a command that is blocked now: %v", err)
	}
}
