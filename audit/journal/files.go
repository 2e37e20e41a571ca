package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	fileSuffix = ".jsonl"
	fileDigits = 10
	nextName   = "next.tmp" // a file that is being made
	lockName   = "lock"
	asideMark  = ".aside-"
)

// fileName returns the name of the file with that number.
func fileName(number uint64) string {
	digits := strconv.FormatUint(number, 10)
	return strings.Repeat("0", max(0, fileDigits-len(digits))) + digits + fileSuffix
}

// fileNumber is the reverse of fileName.
func fileNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, fileSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0 && fileName(n) == name
}

// list returns the numbers of the files in dir, in order, and the names that
// do not belong there.
func list(dir string) (numbers []uint64, strangers []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, e := range entries {
		n, ok := fileNumber(e.Name())
		switch {
		case ok:
			numbers = append(numbers, n)
		case e.Name() != headName && e.Name() != lockName && e.Name() != nextName:
			strangers = append(strangers, e.Name())
		}
	}
	slices.Sort(numbers)
	return numbers, strangers, nil
}

// moveAside gives what lies at path another name, for a person to look at.
func moveAside(path string) error {
	return os.Rename(path, path+asideMark+strconv.FormatInt(time.Now().UnixNano(), 10))
}

// publish renames the file nextName to the name of the file with that number,
// in one step. An existing file of that name is not part of the journal, and is
// moved aside.
func publish(dir string, number uint64) error {
	from, to := filepath.Join(dir, nextName), filepath.Join(dir, fileName(number))
	err := os.Link(from, to)
	if errors.Is(err, fs.ErrExist) {
		if err = moveAside(to); err == nil {
			err = os.Link(from, to)
		}
	}
	return errors.Join(err, os.Remove(from))
}

// createNext makes the file nextName, instead of one that a crash has left.
func createNext(dir string) (*os.File, error) {
	path := filepath.Join(dir, nextName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return openRegular(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND)
}

// dropOlder removes the files before the oldest that belongs to the journal.
// The next rotation retries files that cannot be removed; until then readers
// skip them.
func dropOlder(dir string, oldest uint64) error {
	numbers, _, err := list(dir)
	for _, n := range numbers {
		if n < oldest {
			err = errors.Join(err, os.Remove(filepath.Join(dir, fileName(n))))
		}
	}
	return err
}

// syncFile brings what was written to the file at path onto the disk. One that
// is gone has nothing to bring.
func syncFile(path string) error {
	f, err := openRegular(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
