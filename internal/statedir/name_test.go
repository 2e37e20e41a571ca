package statedir

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "0", "sbx-chat-42-0123456789abcdef", strings.Repeat("a", 63), "a-"} {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "-a", ".", "..", "a.b", "a/b", "A", "ä", "a b", "a\n", "a\x00", "a_b", strings.Repeat("a", 64)} {
		if err := CheckName(bad); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q: %v, want it refused", bad, err)
		}
	}
}
