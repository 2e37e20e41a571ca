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
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"golang.org/x/sys/unix"
)

// changeGrain is how far apart two changes of a file may be and still carry the
// same time: file systems that keep steps of their own keep such of 10 ms, or of
// seconds, which whole seconds tell.
const changeGrain = 20 * time.Millisecond

// SkillsStamp returns a text about the skills in the agent's folder and about the
// copies of them in the workspace at the path target: names, kinds, sizes, times
// and identities, and no content. As long as it stays the same, [Store.SyncSkills]
// has nothing to do. It is empty where a change could escape it, because the last
// one is too recent for the clock of the file system.
//
// It follows no link on either side. A missing folder is a state like others.
func SkillsStamp(ctx context.Context, agentDir, target string) (string, error) {
	have, err := lookAtSkills(ctx, agentDir, target)
	if err != nil {
		return "", err
	}
	return have.stamp(), nil
}

// SyncSkills brings the skills in the scratch workspace of the sandbox name to what
// the agent's folder has, as [Store.Seed] does, and leaves the bootstrap files
// alone. Without a change since the last time it reads and writes nothing. A reader
// in the workspace sees the old content of a file or the new.
//
// stamp is what [SkillsStamp] returns as long as nothing changes. It is empty where
// the next call has to look again.
func (s *Store) SyncSkills(ctx context.Context, name, agentDir string, o Owner) (report SeedReport, stamp string, err error) {
	return s.sync(ctx, name, agentDir, o, false)
}

// sync is Seed, and SyncSkills without the bootstrap files.
func (s *Store) sync(ctx context.Context, name, agentDir string, o Owner, bootstrap bool) (SeedReport, string, error) {
	target, err := s.Path(name)
	if err != nil {
		return SeedReport{}, "", err
	}
	if err := o.check(); err != nil {
		return SeedReport{}, "", err
	}
	// What changes after this look is seen by the next one, whether its content
	// is read now or not.
	have, err := lookAtSkills(ctx, agentDir, target)
	if err != nil {
		return SeedReport{}, "", err
	}
	m, err := s.readMeta(name)
	if err != nil {
		return SeedReport{}, "", err
	}
	if !bootstrap && m.Skills != "" && have.stamp() == m.Skills {
		return SeedReport{}, m.Skills, nil
	}
	src, err := openPlain(agentDir)
	if errors.Is(err, fs.ErrNotExist) {
		return SeedReport{}, have.stamp(), nil
	}
	if err != nil {
		return SeedReport{}, "", statedir.Unavailable("seed workspace", agentDir, err)
	}
	defer src.Close()
	dst, err := os.OpenRoot(target)
	if err != nil {
		return SeedReport{}, "", statedir.Unavailable("seed workspace", target, err)
	}
	defer dst.Close()
	sd := seeder{src: src, dst: dst, owner: o, seeded: m.Seeded, left: maxSeedTotal}
	if sd.seeded == nil {
		sd.seeded = map[string]string{}
	}
	before := len(sd.seeded)
	err = sd.run(ctx, bootstrap)
	stamp := ""
	if err == nil && !sd.full {
		var now *skillsLook
		if now, err = lookAtSkills(ctx, agentDir, target); err == nil {
			have.inside = now.inside
			stamp = have.stamp()
		}
	}
	if r := sd.report; len(r.Copied)+len(r.Replaced)+len(r.Removed) > 0 || len(sd.seeded) != before || stamp != m.Skills {
		err = errors.Join(err, s.updateMeta(name, func(m *meta) { m.Seeded, m.Skills = sd.seeded, stamp }))
	}
	return sd.report, stamp, statedir.Unavailable("seed workspace", target, err)
}

// openPlain opens the folder at an absolute, canonical path. It follows no
// link, so a link that another process puts into the path leads to no other
// folder.
func openPlain(dir string) (*os.Root, error) {
	fd, err := openSearch(dir)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var meant unix.Stat_t
	if err := unix.Fstat(fd, &meant); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	fi, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	if _, dev, ino, _ := statOf(fi); dev != uint64(meant.Dev) || ino != meant.Ino {
		root.Close()
		return nil, ErrChanged
	}
	return root, nil
}

