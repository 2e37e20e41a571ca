package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// Format is the number of the layout of a state folder that this program reads and
// writes. A folder of a lower number is migrated when it is opened, one step for
// each number; a folder of a higher number is refused and not changed.
//
// The number goes up when a program that knows only the number before would lose or
// misread what is written. What such a program passes over leaves the number as it is.
const Format = 2

const (
	formatFile = "format"
	formatLock = "format.lock"
	// firstFormat is that of folders without the file, which programs made before
	// there was one.
	firstFormat = 1
	maxFormat   = 4 << 10 // bytes of the file

	formatRetry = 10 * time.Millisecond
)

// A Layout is what the file "format" of a state folder says.
type Layout struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // of the program that gave the folder this format; empty where that is not known
}

// A migration brings a folder from the format below to its own.
type migration struct {
	to int
	// saves are the files and folders that run changes, relative to the state folder.
	// They are copied before it; see [backupOf].
	saves []string
	// run may be killed anywhere, and is then called again on what it has left.
	run func(dir string) error
}

// formats are what a program knows of formats.
type formats struct {
	knows int         // the highest
	steps []migration // in order, one for each format after the first
	// users is how long programs that use the folder are waited for before it is
	// migrated, and other how long the migration by another program is.
	users, other time.Duration
}

func ourFormats() formats {
	return formats{
		knows: Format, users: 10 * time.Second, other: 2 * time.Minute,
		steps: []migration{{to: 2, saves: []string{instanceFile, registryDir}, run: dropTemporaries}},
	}
}

// ReadLayout returns the layout of the state folder dir without making or changing
// anything. A folder without a file "format" has format 1, or none, which is 0, where
// it holds nothing of a state folder.
func ReadLayout(dir string) (Layout, error) {
	path := filepath.Join(dir, formatFile)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{instanceFile, registryDir} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				return Layout{Format: firstFormat}, nil
			}
		}
		return Layout{}, nil
	}
	if err != nil {
		return Layout{}, Unavailable("read format", path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFormat+1))
	if err != nil {
		return Layout{}, Unavailable("read format", path, err)
	}
	var l Layout
	if err := json.Unmarshal(data, &l); err != nil || len(data) > maxFormat || l.Format < firstFormat {
		return Layout{}, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "read format", Resource: path, Message: path + " does not say which format the state folder has",
			Hint: fmt.Sprintf(`if no newer version has used the folder, remove the file: the folder is then migrated from format %d`, firstFormat), Err: err,
		}
	}
	return l, nil
}

// Refuse returns an error if the folder dir of layout l is too new for this program.
func (l Layout) Refuse(dir string) error { return l.refuse(dir, Format) }

func (l Layout) refuse(dir string, knows int) error {
	if l.Format <= knows {
		return nil
	}
	by := "a newer version of sandbox"
	if l.Version != "" {
		by = "version " + strconv.QuoteToASCII(l.Version)
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: "open state folder", Resource: dir,
		Message: fmt.Sprintf("%s has format %d, written by %s, and this program (version %q) knows formats up to %d", dir, l.Format, by, version(), knows),
		Hint:    fmt.Sprintf("use %s or a later one, name another folder with --state-dir, or restore the backup as docs/upgrades.md says", by),
	}
}

// version is that of this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		if v := strings.Trim(info.Main.Version, "()"); v != "" {
			return v
		}
	}
	return "unknown"
}

// settle makes the folder dir have the format of the last step, and returns a file
// whose lock says that a program uses the folder in that format. As long as it is open
// no other program changes the format. It is nil on a file system that is read-only,
// where none can.
//
// A folder that is new gets the format at once. One of a lower format is migrated by
// one program, when no other uses it; one of a higher format is refused.
func (f formats) settle(dir string) (*os.File, error) {
	l, err := ReadLayout(dir)
	if err != nil {
		return nil, err
	}
	if err := l.refuse(dir, f.knows); err != nil { // before anything is made
		return nil, err
	}
	path := filepath.Join(dir, formatLock)
	lock, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil && l.Format == f.knows && (errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission)) {
		return nil, nil
	}
	if err != nil {
		return nil, Unavailable("open state folder", path, err)
	}
	if err := f.settleLocked(lock, dir); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// settleLocked is settle with the file of the lock. Without an error it holds the lock
