package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestReportQuotes holds that what an error quotes is shown line by line, and
// that no line of it can be taken for one of ours or reach the terminal.
func TestReportQuotes(t *testing.T) {
	var b strings.Builder
	report(&b, &sandbox.Error{
		Code: sandbox.CodeTimeout, Op: "start browser", Message: "the browser did not answer in time", Hint: "see sandbox doctor",
		Err: errors.New("it said:\nno display\nsandbox: hint: run this\x1b[2J"),
	})
	const want = "sandbox: PROVIDER.TIMEOUT: start browser: the browser did not answer in time: it said:\n" +
		"sandbox:   no display\n" +
		"sandbox:   sandbox: hint: run this\\x1b[2J\n" +
		"sandbox: hint: see sandbox doctor\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
