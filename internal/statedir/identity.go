package statedir

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/google/renameio/v2"
)

// Identity returns the paths of a minimal passwd and group file for the
// given ids. They are mounted over the image's own, so that tools inside can
// name their user and learn nothing of other users. The files depend on the
// ids alone and, once written, are replaced only if their content is not
// what it must be: a mounted file keeps its old inode. Ids below 1 are
// refused, as no sandbox runs as root.
func (d *Dir) Identity(uid, gid int) (passwd, group string, err error) {
	if uid < 1 || gid < 1 {
		return "", "", sandbox.Errorf(sandbox.CodeValidation, "make identity", "uid %d and gid %d must be above 0", uid, gid)
	}
	passwd, group = d.IdentityPaths(uid, gid)
	dir := filepath.Dir(passwd)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", Unavailable("make identity", dir, err)
	}
	// The line of the sandbox's own user comes before that of the unprivileged
	// user (65534): the first match wins when both have the same number.
	if err := ensureContent(passwd, fmt.Sprintf(
		"root:x:0:0:root:/:/usr/sbin/nologin\n"+
			"sandbox:x:%d:%d:sandbox:%s:/bin/bash\n"+
			"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", uid, gid, sandbox.HomeDir)); err != nil {
		return "", "", err
	}
	if err := ensureContent(group, fmt.Sprintf("root:x:0:\nsandbox:x:%d:\nnogroup:x:65534:\n", gid)); err != nil {
		return "", "", err
	}
	return passwd, group, nil
}

// IdentityPaths returns where the files of Identity lie, whether they exist or
// not.
func (d *Dir) IdentityPaths(uid, gid int) (passwd, group string) {
	dir := filepath.Join(d.path, identityDir, strconv.Itoa(uid)+"-"+strconv.Itoa(gid))
	return filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
}

// ensureContent makes path a file of mode 0644 that holds content.
func ensureContent(path, content string) error {
	if fi, err := os.Lstat(path); err == nil && fi.Mode() == 0o644 && fi.Size() == int64(len(content)) {
		if have, err := os.ReadFile(path); err == nil && string(have) == content {
			return nil
		}
	}
	err := renameio.WriteFile(path, []byte(content), 0o644,
		renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o644))
	return Unavailable("make identity", path, err)
}
