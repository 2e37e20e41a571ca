package sandbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestCheckEnv(t *testing.T) {
	for _, name := range []string{"A", "_", "a.b", "npm_config_@scope:registry", "BASH_FUNC_f%%", "1", "größe", "with space", strings.Repeat("n", 256)} {
		if err := sandbox.CheckEnv(map[string]string{name: "any\nvalue = \xff"}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "A=B", "=", "A\nB", "A\rB", "\n", "A\x00", "A\x1b[2J", "A\u202eB", "A\xff", "A\u2028B", strings.Repeat("n", 257)} {
		err := sandbox.CheckEnv(map[string]string{"GOOD": "x", name: "hunter2"})
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != "env" || strings.ContainsAny(e.Message, "\n\x00\x1b") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := sandbox.CheckEnv(map[string]string{"A": "secret\x00"}); sandbox.CodeOf(err) != sandbox.CodeValidation || strings.Contains(err.Error(), "secret") {
		t.Errorf("a NUL in a value: %v", err)
	}
	if err := sandbox.CheckEnv(nil); err != nil {
		t.Errorf("no variables: %v", err)
	}
}
