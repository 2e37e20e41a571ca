package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// EnsureAllowedAgent makes the agent's folder dir when it is missing, with its
// parents, and returns its canonical path. For the accesses none and ro
// nothing else about it matters here. For private the folder stays as it is, and
// the owner that [ViewOwner] names is returned.
//
// With rw the folder is the workspace, and the sandbox runs as the folder's
// own user, so that people and sandbox can both work in it: that user is
// returned, not scope. A folder that was made just now is given to scope, the
// owner that the sandbox would have otherwise. No sandbox runs as root, and taking an
// existing folder away from its owner is the operator's decision: for a folder of
// root, root gets scope, and has to show it the folder by [Map]. Without root, a
// folder that belongs to another user is refused.
//
// allow, unless it is nil, is called with the canonical path that dir leads
// to, before anything is made or given away, and its error ends the call. An
// error without a code of its own becomes [sandbox.CodeCapabilityBlocked].
//
// The folder is then reached and made along that very path without following
// any link: one that is put in the way meanwhile is refused.
func EnsureAllowedAgent(dir string, access sandbox.Access, scope Owner, allow func(canonical string) error) (string, Owner, error) {
	if !filepath.IsAbs(dir) {
		return "", Owner{}, agentError(sandbox.CodeValidation, dir, fmt.Sprintf("%q is not an absolute path", dir))
	}
	canonical, err := hostpath.Canonical(dir)
	if err != nil {
		return "", Owner{}, err
	}
	if allow != nil {
		if err := allow(canonical); err != nil {
			return "", Owner{}, blocked(canonical, err)
		}
	}
	rw := access == sandbox.AccessRW
	if rw {
		if err := scope.check(); err != nil {
			return "", Owner{}, err
		}
	}
	f, made, err := makeFolder(canonical, rw)
	if err != nil {
		return "", Owner{}, err
	}
	defer f.Close()
	if access == sandbox.AccessPrivate && !made {
		owner, err := ViewOwner(f, scope)
		return canonical, owner, err
	}
	if !rw {
		return canonical, scope, nil
	}
	if made && os.Geteuid() == 0 {
		if err := f.Chown(scope.UID, scope.GID); err != nil {
			return "", Owner{}, chownError(canonical, scope, err)
		}
		return canonical, scope, nil
	}
	owner, err := AgentOwner(f, scope)
	return canonical, owner, err
}

func blocked(path string, err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return err
	}
	e = agentError(sandbox.CodeCapabilityBlocked, path, path+" is refused")
	e.Err = err
	return e
}

func agentError(code sandbox.Code, path, message string) *sandbox.Error {
	return &sandbox.Error{
		Code: code, Op: "open agent folder", Field: "agents.list[].workspace", Resource: path, Message: message,
	}
}

// AgentOwner returns whom a sandbox with rw access to the open folder runs
// as, or why that cannot be; see [EnsureAllowedAgent] for a folder of root. It changes nothing, so that the answer can be
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
	case uid == 0 && euid == 0:
		return scope, scope.check()
	case uid == 0:
		return Owner{}, refuse("belongs to root, and only root can show it to a sandbox")
	case euid != 0 && uid != euid:
		return Owner{}, refuse(fmt.Sprintf("belongs to uid %d, and only root can run a sandbox as another user", uid))
	case gid == 0:
		gid = uid
	}
	return Owner{uid, gid}, nil
}

// ViewOwner returns whom a sandbox with a private view of the open folder runs
// as: the owner of the folder where this process can run one as that user, so
// that the sandbox reads what the owner reads. No sandbox runs as root, and
// without root none runs as another user: then it is scope, to whom the view gives
// the files.
func ViewOwner(folder *os.File, scope Owner) (Owner, error) {
	fi, err := folder.Stat()
	if err != nil {
		return Owner{}, statedir.Unavailable("open agent folder", folder.Name(), err)
	}
	owner, err := agentOwner(folder.Name(), fi, scope, os.Geteuid())
	if err != nil {
		return scope, scope.check()
	}
	return owner, nil
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
