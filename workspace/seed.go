package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what is seeded.
const (
	maxSeedFile  = 8 << 20  // bytes of one file
	maxSeedTotal = 64 << 20 // bytes of all
	maxSeedFiles = 2000
)

const skillsDir = "skills"

// bootstrapFiles are the files of an agent that its scratch workspaces start
// with.
func bootstrapFiles() []string {
	return []string{"AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "HEARTBEAT.md"}
}

// A SeedReport tells what seeding did. Paths are relative to the workspace.
type SeedReport struct {
	Copied   []string // new in the workspace
	Replaced []string // skills that changed in the agent's folder
	Removed  []string // skills that are gone from the agent's folder
	Kept     []string // the workspace has its own version, or has deleted ours
	Skipped  []Skip
}

// A Skip is a file or folder that was not copied, and why. The owner of the
// folder chose the path: make it safe before showing it.
type Skip struct {
	Path   string
	Reason string
}

// Seed copies the bootstrap files and the skills folder from the agent's
// folder into the scratch workspace of the sandbox name, as far as they
// exist. It copies content: neither links nor hard links, owners, special
// modes or other attributes come along, and the copies belong to o.
//
// A bootstrap file is seeded once. A file of that name in the workspace is
// never overwritten, and one that was deleted there stays deleted. Skills
// follow the agent's folder: each file that the workspace still has as we put
// it is replaced when it changed there and removed when it is gone there;
// what the sandbox changed or added is its own and stays.
//
// Links, special files, and what exceeds the bounds (8 MiB a file, 64 MiB and
// 2,000 files in all) are skipped and reported, on either side. So is what
// finds no room in the workspace: a sandbox that filled it must still be able
// to start.
func (s *Store) Seed(ctx context.Context, name, agentDir string, o Owner) (SeedReport, error) {
	report, _, err := s.sync(ctx, name, agentDir, o, true)
	return report, err
}

// A seeder is one run of Seed or SyncSkills.
type seeder struct {
	src, dst *os.Root
	owner    Owner
	seeded   map[string]string
	left     int64 // bytes
	full     bool  // something found no room in the workspace
	report   SeedReport
}

func (s *seeder) skip(rel, reason string) {
	s.report.Skipped = append(s.report.Skipped, Skip{rel, reason})
}

func (s *seeder) run(ctx context.Context, bootstrap bool) error {
	if bootstrap {
		for _, rel := range bootstrapFiles() {
			if err := s.one(rel, false); err != nil {
				return err
			}
		}
	}
	skipped := len(s.report.Skipped)
	files, err := s.skills(ctx)
	if err != nil {
		return err
	}
	complete := len(s.report.Skipped) == skipped
	for _, rel := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.one(rel, true); err != nil {
			return err
		}
	}
	if complete { // else a file that was only skipped would look gone
		s.withdraw(files)
	}
	return nil
}

// skills returns the regular files of the skills folder.
func (s *seeder) skills(ctx context.Context) ([]string, error) {
	fi, err := s.src.Lstat(skillsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		s.skip(skillsDir, "is not a folder")
		return nil, nil
	}
	sub, err := Dir(s.src, skillsDir)
	if err != nil {
		s.skip(skillsDir, reasonOf(err))
		return nil, nil
	}
	defer sub.Close()
	var files []string
	complete, err := walk(ctx, sub, func(rel string, fi fs.FileInfo) error {
		rel = path.Join(skillsDir, rel)
		switch {
		case fi.IsDir():
		case !fi.Mode().IsRegular():
			s.skip(rel, "is a link or a special file")
		case len(files) >= maxSeedFiles:
			s.skip(rel, fmt.Sprintf("there are more than %d files", maxSeedFiles))
			return io.EOF
		default:
			files = append(files, rel)
		}
		return nil
	})
	if err == nil && !complete && len(files) < maxSeedFiles {
		s.skip(skillsDir, "is nested too deeply")
	}
	slices.Sort(files)
	return files, err
}

