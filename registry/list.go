package registry

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"golang.org/x/sync/errgroup"
)

// staleTemp is the age at which a temporary file counts as left over by a
// process that was killed.
const staleTemp = time.Hour

// A Problem is a record that could not be read.
type Problem struct {
	Kind     sandbox.Kind
	Name     string
	Path     string
	SetAside string // where the file was moved; empty if it stayed
	Err      error  // of type *sandbox.Error
}

// List returns the records of the given kind, or of every kind when it is
// empty, ordered by name and without their Specs. Beside them it returns
// those that could not be read. The error is that of the folder itself, or of type
// *[Unanswered]: what is returned then lacks the records of these providers alone.
func (s *Store) List(kind sandbox.Kind) ([]Record, []Problem, error) {
	kinds := []sandbox.Kind{sandbox.KindSandbox, sandbox.KindBrowser} // one for each folder
	if kind != "" {
		kinds = []sandbox.Kind{kind}
	}
	var records []Record
	var problems []Problem
	for _, k := range kinds {
		if _, elsewhere := s.in(); elsewhere {
			break
		}
		r, p, err := s.listFolder(k)
		if err != nil {
			return nil, nil, err
		}
		records, problems = append(records, r...), append(problems, p...)
	}
	unanswered := map[string]error{}
	for provider, docs := range s.elsewhere {
		if s.provider != "" && s.provider != provider {
			continue
		}
		r, p, err := in{docs, provider}.list(kinds)
		if err != nil {
			unanswered[provider] = err
			continue
		}
		records, problems = append(records, r...), append(problems, p...)
	}
	if kind != "" {
		records = slices.DeleteFunc(records, func(r Record) bool { return r.Kind != kind })
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Provider, b.Provider)) })
	if len(unanswered) > 0 {
		return records, problems, &Unanswered{unanswered}
	}
	return records, problems, nil
}

func (s *Store) listFolder(kind sandbox.Kind) ([]Record, []Problem, error) {
	sub, err := kindDir(kind)
	if err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(s.root, sub)
	names, err := recordNames(dir)
	if err != nil {
		return nil, nil, statedir.Unavailable("list records", dir, err)
	}
	found := make([]*Record, len(names))
	failed := make([]*Problem, len(names))
	var g errgroup.Group
	g.SetLimit(2 * runtime.GOMAXPROCS(0))
	const batch = 64 // a record is read in some 20 µs, too little for a goroutine of its own
	for start := 0; start < len(names); start += batch {
		g.Go(func() error {
			for i := start; i < min(start+batch, len(names)); i++ {
				name, _, _ := strings.Cut(names[i], "@")
				found[i], failed[i] = s.load(filepath.Join(dir, names[i]+".json"), name, kind)
			}
			return nil
		})
	}
	_ = g.Wait()
	var records []Record
	var problems []Problem
	for i := range names {
		if found[i] != nil {
			records = append(records, *found[i])
		}
		if failed[i] != nil {
			problems = append(problems, *failed[i])
		}
	}
	return records, problems, nil
}

// load returns a record or a problem, and neither when the record was
// deleted meanwhile.
func (s *Store) load(path, name string, kind sandbox.Kind) (*Record, *Problem) {
	f, err := readFile(path, name, kind)
	if err == nil {
		return &f.Record, nil
	}
	p := s.problem(path, name, kind, err)
	if sandbox.IsNotFound(p.Err) {
		return nil, nil
	}
	return nil, p
}

// recordNames returns the names of the files of records in dir, without what
// tells their kind, and clears away what killed processes left there.
func recordNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // another process deleted it; what was recorded shows up as orphans
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			removeStale(filepath.Join(dir, e.Name()))
			continue
		}
		file, isRecord := strings.CutSuffix(e.Name(), ".json")
		name, provider, another := strings.Cut(file, "@")
		if isRecord && statedir.CheckName(name) == nil && (!another || statedir.CheckName(provider) == nil) {
			names = append(names, file)
		}
	}
	return names, nil
}

func removeStale(path string) {
	fi, err := os.Lstat(path)
	if err == nil && fi.Mode().IsRegular() && time.Since(fi.ModTime()) > staleTemp {
		_ = os.Remove(path)
	}
}

// problem turns the failure to read a record into a Problem whose error is a
// *sandbox.Error, and sets a corrupt file aside.
func (s *Store) problem(path, name string, kind sandbox.Kind, err error) *Problem {
	p := &Problem{Kind: kind, Name: name, Path: path}
	e := &sandbox.Error{Op: "read record", Resource: name, Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.Message = sandbox.CodeNotFound, "no record of sandbox "+name
	case errors.Is(err, ErrNewer):
		e.Code, e.Message = sandbox.CodeUnavailable, "cannot read the record of sandbox "+name
		e.Hint = "use the version of sandbox that wrote it"
	case errors.Is(err, ErrCorrupt):
		e.Code, e.Message = sandbox.CodeUnavailable, "the record of sandbox "+name+" is damaged"
		var moved error
		if p.SetAside, moved = setAside(path, name, kind); moved != nil {
			e.Err = errors.Join(err, moved)
			e.Hint = "move " + path + " away; the record is then rebuilt from the container's labels"
		} else if p.SetAside == "" { // another process repaired or removed it
			e.Retryable, e.Hint = true, "try again"
		} else {
			e.Hint = "it was moved to " + p.SetAside + " and is rebuilt from the container's labels"
		}
	default:
		p.Err = statedir.Unavailable("read record", path, err)
		return p
	}
	p.Err = e
	return p
}

// setAside renames a file that is no record. It looks again under the lock, as
// another process may have written a good record meanwhile; it then returns an
// empty path and no error.
func setAside(path, name string, kind sandbox.Kind) (string, error) {
	var target string
	move := func() error {
		if _, err := readFile(path, name, kind); !errors.Is(err, ErrCorrupt) {
			return err
		}
		var err error
		target, err = freeName(path, time.Now())
		if err != nil {
			return err
		}
		return os.Rename(path, target)
	}
	err := locked(path, move)
	if errors.Is(err, ErrCorrupt) {
		err = move() // a link or the like, which cannot be locked
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	}
	return target, nil
}

// freeName returns a name beside path that is not taken.
func freeName(path string, now time.Time) (string, error) {
	base := path + ".corrupt-" + now.UTC().Format("20060102T150405Z")
	for i := range 100 {
		p := base
		if i > 0 {
			p = fmt.Sprintf("%s-%d", base, i)
		}
		if _, err := os.Lstat(p); errors.Is(err, fs.ErrNotExist) {
			return p, nil
		}
	}
	return "", errors.New("too many damaged files of that name")
}
