package fstests

import (
	"io/fs"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

func pathChecks() []Check {
	return []Check{
		{"a path outside every mount is blocked", pathsOutside},
		{"a malformed path is refused", pathsMalformed},
		{"dots in a path are resolved inside", pathsDots},
	}
}

func pathsOutside(r *rig) {
	up := strings.Repeat("../", 40)
	for _, path := range []string{
		"/", "/etc/passwd", "/etc/shadow", "/proc/self/environ", "/proc/self/root" + r.dir, "/dev/null", "/sys", "/root", "/.sandbox", "/.sandbox/bin/x",
		"//etc/passwd", "/./etc/passwd", "../etc/passwd", up + "etc/passwd", "a/../../etc/passwd", "..", "./..",
		r.Dir + "/../etc/passwd", r.Dir + "/" + up + "etc/passwd", r.Dir + "/a/../../x", r.Dir + "x", "/x/.." + r.Dir + "/f", "/.." + r.Dir,
	} {
		for _, o := range r.ops() {
			r.fails(o.name+" "+path, o.run(path), sandbox.CodeCapabilityBlocked, fs.ErrPermission)
		}
	}
}

func pathsMalformed(r *rig) {
	for _, path := range []string{
		"", "\x00", r.dir + "/a\x00b", `C:\windows`, "c:/windows", `\\server\share\x`, `\\?\C:\x`, "C:",
		r.dir + "/" + strings.Repeat("n", 256), r.dir + strings.Repeat("/n", 2100),
	} {
		for _, o := range r.ops() {
			r.fails(o.name+" "+brief(path), o.run(path), sandbox.CodeValidation)
		}
	}
	r.debris(r.dir)
}

func pathsDots(r *rig) {
	r.sh(`cd "$1"; mkdir -p a/b c; printf f >c/f; ln -s ../c/ a/link`, r.dir)
	for _, path := range []string{"/c/f", "//c///f", "/./c/./f", "/a/../c/f", "/a/b/../../c/f", "/a/link/f", "/a/link/../c/f", "/c/../c/../c/f"} {
		r.want(r.dir+path, "f")
	}
	// The kernel's meaning, not the text's: a/link/.. is the parent of c.
	r.put(r.dir+"/a/link/../sibling", "x")
	r.want(r.dir+"/sibling", "x")
	for _, o := range r.changingOps() {
		if o.name == "write" || o.name == "create" || o.name == "mkdir" || o.name == "symlink" {
			continue
		}
		if err := o.run(r.dir + "/a/.."); err == nil {
			r.Errorf("%s of a/..: no error", o.name)
		}
	}
	r.want(r.dir+"/c/f", "f")
}
