package client_test

import (
	"math/rand"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// pieces are what could end what the driver writes around a line, or leave it
// open, alone or together with others.
var pieces = []string{
	"'", "\"", "\\", "\n", "}", ")", ";;", "{", "(", "$(", "`", "$'", "<<E\n", "\nE\n", "<<'E'\n", "echo ", "a", "b ", "#", "&", "|", ";", "&&",
	"case x in x) ", "esac", "if true; then ", "fi", "for i in 1; do ", "done", "${", "$((", "))", "!", "*", "~", "\t", "<", ">", "/dev/null",
	"\xe2\x82", "\xc3", "\xf0\x9f", "\xff", "\x81", "é", "return ", "break", "\\\n", "f() ", "exit 3", "printf %s ", "\r", "\x01", "cat", "[[ ", " ]]",
	"eval ", " 0 ",
}

// TestShellAnyText runs texts made of pieces, which are mostly broken, and
// holds that each writes what it writes when the same shell evaluates it by
// itself, and that the line after it runs.
func TestShellAnyText(t *testing.T) {
	t.Parallel()
	long(t)
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		r := rand.New(rand.NewSource(1))
		for range testenv.Rounds(20, 40, 300) {
			var b strings.Builder
			for range 1 + r.Intn(7) {
				b.WriteString(pieces[r.Intn(len(pieces))])
			}
			text := b.String()
			want := run(t, c, sandbox.Command{Args: []string{k.path + "/" + k.program, "-c", `eval "$1"`, k.program, text}})
			s := openShell(t, c, sandbox.ShellOptions{})
			if got := line(t, s, text); got.stdout != want.stdout || got.exit.Code != want.exit.Code && !strings.Contains(want.stderr, "yntax error") {
				t.Errorf("%q: got %+v, want %+v", text, got, want)
			}
			if got := line(t, s, "echo alive"); got.stdout != "alive\n" || got.exit.Code != 0 {
				t.Errorf("after %q: got %+v", text, got)
			}
			must(t, s.Close())
		}
	})
}
