package testenv

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// CodingAgents returns the programs of Claude Code and of Codex, as
// scripts/clients.sh installs them, and the folder that holds both. A test that
// calls it needs "codingagents".
func CodingAgents(t testing.TB) (claude, codex, folder string) {
	t.Helper()
	Require(t, "codingagents")
	return codingAgents()
}

func codingAgents() (claude, codex, folder string) {
	cpu, triple := "x64", "x86_64-unknown-linux-musl"
	if runtime.GOARCH == "arm64" {
		cpu, triple = "arm64", "aarch64-unknown-linux-musl"
	}
	folder = filepath.Join(root(), "bin", "codingagents", "node_modules")
	return filepath.Join(folder, "@anthropic-ai", "claude-code-linux-"+cpu, "claude"),
		filepath.Join(folder, "@openai", "codex-linux-"+cpu, "vendor", triple, "bin", "codex"), folder
}

// missingCodingAgents says what of what the script installs is not there.
func missingCodingAgents() string {
	claude, codex, _ := codingAgents()
	for _, file := range []string{claude, codex} {
		if _, err := os.Stat(file); err != nil {
			return "Claude Code and Codex are not installed, which `make codingagents` does: " + err.Error()
		}
	}
	return ""
}
