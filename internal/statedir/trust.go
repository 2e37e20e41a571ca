package statedir

import (
	"io/fs"
	"os"
	"path/filepath"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Trust makes the folder of public certificates that sandboxes are shown, and
// returns its path. It is empty before the first certificate is needed; who
// writes there replaces whole files, so that sandboxes which have it see them.
func (d *Dir) Trust() (string, error) {
	private := d.Egress()
	dir := filepath.Join(private, "trust")
	if fi, err := os.Lstat(dir); err == nil && fi.Mode() == fs.ModeDir|0o755 {
		return dir, nil
	}
	if _, err := MakePrivate(private); err != nil {
		return "", err
	}
	return dir, MakeShown(dir)
}

// MakeShown makes the folder dir, which everybody may read and only we may
// write. A link in its place is refused.
func MakeShown(dir string) error {
	canonical, err := MakePrivate(dir)
	if err != nil {
		return err
	}
	if canonical != dir {
		return &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "write trust folder", Resource: dir,
			Message: dir + " is a link to " + canonical, Hint: "remove the link",
		}
	}
	return Unavailable("write trust folder", dir, os.Chmod(dir, 0o755))
}
