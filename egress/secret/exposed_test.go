package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestExposed checks that a file that code in a sandbox can exchange is
// neither read nor run, by any path.
func TestExposed(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	at := func(elem ...string) string { return filepath.Join(append([]string{base}, elem...)...) }
	for _, dir := range []string{"work/bin", "ours", "works"} {
		must(t, os.MkdirAll(at(dir), 0o700))
	}
	const script = "#!/bin/sh\necho printed-value\n"
	for _, file := range []string{"work/token", "ours/token", "works/token"} {
		write(t, at(file), value)
	}
	for _, file := range []string{"work/bin/give", "ours/give"} {
		must(t, os.WriteFile(at(file), []byte(script), 0o700))
	}
	must(t, os.Symlink(at("work/token"), at("ours/in")))  // leads into the folder
	must(t, os.Symlink(at("ours/token"), at("work/out"))) // what code inside can do
	must(t, os.Symlink(at("ours"), at("work/dir")))
	must(t, os.Symlink(at("work"), at("elsewhere")))
	file := func(elem string) Source { return Source{File: at(elem)} }
	command := func(args ...string) Source { return Source{Command: args} }
	tests := []struct {
		name string
		from Source
		ok   bool
	}{
		{"file of ours", file("ours/token"), true},
		{"file in a folder of a like name", file("works/token"), true},
		{"file in the folder", file("work/token"), false},
		{"link of ours into the folder", file("ours/in"), false},
		{"link inside to a file of ours", file("work/out"), false},
		{"folder inside that is a link", file("work/dir/token"), false},
		{"by another name", file("elsewhere/token"), false},
		{"program of ours", command(at("ours/give")), true},
		{"program in the folder", command(at("work/bin/give")), false},
		{"script in the folder", command("/bin/sh", at("work/bin/give")), false},
		{"script of ours", command("/bin/sh", at("ours/give")), true},
		{"argument with a path in it", command("/bin/sh", "--rcfile="+at("work/bin/give")), false},
		{"path from the root without a slash", command("/bin/sh", strings.TrimPrefix(at("work/bin/give"), "/")), false},
		{"argument that is no path", command("/bin/sh", "-c", "echo printed-value # op://vault/item"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newRig().deps()
			d.Exposed = []string{at("work")}
			s, err := NewSet(t.Context(), []Binding{{"A", []string{"h.example"}, tt.from}}, d)
			if tt.ok {
				must(t, err)
				s.Close()
				return
			}
			refused(t, err, sandbox.CodeCapabilityBlocked, "which code in a sandbox can write")
		})
	}
}
