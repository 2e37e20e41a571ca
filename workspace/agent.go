package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/statedir"
	"golang.org/x/sys/unix"
)

// EnsureAgent makes the agent's folder dir when it is missing, with its
// parents, and returns its canonical path. For the accesses none and ro
// nothing else about it matters here.
//
// With rw the folder is the workspace, and the sandbox runs as the folder's
// own user, so that people and sandbox can both work in it: that user is
// returned, not scope. A folder that was made just now is given to scope, the
// owner that the sandbox would have otherwise. A folder that belongs to root
// is refused: no sandbox runs as root, and taking an existing folder away
// from its owner is the operator's decision. So is, without root, a folder
// that belongs to another user.
func EnsureAgent(dir string, access sandbox.Access, scope Owner) (string, Owner, error) {
	made, err := makeAgent(dir)
	if err != nil {
		return "", Owner{}, err
	}
	canonical, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", Owner{}, statedir.Unavailable("open agent folder", dir, err)
	}
	if access != sandbox.AccessRW {
		return canonical, scope, nil
	}
	if err := scope.check(); err != nil {
		return "", Owner{}, err
	}
	f, err := os.OpenFile(canonical, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", Owner{}, statedir.Unavailable("open agent folder", canonical, err)
	}
	defer f.Close()
	if made && os.Geteuid() == 0 {
		if err := f.Chown(scope.UID, scope.GID); err != nil {
			return "", Owner{}, chownError(canonical, scope, err)
		}
		return canonical, scope, nil
	}
	owner, err := AgentOwner(f, scope)
	return canonical, owner, err
}

// makeAgent reports whether it made the folder itself. Of two processes at
// once one makes it.
func makeAgent(dir string) (bool, error) {
	if !filepath.IsAbs(dir) {
		return false, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "open agent folder", Field: "agents.list[].workspace", Resource: dir,
			Message: fmt.Sprintf("%q is not an absolute path", dir),
		}
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
		return false, statedir.Unavailable("make agent folder", dir, err)
	}
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		return true, nil
	}
	if fi, serr := os.Stat(dir); serr == nil && !fi.IsDir() {
		return false, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "open agent folder", Field: "agents.list[].workspace", Resource: dir,
			Message: dir + " is not a folder",
		}
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, statedir.Unavailable("make agent folder", dir, err)
	}
	return false, nil
}

// AgentOwner returns whom a sandbox with rw access to the open folder runs
// as, or why that cannot be. It changes nothing, so that the answer can be
// shown beforehand.
func AgentOwner(folder *os.File, scope Owner) (Owner, error) {
	fi, err := folder.Stat()
	if err != nil {
		return Owner{}, statedir.Unavailable("open agent folder", folder.Name(), err)
	}
	return agentOwner(folder.Name(), fi, scope, os.Geteuid())
}

func agentOwner(path string, fi fs.FileInfo, scope Owner, euid int) (Owner, error) {
	uid, gid := ownerOf(fi)
	refuse := func(message string) error {
		return &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "open agent folder", Field: "agents.list[].workspace", Resource: path,
			Message: path + " " + message,
			Hint:    chownCommand(scope, path),
		}
	}
	switch {
	case uid == 0:
		return Owner{}, refuse("belongs to root, and a sandbox that writes to it would have to run as root, which none does")
	case euid != 0 && uid != euid:
		return Owner{}, refuse(fmt.Sprintf("belongs to uid %d, and only root can run a sandbox as another user", uid))
	case gid == 0:
		gid = uid
	}
	return Owner{uid, gid}, nil
}

// chownCommand returns the shell command that gives path to o.
func chownCommand(o Owner, path string) string {
	odd := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,", r)
	}
	if strings.ContainsFunc(path, odd) {
		path = "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return fmt.Sprintf("sudo chown -R %d:%d %s", o.UID, o.GID, path)
}