// one seeds one file. Skills are replaced where we may, others never.
func (s *seeder) one(rel string, skill bool) error {
	data, mode, ok, err := s.read(rel)
	if err != nil || !ok {
		return err
	}
	digest := digestOf(data)
	parent, err := s.parent(path.Dir(rel))
	if err != nil {
		return s.failed(rel, err)
	}
	defer parent.Close()
	have, err := readDigest(parent, path.Base(rel))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !skill && s.seeded[rel] != "":
		s.report.Kept = append(s.report.Kept, rel) // deleted on purpose
	case errors.Is(err, fs.ErrNotExist):
		if err := place(parent, path.Base(rel), data, mode, s.owner, false); err != nil {
			return s.failed(rel, err)
		}
		s.seeded[rel] = digest
		s.report.Copied = append(s.report.Copied, rel)
	case err != nil:
		return s.failed(rel, err)
	case have == digest && skill:
	case skill && have == s.seeded[rel]:
		if err := place(parent, path.Base(rel), data, mode, s.owner, true); err != nil {
			return s.failed(rel, err)
		}
		s.seeded[rel] = digest
		s.report.Replaced = append(s.report.Replaced, rel)
	default:
		s.report.Kept = append(s.report.Kept, rel)
	}
	return nil
}

// read returns a source file, or not ok when there is none or it is skipped.
func (s *seeder) read(rel string) (data []byte, mode fs.FileMode, ok bool, err error) {
	dir, err := Descend(s.src, path.Dir(rel))
	if err == nil {
		defer dir.Close()
		var f *os.File
		var fi fs.FileInfo
		if f, fi, err = File(dir, path.Base(rel)); err == nil {
			defer f.Close()
			data, err = io.ReadAll(io.LimitReader(f, maxSeedFile+1))
			mode = 0o644
			if fi.Mode()&0o111 != 0 {
				mode = 0o755
			}
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, false, nil
	case err != nil:
		s.skip(rel, reasonOf(err))
		return nil, 0, false, nil
	case len(data) > maxSeedFile:
		s.skip(rel, fmt.Sprintf("is larger than %d bytes", maxSeedFile))
		return nil, 0, false, nil
	case int64(len(data)) > s.left:
		s.skip(rel, fmt.Sprintf("the files are larger than %d bytes together", maxSeedTotal))
		return nil, 0, false, nil
	}
	s.left -= int64(len(data))
	return data, mode, true, nil
}

// withdraw removes the skills that we put there, that are as we put them, and
// that the agent's folder no longer has.
func (s *seeder) withdraw(files []string) {
	for rel, digest := range s.seeded {
		if !strings.HasPrefix(rel, skillsDir+"/") {
			continue
		}
		if _, there := slices.BinarySearch(files, rel); there {
			continue
		}
		delete(s.seeded, rel)
		parent, err := Descend(s.dst, path.Dir(rel))
		if err != nil {
			continue
		}
		if have, err := readDigest(parent, path.Base(rel)); err == nil && have == digest && parent.Remove(path.Base(rel)) == nil {
			s.report.Removed = append(s.report.Removed, rel)
		}
		parent.Close()
	}
	slices.Sort(s.report.Removed)
}

// failed turns a failure that the content of the workspace causes into a
// skip. Others are errors.
func (s *seeder) failed(rel string, err error) error {
	s.full = s.full || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
	for _, target := range []error{ErrChanged, fs.ErrExist, fs.ErrNotExist, unix.ENOSPC, unix.EDQUOT, unix.ENOTDIR, unix.ELOOP, unix.EISDIR} {
		if errors.Is(err, target) {
			s.skip(rel, "in the workspace: "+reasonOf(err))
			return nil
		}
	}
	if isEscape(err) {
		s.skip(rel, "in the workspace: "+reasonOf(err))
		return nil
	}
	return err
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// readDigest returns the digest of the regular file base in dir, and a digest
// that equals no other for one that is too large to be ours.
func readDigest(dir *os.Root, base string) (string, error) {
	f, fi, err := File(dir, base)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi.Size() > maxSeedFile {
		return "too large", nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSeedFile+1))
	return digestOf(data), err
}
