package config_test

import (
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
)

func TestWritableFolders(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{"nothing", `{}`, nil},
		{"agent with rw", `{"agents":{"list":[{"id":"a","workspace":"~/a","sandbox":{"workspaceAccess":"rw"}}]}}`, []string{"/home/ann/a"}},
		{"agents with ro and none", `{"agents":{"list":[{"id":"a","workspace":"/a","sandbox":{"workspaceAccess":"ro"}},{"id":"b","workspace":"/b"}]}}`, nil},
		{"rw from the defaults", `{"agents":{"defaults":{"sandbox":{"workspaceAccess":"rw"}},"list":[
			{"id":"a","workspace":"$DATA/a"},{"id":"b","workspace":"/b","sandbox":{"workspaceAccess":"none"}}]}}`, []string{"/data/a"}},
		{"rw from a preset", `{"agents":{"defaults":{"sandbox":{"preset":"normal"}},"list":[{"id":"a","workspace":"/a"}]}}`, []string{"/a"}},
		{"binds of defaults and agents", `{"agents":{"defaults":{"sandbox":{"docker":{"binds":["/d/rw:/x:rw","/d/ro:/y"]}}},
			"list":[{"id":"a","sandbox":{"docker":{"binds":["~/w:/w:rw"]}}}]}}`, []string{"/d/rw", "/home/ann/w"}},
		{"binds of a browser", inDefaults(`"browser":{"binds":["/d/b:/b:rw"]}`), []string{"/d/b"}},
		{"what rules open for writing", `{"agents":{"defaults":{"sandbox":{"filesystem":{"allowWrite":["~/w","$DATA/w","$NONE/w"],"allowRead":["/r"]}}},
			"list":[{"id":"a","sandbox":{"filesystem":{"whitelist":["/a"],"denyWrite":["/d"]}}}]}}`, []string{"/a", "/data/w", "/home/ann/w"}},
		{"what cannot be expanded", inDefaults(`"docker":{"binds":["$NONE/x:/x:rw"]}`), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := config.Parse("f", []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			got, err := config.WritableFolders(s, "/home/ann", map[string]string{"DATA": "/data"})
			if err != nil || !slices.Equal(got, tt.want) {
				t.Fatalf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
	// Without settings the answer does not depend on what is built in.
	for _, built := range []string{"", `"preset":"strict"`, `"preset":"restricted"`, `"preset":"normal"`, `"preset":"permissive"`} {
		t.Run("built in "+built, func(t *testing.T) {
			s, err := config.Parse("f", []byte(inDefaults(built)))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := config.WritableFolders(s, "/home/ann", nil); err != nil || len(got) > 0 {
				t.Fatalf("%q, %v", got, err)
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		if got, err := config.WritableFolders(nil, "", nil); err != nil || got != nil {
			t.Fatalf("%q, %v", got, err)
		}
	})
}
