package fsbridge

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// maxListing bounds what one listing may send, in bytes: about half a
// million entries with names of usual length.
const maxListing = 32 << 20

// recordEnd ends a record of a listing. A name has no slash, so nothing in
// it can be taken for the end.
const recordEnd = "//\n"

// Stat returns what is known of path. A link is followed as long as it stays
// in its mount. The time has a resolution of one second.
func (f *scriptFiles) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return f.stat(ctx, "stat", path, true)
}

// Lstat is like Stat and describes a link itself.
func (f *scriptFiles) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	return f.stat(ctx, "lstat", path, false)
}

func (f *scriptFiles) stat(ctx context.Context, op, name string, follow bool) (fs.FileInfo, error) {
	out := &boundedBuffer{max: 1 << 10}
	if err := f.at(ctx, op, name, statScript, out, flag(follow)); err != nil {
		return nil, err
	}
	record, ok := strings.CutSuffix(out.String(), recordEnd)
	if !ok {
		return nil, confused(op, name, "stat gave no complete answer")
	}
	i, ok := parseRecord(record, path.Base(name))
	if !ok || i.entry {
		return nil, confused(op, name, "stat gave a strange answer")
	}
	return i.Info, nil
}

// ReadDir lists the folder at path, sorted by name. The entries describe
// links themselves. It returns [sandbox.CodeBudgetExceeded] for a folder
// whose listing is larger than 32 MiB.
func (f *scriptFiles) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	p, err := f.table.Inside(path)
	if err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &boundedBuffer{max: maxListing, full: cancel}
	stderr := &tail{}
	err = f.run(inner, call{
		op: "readdir", path: path, script: readdirScript, stdout: out, complaints: stderr,
		args: []string{p.Root.Target, p.Rel},
	})
	if out.exceeded() {
		return nil, &sandbox.Error{
			Code: sandbox.CodeBudgetExceeded, Op: "readdir", Field: "path", Resource: termsafe.Line(path),
			Message: termsafe.Line(path) + " has too many entries to list", Err: errTooMuch,
		}
	}
	if err != nil {
		return nil, err
	}
	infos, status, err := parseListing(out.String())
	if err != nil {
		return nil, confused("readdir", path, err.Error())
	}
	if status != 0 && !onlyVanished(stderr.String()) {
		return nil, explain(call{op: "readdir", path: path}, sandbox.Exit{Code: status}, stderr.String())
	}
	return Entries(infos), nil
}

// onlyVanished reports whether all complaints are about entries that went
// away between listing and looking.
func onlyVanished(stderr string) bool {
	for line := range strings.Lines(stderr) {
		if !errors.Is(NewError("", "", textErrno(line)), fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// parseListing reads the answer of readdir.sh: records and the status of
// find. It comes from inside and may be anything.
func parseListing(text string) (infos []Info, status int, err error) {
	for {
		record, rest, ok := strings.Cut(text, recordEnd)
		if !ok {
			break
		}
		text = rest
		i, ok := parseRecord(record, "")
		if !ok || !i.entry {
			return nil, 0, errors.New("the listing has a strange entry")
		}
		infos = append(infos, i.Info)
	}
	number, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), "end ")
	status, convErr := strconv.Atoi(number)
	if !ok || convErr != nil || status < 0 {
		return nil, 0, errors.New("the listing is not complete")
	}
	return Sort(infos), status, nil
}

// A record describes one file: an entry of a folder, or the thing itself.
type record struct {
	Info
	entry bool
}

// parseRecord reads "MODE SIZE TIME NAME": hexadecimal st_mode, bytes,
// seconds since 1970, and ./NAME for an entry, or . for the thing itself,
// which is called self.
func parseRecord(text, self string) (record, bool) {
	fields := strings.SplitN(text, " ", 4)
	if len(fields) != 4 {
		return record{}, false
	}
	mode, err1 := strconv.ParseUint(fields[0], 16, 32)
	size, err2 := strconv.ParseInt(fields[1], 10, 64)
	seconds, err3 := strconv.ParseInt(fields[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || size < 0 {
		return record{}, false
	}
	name, entry := strings.CutPrefix(fields[3], "./")
	switch {
	case fields[3] == ".":
		name = self
	case !entry, !IsName(name):
		return record{}, false
	}
	return record{NewInfo(name, uint32(mode), size, time.Unix(seconds, 0)), entry}, true
}