// openSearch opens the folder at an absolute path to look up its entries, and follows
// no symbolic link.
func openSearch(dir string) (int, error) {
	const how = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | searchOnly
	fd, err := openAt(unix.AT_FDCWD, "/", how)
	if err != nil {
		return -1, err
	}
	for part := range strings.SplitSeq(strings.Trim(path.Clean(dir), "/"), "/") {
		if part == "" {
			break
		}
		next, err := openAt(fd, part, how)
		unix.Close(fd)
		switch {
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
			return -1, errors.Join(ErrChanged, err)
		case err != nil:
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// A skillsLook is what the skills folder of an agent, and a workspace in the same
// places, show without being read.
type skillsLook struct {
	lines  []string // an entry of the agent's folder each
	inside []string // what the workspace has in the place of a file
	fresh  bool     // the agent's folder may change once more and look the same
	at     time.Duration
}

// lookAtSkills looks at both, from folder to folder and through no link. What is not
// there has no entries.
func lookAtSkills(ctx context.Context, agentDir, target string) (*skillsLook, error) {
	l := &skillsLook{at: fileClock(), lines: []string{strconv.Quote(agentDir)}}
	from, err := openSearch(agentDir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrChanged):
		l.lines = append(l.lines, "no folder")
		return l, nil
	case err != nil:
		return nil, statedir.Unavailable("look at skills", agentDir, err)
	}
	defer unix.Close(from)
	to, err := openSearch(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, statedir.Unavailable("look at skills", target, err)
	}
	defer closeAt(to)
	if err := l.entry(ctx, from, to, skillsDir, skillsDir, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, statedir.Unavailable("look at skills", agentDir, err)
	}
	return l, nil
}

// closeAt closes an open folder; a negative one is none.
func closeAt(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// statAt describes the entry name of the folder fd, and no file that it links to.
func statAt(fd int, name string) (st unix.Stat_t, err error) {
	for {
		if err = unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != unix.EINTR {
			return st, err
		}
	}
}

// entry looks at the entry name of the folder from, at all below it, and at what
// the folder to has in their places; a negative to has nothing.
func (l *skillsLook) entry(ctx context.Context, from, to int, name, rel string, depth int) error {
	st, err := statAt(from, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	mtime, ctime := time.Duration(st.Mtim.Nano()), time.Duration(st.Ctim.Nano())
	within := changeGrain
	if mtime%time.Second == 0 && ctime%time.Second == 0 {
		within = 2 * time.Second
	}
	l.fresh = l.fresh || l.at-ctime < within
	l.lines = append(l.lines, fmt.Sprintf("%q %o %d %d %d %d %d", rel, st.Mode, st.Dev, st.Ino, st.Size, mtime, ctime))
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFREG:
		return l.copy(to, name, rel)
	case kind != unix.S_IFDIR || depth >= maxDepth:
		return nil
	}
	next, err := openAt(from, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		for _, of := range []error{unix.EACCES, unix.ELOOP, unix.ENOTDIR, unix.ENOENT} {
			if errors.Is(err, of) {
				return nil // what keeps it closed shows in its line, or will
			}
		}
		return err
	}
	defer unix.Close(next)
	below := -1
	if to >= 0 {
		if below, err = openAt(to, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|searchOnly); err != nil {
			below = -1
			l.inside = append(l.inside, fmt.Sprintf("%q %s", rel, reasonOf(err)))
		}
		defer closeAt(below)
	}
	buf := make([]byte, 8<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.ReadDirent(next, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, n := range names {
			if err := l.entry(ctx, next, below, n, rel+"/"+n, depth+1); err != nil {
				return err
			}
		}
	}
}

// copy looks at what the folder to has in the place of a file. It returns io.EOF
// behind the last file that is copied at all.
func (l *skillsLook) copy(to int, name, rel string) error {
	line := strconv.Quote(rel)
	if to >= 0 {
		if st, err := statAt(to, name); err != nil {
			line += " " + reasonOf(err)
		} else {
			line += fmt.Sprintf(" %o %d %d %d %d %d", st.Mode, st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		}
	}
	if l.inside = append(l.inside, line); len(l.inside) > 2*maxSeedFiles {
		return io.EOF
	}
	return nil
}

// stamp is the look as a text, or empty where it tells too little.
func (l *skillsLook) stamp() string {
	if l.fresh {
		return ""
	}
	return digestOfLines(l.lines) + digestOfLines(l.inside)
}

// digestOfLines returns one digest for lines in any order.
func digestOfLines(lines []string) string {
	slices.Sort(lines)
	h := sha256.New()
	for _, line := range lines {
		io.WriteString(h, line+"\n")
	}
	return hex.EncodeToString(h.Sum(nil))
}
