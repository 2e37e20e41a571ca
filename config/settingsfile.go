// The settingsfile files locate and read the settings file, and detect its
// changes.
//
// Settings decide what a sandbox may do, so a user who can write the file can
// open the sandbox: a file that users other than root and ourselves could have
// written is refused, not read with a warning. Package config, which reads no
// files, interprets the content.

package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// MaxSize bounds a settings file in bytes.
const maxSize = 1 << 20

const op = "read settings"

// A File is what was read.
type settingsfileFile struct {
	Path string // canonical; empty when there is no file and the defaults hold
	Data []byte // nil when there is no file

	seen stamp // of the file before it was read
}

// systemFile holds the settings of users who have none of their own. Packages
// install it.
const systemFile = "/etc/sandbox/sandbox.json"

// locateSettingsfile returns the path of the settings file and whether the user
// named it: the flag, else $SANDBOX_CONFIG, else sandbox/sandbox.json in the user's
// configuration folder, or system where only that is there.
func locateSettingsfile(flag, system string) (path string, named bool, err error) {
	if flag != "" {
		return flag, true, nil
	}
	if p := os.Getenv("SANDBOX_CONFIG"); p != "" {
		return p, true, nil
	}
	dir, err := os.UserConfigDir()
	if err == nil {
		path = filepath.Join(dir, "sandbox", "sandbox.json")
		if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path, false, nil
		}
	}
	if _, err := os.Lstat(system); err == nil {
		return system, false, nil
	}
	if err != nil {
		return "", false, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "no configuration folder is known", Err: err,
			Hint: "set HOME, or name a file with --config or SANDBOX_CONFIG"}
	}
	return path, false, nil
}

// Load reads the settings file; flag is the value of --config, or empty.
//
// A file at the default path may be missing, and that of the system,
// /etc/sandbox/sandbox.json, as well: Load then returns the empty File.
// Otherwise a missing file is [sandbox.CodeValidation], as is one that is not
// a regular file or is larger than [MaxSize]; a file that other users may
// write to is [sandbox.CodePermissionDeny]; one that cannot be read is
// [sandbox.CodeUnavailable].
func Load(flag string) (settingsfileFile, error) {
	path, named, err := locateSettingsfile(flag, systemFile)
	if err != nil {
		// Without a home folder there is no default path, so no file.
		return settingsfileFile{}, nil
	}
	f, err := readSettingsfile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !named && !dangling(path) {
			return settingsfileFile{}, nil
		}
		return settingsfileFile{}, missing(path, false, err)
	}
	return f, err
}

// dangling reports whether path is a link to nothing: the user meant a file to
// be there.
func dangling(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func readSettingsfile(path string) (settingsfileFile, error) {
	canonical, err := filepath.Abs(path)
	if err == nil {
		canonical, err = filepath.EvalSymlinks(canonical)
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return settingsfileFile{}, err
		}
		return settingsfileFile{}, refuse(sandbox.CodeUnavailable, path, "the settings file cannot be found", "check the path", err)
	}
	// Without blocking, or a named pipe would hang us; no link, because the
	// canonical path has none.
	f, err := os.OpenFile(canonical, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return settingsfileFile{}, err
		}
		return settingsfileFile{}, refuse(sandbox.CodeUnavailable, canonical, "the settings file cannot be opened", "make it readable for the user that runs sandbox", err)
	}
	defer f.Close()
	seen, err := check(f, canonical)
	if err != nil {
		return settingsfileFile{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	switch {
	case err != nil:
		return settingsfileFile{}, refuse(sandbox.CodeUnavailable, canonical, "the settings file cannot be read", "", err)
	case len(data) > maxSize:
		return settingsfileFile{}, refuse(sandbox.CodeValidation, canonical, fmt.Sprintf("the settings file is larger than %d bytes", maxSize), "name another file", nil)
	}
	return settingsfileFile{Path: canonical, Data: data, seen: seen}, nil
}

// check refuses a file whose content another user can change. It examines the
// open file, not the path.
func check(f *os.File, path string) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return stamp{}, refuse(sandbox.CodeUnavailable, path, "the settings file cannot be examined", "", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return stamp{}, refuse(sandbox.CodeValidation, path, "the settings are not in a regular file", "name a file", nil)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return stamp{}, refuse(sandbox.CodePermissionDeny, path, fmt.Sprintf("the settings file belongs to uid %d, which could change what sandboxes may do", st.Uid),
			fmt.Sprintf("chown %d %s", os.Geteuid(), path), nil)
	case st.Mode&0o022 != 0:
		return stamp{}, refuse(sandbox.CodePermissionDeny, path, fmt.Sprintf("the settings file can be written by other users (mode %04o)", st.Mode&0o7777),
			"chmod go-w "+path, nil)
	}
	return stampOf(&st), checkFolder(path)
}

// checkFolder refuses a folder in which others could put another file in the
// place of this one.
func checkFolder(path string) error {
	dir := filepath.Dir(path)
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return refuse(sandbox.CodeUnavailable, dir, "the folder of the settings file cannot be examined", "", err)
	}
	switch {
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return refuse(sandbox.CodePermissionDeny, dir, fmt.Sprintf("the folder of the settings file belongs to uid %d, which could exchange the file", st.Uid),
			fmt.Sprintf("chown %d %s", os.Geteuid(), dir), nil)
	case st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
		return refuse(sandbox.CodePermissionDeny, dir, fmt.Sprintf("the folder of the settings file can be written by other users (mode %04o)", st.Mode&0o7777),
			"chmod go-w "+dir, nil)
	}
	return nil
}

func refuse(code sandbox.Code, path, message, hint string, cause error) error {
	return &sandbox.Error{Code: code, Op: op, Resource: path, Message: message + ": " + path, Hint: hint, Err: cause}
}

// SettingsPath returns where the settings file lies or would lie; flag is the value
// of --config, or empty.
func SettingsPath(flag string) (string, error) {
	path, _, err := locateSettingsfile(flag, systemFile)
	return path, err
}

// ReadAgentProfile reads the file of a profile of the user, at an absolute path. Only
// the user and root may be able to write it, as with the settings file. One
// that is not there is [sandbox.CodeNotFound] with the Resource path.
func ReadAgentProfile(path string) (canonical string, data []byte, err error) {
	f, err := readSettingsfile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && dangling(path):
		return "", nil, refuse(sandbox.CodeValidation, path, "the profile is a link to nothing", "remove the link", err)
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, refuse(sandbox.CodeNotFound, path, "there is no such profile", "", nil)
	}
	return f.Path, f.Data, err
}
