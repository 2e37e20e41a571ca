package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

func settingsFile(_ context.Context, e *examination) finding {
	s, err := e.settings()
	switch {
	case errors.Is(err, errNotAsked):
		return warn("", "%v", err)
	case err != nil:
		return fail("correct the file; sandbox config schema shows what is allowed", "%v", err)
	case s.Path == "":
		return ok("no settings file: the defaults hold")
	}
	return ok("%s", s.Path)
}

func breakGlass(_ context.Context, e *examination) finding {
	s, err := e.settings()
	if err != nil {
		return warn("", "not known: the settings cannot be read")
	}
	if dangers := slices.Concat(s.Dangerous, s.Browser.dangers()); len(dangers) > 0 {
		return warn("remove them from the settings as soon as they are not needed", "in force: %s", strings.Join(dangers, ", "))
	}
	return ok("no switch is in force")
}

func workspaceQuota(_ context.Context, e *examination) finding {
	s, err := e.settings()
	switch {
	case err != nil:
		return warn("", "not known: the settings cannot be read")
	case s.WorkspaceQuota <= 0:
		return warn(`set "workspaceQuota", or put "workspaceRoot" on a file system of its own`, "workspaces are unbounded: code inside can fill the disk that they lie on")
	}
	return ok("%s for each workspace", size(s.WorkspaceQuota))
}

// stateFolder looks at the folder as it is and does not make it.
func stateFolder(_ context.Context, e *examination) finding {
	dir := e.StateDir
	if dir == "" {
		return fail("name a folder with --state-dir or SANDBOX_STATE_DIR", "no state folder is known")
	}
	fi, err := e.Host.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ok("%s is made when it is needed", dir)
	case err != nil:
		return fail("make it accessible, or choose another with --state-dir", "%v", err)
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		return warn("name the folder itself with --state-dir", "%s is a link", dir)
	}
	uid, known := e.Host.Owner(fi)
	mode := fi.Mode().Perm()
	switch {
	case !fi.IsDir():
		return fail("move it away, or choose another with --state-dir", "%s is not a folder", dir)
	case known && uid != e.Host.UID:
		return fail("run as its owner, or choose another with --state-dir", "%s belongs to uid %d, we are uid %d", dir, uid, e.Host.UID)
	case mode&0o022 != 0:
		return fail("chmod go-w "+dir, "%s can be written by other users (mode %04o)", dir, mode)
	case e.Host.Writable(dir) != nil:
		return fail("chmod u+rwx "+dir+", or mount its file system writable", "%s cannot be written to", dir)
	case mode&0o077 != 0:
		return warn("chmod 700 "+dir, "%s can be entered by other users (mode %04o)", dir, mode)
	}
	return ok("%s, mode %04o", dir, mode)
}

// stateFormat says which format the folder had before the checks.
func stateFormat(_ context.Context, e *examination) finding {
	if e.StateDir == "" {
		return warn("", "no state folder is known")
	}
	l, err := e.layout()
	if err == nil {
		err = l.Refuse(e.StateDir)
	}
	var known *sandbox.Error
	by := ""
	if l.Version != "" {
		by = ", by version " + strconv.QuoteToASCII(l.Version)
	}
	switch {
	case errors.As(err, &known):
		return fail(known.Hint, "%s", known.Message)
	case err != nil:
		return fail("make it accessible, or choose another with --state-dir", "%v", err)
	case l.Format == 0:
		return ok("format %d, when the folder is made", statedir.Format)
	case l.Format < statedir.Format:
		return ok("format %d%s; the next command brings it to format %d and keeps a backup, see docs/upgrades.md", l.Format, by, statedir.Format)
	}
	return ok("format %d%s", l.Format, by)
}

func stateDisk(_ context.Context, e *examination) finding {
	dir := e.StateDir
	if dir == "" {
		return warn("", "no state folder is known")
	}
	for { // a folder that does not exist yet will lie on its parent's disk
		_, err := e.Host.Lstat(dir)
		parent := filepath.Dir(dir)
		if err == nil || parent == dir {
			break
		}
		dir = parent
	}
	return diskFinding(e.Host, dir)
}

// Bounds of free space.
const (
	littleSpace  = 1 << 30 // bytes
	noSpace      = 64 << 20
	littleInodes = 10_000
)

// diskFinding judges the disk that dir lies on.
func diskFinding(h Host, dir string) finding {
	d, err := h.Disk(dir)
	if err != nil {
		return fail("make it accessible", "%s: %v", dir, err)
	}
	kind := d.Type
	if kind == "" {
		kind = "unknown file system"
	}
	seen := fmt.Sprintf("%s on %s: %s of %s free", dir, kind, size(d.Free), size(d.Total))
	switch {
	case d.ReadOnly:
		return fail("mount it writable", "%s, read-only", seen)
	case d.Free < noSpace:
		return fail("free space: sandbox prune --workspaces, docker system prune", "%s", seen)
	case d.Inodes > 0 && d.FreeInodes == 0:
		return fail("remove files: the file system can hold no more of them", "%s, no inode free", seen)
	case d.Free < littleSpace:
		return warn("free space: sandbox prune --workspaces, docker system prune", "%s", seen)
	case d.Inodes > 0 && d.FreeInodes < littleInodes:
		return warn("remove files: the file system can hold few more of them", "%s, %d inodes", seen, d.FreeInodes)
	}
	switch d.Type {
	case "tmpfs", "ramfs":
		return warn("choose a folder on a disk", "%s; what lies there is gone with the next boot", seen)
	case "nfs", "smb", "9p", "fuse", "vfat":
		return warn("choose a folder on a local disk", "%s; locks and owners are not reliable there", seen)
	}
	return ok("%s", seen)
}

func leftovers(ctx context.Context, e *examination) finding {
	if e.Leftovers == nil {
		return warn("", "%v", errNotAsked)
	}
	l, err := e.Leftovers(ctx)
	if err != nil {
		if sandbox.CodeOf(err) == sandbox.CodeUnavailable {
			return unknown()
		}
		return warn("", "not known: %v", err)
	}
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"containers without record", l.Orphans}, {"records without container", l.Missing}, {"damaged records", l.Corrupt}} {
		if len(p.names) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", len(p.names), p.what, some(p.names)))
		}
	}
	if len(parts) == 0 {
		return ok("nothing is left behind")
	}
	var fixes []string
	if len(l.Orphans)+len(l.Missing) > 0 {
		fixes = append(fixes, "sandbox prune")
	}
	if len(l.Corrupt) > 0 {
		fixes = append(fixes, "rm -- "+strings.Join(quotedAll(l.Corrupt), " "))
	}
	return warn(strings.Join(fixes, " && "), "%s", strings.Join(parts, ", "))
}

// quotedAll are texts as a shell takes them.
func quotedAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return out
}

func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", …"
}

func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
