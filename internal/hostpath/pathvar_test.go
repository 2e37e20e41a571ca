package hostpath_test

import (
	"fmt"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "/a", "B2": "b", "EMPTY": "", "SELF": "$A"}
	tests := []struct {
		name, in, home, want, problem string
	}{
		{name: "plain", in: "/x/y", want: "/x/y"},
		{name: "empty", in: "", want: ""},
		{name: "home alone", in: "~", home: "/h", want: "/h"},
		{name: "below home", in: "~/x", home: "/h", want: "/h/x"},
		{name: "tilde inside stays", in: "/x/~/y", home: "/h", want: "/x/~/y"},
		{name: "other user", in: "~bob/x", home: "/h", problem: "another user"},
		{name: "home unknown", in: "~/x", problem: "not known"},
		{name: "bare variable", in: "$A/x", want: "/a/x"},
		{name: "braced variable", in: "/x/${B2}y", want: "/x/by"},
		{name: "name ends at a non-name byte", in: "$A.$B2", want: "/a.b"},
		{name: "not expanded twice", in: "$SELF", want: "$A"},
		{name: "dollar sign", in: "/x/$$A", want: "/x/$A"},
		{name: "unknown variable", in: "$NOPE/x", problem: "NOPE"},
		{name: "empty variable", in: "$EMPTY/x", problem: "EMPTY"},
		{name: "digit first", in: "$1", problem: "starts no variable"},
		{name: "trailing dollar", in: "/x$", problem: "starts no variable"},
		{name: "unclosed brace", in: "${A", problem: "starts no variable"},
		{name: "operator in braces", in: "${A:-/x}", problem: "starts no variable"},
		{name: "command", in: "$(id)", problem: "starts no variable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := hostpath.ExpandVariables(tt.in, tt.home, env)
			if tt.problem == "" {
				if err != nil || got != tt.want {
					t.Fatalf("Expand(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
				}
				return
			}
			if sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), tt.problem) {
				t.Fatalf("Expand(%q) = %q, %v; want an error with %q", tt.in, got, err, tt.problem)
			}
		})
	}
}

func ExampleExpand() {
	p, err := hostpath.ExpandVariables("~/data/$PROJECT", "/home/ann", map[string]string{"PROJECT": "maps"})
	fmt.Println(p, err)
	// Output: /home/ann/data/maps <nil>
}
