package config_test

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
)

// TestClosedAllows holds that an allow which a deny closes is named with the
// deny, and that no other allow is.
func TestClosedAllows(t *testing.T) {
	tests := []struct {
		name, settings string
		in             config.Inside
		path, why      string // of the one notice; empty is none
	}{
		{"a folder below a closed one", `"denyRead": ["/srv/a"], "allowRead": ["/srv", "/srv/a/b"]`, config.Inside{}, "", ""},
		{"the closed folder itself", `"denyRead": ["/srv/a"], "allowRead": ["/srv/a"]`, config.Inside{}, "allowRead[0]", "]: /srv/a; allowRead opens what lies below"},
		{"a folder below another deny inside", `"denyRead": ["/srv/a", "/srv/a/b"], "allowRead": ["/srv/a/b"]`, config.Inside{}, "allowRead[0]", "/srv/a/b;"},
		{"a folder below a pattern", `"denyRead": ["/srv/**/key"], "allowRead": ["/srv/a/key/pub"]`, config.Inside{}, "", ""},
		{"a folder that the pattern matches too", `"denyRead": ["/srv/**/key"], "allowRead": ["/srv/a/key/key"]`, config.Inside{}, "allowRead[0]", "/srv/**/key"},
		{"a pattern inside a closed folder", `"denyRead": ["/srv/a"], "allowRead": ["/srv/a/b/*.pub"]`, config.Inside{}, "allowRead[0]", "a pattern opens nothing"},
		{"a pattern around a closed folder", `"denyRead": ["/srv/a"], "allowRead": ["/srv/*.pub", "**/x"]`, config.Inside{}, "", ""},
		{"a write below a folder closed for writing", `"denyWrite": ["/srv/a"], "allowWrite": ["/srv/a/b"]`, config.Inside{}, "allowWrite[0]", "writing by filesystem.denyWrite["},
		{"a write below a folder closed for reading", `"denyRead": ["/srv/a"], "allowWrite": ["/srv/a/b"]`, config.Inside{}, "allowWrite[0]", "writing by filesystem.denyRead["},
		{"a write where reading is opened too", `"denyRead": ["/srv/a"], "allowRead": ["/srv/a/b"], "allowWrite": ["/srv/a/b/c"]`, config.Inside{}, "", ""},
		{"a write above what is opened for reading", `"denyRead": ["/srv/a"], "allowRead": ["/srv/a/b/c"], "allowWrite": ["/srv/a/b"]`, config.Inside{}, "allowWrite[0]", "only what allowRead opens too"},
		{"a read below a folder closed for writing", `"denyWrite": ["/srv/a"], "allowRead": ["/srv/a/b"]`, config.Inside{}, "", ""},
		{"a variable", `"denyRead": ["$PLACE/b"], "allowRead": ["/srv/place/b"]`, config.Inside{}, "allowRead[0]", "/srv/place/b;"},
		{"the home of the host", `"denyRead": ["/home/me/x/y"], "allowRead": ["~/x/y"]`, config.Inside{Home: "/home/me"}, "allowRead[0]", "/home/me/x/y"},
		{"a built-in secret", `"allowRead": ["~/.ssh/config"]`, config.Inside{Home: "/home/me"}, "allowRead[0]", "~/.ssh"},
		{"a built-in secret that the settings name too", `"denyRead": ["~/.ssh"], "allowRead": ["~/.ssh/config"]`, config.Inside{Home: "/home/me"}, "allowRead[0]", "~/.ssh"},
		{"a built-in secret by dots", `"denyRead": ["~"], "allowRead": ["/home/me/x/../.ssh/config"]`, config.Inside{Home: "/home/me"}, "allowRead[0]", "~/.ssh"},
		{"a built-in secret in another case", `"denyRead": ["~"], "allowRead": ["~/.SSH/config"]`, config.Inside{Home: "/home/me", FoldCase: true}, "allowRead[0]", "~/.ssh"},
		{"a built-in secret by a pattern", `"denyRead": ["~"], "allowRead": ["~/.ssh/*.pub"]`, config.Inside{Home: "/home/me"}, "allowRead[0]", "~/.ssh"},
		{"a built-in pattern", `"denyRead": ["/srv"], "allowRead": ["/srv/a/.env"]`, config.Inside{}, "allowRead[0]", "**/.env"},
		{"a path below the workspace", `"denyRead": ["a/b"], "allowRead": ["/workspace/a/b"]`, config.Inside{}, "allowRead[0]", ": a/b;"},
		{"a neighbour whose name begins alike", `"denyRead": ["/srv/a"], "allowRead": ["/srv/ab"]`, config.Inside{}, "", ""},
		{"a folder above a closed one", `"denyRead": ["/srv/a/b"], "allowRead": ["/srv/a"]`, config.Inside{}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Env = map[string]string{"PLACE": "/srv/place"}
			r := resolved(t, "f", inDefaults(`"filesystem": {`+tt.settings+`}`))
			p, err := config.PathPolicy(r, tt.in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := config.ClosedAllows(r, tt.in, p)
			if err != nil {
				t.Fatal(err)
			}
			if tt.path == "" {
				if len(got) != 0 {
					t.Errorf("notices: %+v", got)
				}
				return
			}
			if len(got) != 1 || !strings.HasSuffix(got[0].Path, "filesystem."+tt.path) || !strings.Contains(got[0].Why, tt.why) {
				t.Errorf("notices %+v; want one of %s with %q", got, tt.path, tt.why)
			}
		})
	}
}
