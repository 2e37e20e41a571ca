// The script files do file operations in a sandbox with shell scripts.
//
// Every operation is one command, `sh -c SCRIPT sandbox-fs ARGUMENTS`, run
// inside the sandbox with the sandbox's own identity. It needs a POSIX shell
// and the usual utilities of coreutils or busybox, no interpreter and nothing
// of ours. Arguments are never spliced into a script.
//
// Since everything runs inside, a script can do nothing that a command of the
// sandbox could not do as well: mounts, read-only ones included, hold for
// both. On top of that, operations keep to the mount they were asked for:
// a script enters the parent folder physically, compares where it is with
// the mount, and works on a plain name from there, so that links which lead
// out are refused and folders swapped in the middle change nothing.
//
// A shell cannot do everything. What is left: removing a tree with busybox
// follows a folder that is swapped for a link at the wrong moment; a file
// that is swapped for a pipe between check and opening blocks the operation
// until its context ends; times have a resolution of one second; ownership
// by others, attributes and access lists of a replaced file are not kept.

package fsbridge

import (
	"context"
	_ "embed" // the scripts below
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// The scripts. They are never assigned to.
var (
	//go:embed sh/prelude.sh
	preludeScript string
	//go:embed sh/decode.sh
	decodeScript string
	//go:embed sh/place.sh
	placeScript string
	//go:embed sh/probe.sh
	probeScript string
	//go:embed sh/read.sh
	readScript string
	//go:embed sh/write.sh
	writeScript string
	//go:embed sh/cleanup.sh
	cleanupScript string
	//go:embed sh/mkdir.sh
	mkdirScript string
	//go:embed sh/remove.sh
	removeScript string
	//go:embed sh/clear.sh
	clearScript string
	//go:embed sh/rename.sh
	renameScript string
	//go:embed sh/stat.sh
	statScript string
	//go:embed sh/readdir.sh
	readdirScript string
	//go:embed sh/readlink.sh
	readlinkScript string
	//go:embed sh/symlink.sh
	symlinkScript string
)

// A Starter starts commands in a sandbox; every [sandbox.Sandbox] is one.
type scriptStarter interface {
	Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error)
}

// Files serves the files of one sandbox. Paths are absolute ones inside. It
// is safe for concurrent use; each operation is a process of its own.
type scriptFiles struct {
	starter scriptStarter
	table   *MountTable
	durable bool
	plain   bool // no link is followed
	strict  bool // what is not durable is not written
}

var (
	_ sandbox.Files       = (*scriptFiles)(nil)
	_ sandbox.LinkRefuser = (*scriptFiles)(nil)
	_ sandbox.Clearer     = (*scriptFiles)(nil)
)

// Open looks which utilities the sandbox has. When one is missing it returns
// an error with [sandbox.CodeUnsupported] that names it.
func openScript(ctx context.Context, s scriptStarter, table *MountTable) (*scriptFiles, error) {
	f := &scriptFiles{starter: s, table: table}
	out := &boundedBuffer{max: 4 << 10}
	if err := f.run(ctx, call{op: "open files", script: probeScript, stdout: out}); err != nil {
		return nil, err
	}
	var missing []string
	ended := false
	for line := range strings.Lines(out.String()) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "durable":
			f.durable = true
		case line == "end":
			ended = true
		case strings.HasPrefix(line, "missing "):
			missing = append(missing, strings.TrimPrefix(line, "missing "))
		}
	}
	if !ended {
		return nil, confused("open files", "", "the probe gave no complete answer")
	}
	if len(missing) > 0 {
		return nil, &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "open files",
			Message: "the sandbox has no " + safeText(strings.Join(missing, ", ")),
			Hint:    "use an image with coreutils and findutils, or with busybox",
		}
	}
	return f, nil
}

// OnlyDurable returns a view that refuses to write, with
// [sandbox.CodeUnsupported], where a write would not be durable.
func (f *scriptFiles) OnlyDurable() *scriptFiles {
	view := *f
	view.strict = true
	return &view
}

// WithoutLinks implements [sandbox.LinkRefuser]. After a script has entered a
// folder, and after it has opened a file to read it, it compares the kernel's name
// of that with the path it was given: code inside that swaps a folder for a link
// meanwhile gains nothing. The sandbox needs a /proc.
func (f *scriptFiles) WithoutLinks() (sandbox.Files, error) {
	view := *f
	view.plain = true
	return &view, nil
}

// mode is what scripts begin with, before the arguments are looked at.
func (f *scriptFiles) mode() string {
	if f.plain {
		return plainMode
	}
	return ""
}

// plainMode has scripts follow no link.
const plainMode = "plain=1\n"

// Durable reports whether a write has reached the disk when it returns. It
// has not where the sandbox's sync cannot take a file.
func (f *scriptFiles) Durable() bool { return f.durable }