// shared.
func (f formats) settleLocked(lock *os.File, dir string) error {
	for {
		if err := flockWithin(lock, unix.LOCK_SH, f.other); err != nil {
			return errFormatBusy(dir, "another program migrates it", err)
		}
		l, err := ReadLayout(dir)
		if err == nil {
			err = l.refuse(dir, f.knows)
		}
		if err != nil || l.Format == f.knows {
			return err
		}
		if l.Format == 0 {
			if err := writeLayout(dir, f.knows); err != nil {
				return err
			}
			continue
		}
		// Turning one lock into the other is no single step: another program may
		// have migrated the folder in between, so its format is read again.
		if err := flockWithin(lock, unix.LOCK_EX, f.users); err != nil {
			return errFormatBusy(dir, fmt.Sprintf("it has format %d, and programs use it that know no later one", l.Format), err)
		}
		if l, err = ReadLayout(dir); err != nil {
			return err
		}
		if l.Format < f.knows {
			if err := migrate(dir, l.Format, f.steps); err != nil {
				return err
			}
		}
	}
}

// flockWithin takes a lock, or returns [unix.EWOULDBLOCK] when that takes too long.
func flockWithin(f *os.File, how int, within time.Duration) error {
	for end := time.Now().Add(within); ; time.Sleep(formatRetry) {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EINTR) && (!errors.Is(err, unix.EWOULDBLOCK) || !time.Now().Before(end)) {
			return err
		}
	}
}

func errFormatBusy(dir, why string, err error) error {
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return Unavailable("migrate state folder", dir, err)
	}
	return &sandbox.Error{
		Code: sandbox.CodeBusy, Op: "migrate state folder", Resource: dir, Message: dir + " cannot be brought to the format of this program: " + why,
		Hint: "end the programs that use the folder, such as \"sandbox serve\" or the service sandboxd, and try again", Retryable: true, Err: err,
	}
}

// migrate runs the steps from the format have. The caller holds the lock alone. Each
// step ends with the file "format"; a program that is killed before leaves the format
// that there was, and the next program runs the step again.
func migrate(dir string, have int, steps []migration) error {
	for _, s := range steps {
		if s.to <= have {
			continue
		}
		if err := saveFormat(dir, s.to-1, s.saves); err != nil {
			return Unavailable("migrate state folder", backupOf(dir, s.to-1), err)
		}
		if err := s.run(dir); err != nil {
			return Unavailable("migrate state folder", dir, err)
		}
		if err := writeLayout(dir, s.to); err != nil {
			return err
		}
	}
	return nil
}

// writeLayout replaces the file "format" as a whole.
func writeLayout(dir string, format int) error {
	data, err := json.Marshal(Layout{Format: format, Version: version()})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, formatFile)
	if err := renameio.WriteFile(path, append(data, '\n'), 0o600, renameio.WithTempDir(dir), renameio.WithStaticPermissions(0o600)); err != nil {
		return Unavailable("write format", path, err)
	}
	return Unavailable("write format", path, SyncDir(dir))
}

// backupOf returns the folder with what a state folder held in a lower format.
func backupOf(dir string, format int) string {
	return filepath.Join(dir, "backup-format-"+strconv.Itoa(format))
}

// saveFormat copies files and folders of the state folder, with the file "format", into
// the backup of its format. The backup has its name once it is complete, and then stays
// as it is: a step that runs again must not put what it has half changed in its place.
func saveFormat(dir string, format int, names []string) error {
	target := backupOf(dir, format)
	making := target + ".new"
	if err := os.RemoveAll(making); err != nil {
		return err
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(making, 0o700); err != nil {
		return err
	}
	for _, name := range append([]string{formatFile}, names...) {
		if err := copyTree(filepath.Join(dir, name), filepath.Join(making, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(making, target); err != nil {
		return err
	}
	return SyncDir(dir)
}

// copyTree copies folders and regular files with their modes and times. There are
// no others in a state folder that a step changes; what another user has made of one
// is left out. A file that goes away meanwhile is left out too.
func copyTree(from, to string) error {
	fi, err := os.Lstat(from)
	if err != nil {
		return err
	}
	switch {
	case fi.IsDir():
		entries, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		if err := os.Mkdir(to, fi.Mode().Perm()); err != nil {
			return err
		}
		for _, e := range entries {
			if err := copyTree(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return SyncDir(to)
	case !fi.Mode().IsRegular():
		return nil
	}
	in, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fi.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Sync(), out.Close())
	if err != nil {
		return err
	}
	return os.Chtimes(to, time.Time{}, fi.ModTime())
}

// dropTemporaries removes what programs of format 1 that were killed have left at the
// top of the folder: the unfinished instance ids, which no later program looks for.
func dropTemporaries(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".instance-") {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
