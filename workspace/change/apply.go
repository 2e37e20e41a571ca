package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

const opApply = "apply changes"

// A Report says what was done to the folder of the host.
type Report struct {
	Done      []Step     `json:"done"`
	Conflicts []Conflict `json:"conflicts,omitempty"` // what was left as it is, because it had changed
}

// Apply carries out the plan. It first copies all new content and all that is
// replaced or removed into the folder journal, and compares both with the
// digests of the plan; then it writes the journal; then it changes the folder.
// Each file, link or folder is there as it was or as it shall be, at every
// moment, with the owner of the host's folder.
//
// Where the workspace or the host's folder is not as planned, Apply returns an
// error of code CodeBusy. What it had done by then is taken back. A process
// that is killed leaves a journal in phase [Applying]: [Resume] completes it
// and [Undo] takes it back.
//
// The folder journal is made if it is missing, and must belong to the caller
// alone. It keeps what [Undo] needs until the caller removes it.
func (p *Plan) Apply(ctx context.Context, journal string) (*Report, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	if len(p.ops) == 0 {
		return &Report{}, nil
	}
	h, err := openHost(opApply, p.folder)
	if err != nil {
		return nil, err
	}
	defer h.close()
	if h.ino != p.ino || h.dev != p.dev {
		return nil, changedMeanwhile(".", "another folder lies at the place of the one that was planned for")
	}
	if err := h.lock(opApply); err != nil {
		return nil, err
	}
	j, err := newJournal(journal, h, p.ops, p.o.MaxFile)
	if err != nil {
		return nil, err
	}
	x := executor{ctx: ctx, host: h, journal: j, step: p.step}
	x.step("staged nothing")
	for i, op := range p.ops {
		if err := x.stage(i, op, p.current); err != nil {
			return nil, err
		}
		x.step("staged " + string(op.Path))
	}
	if err := syncContent(j); err != nil {
		return nil, failed(opApply, j.dir, err)
	}
	if err := j.write(); err != nil {
		return nil, err
	}
	x.step("wrote journal")
	report, err := x.forward()
	if err == nil {
		err = j.setPhase(Applied)
	}
	if err == nil {
		x.step("applied")
		return report, nil
	}
	x.ctx = context.WithoutCancel(ctx)
	if back, undo := x.backward(true); undo != nil || len(back.Conflicts) > 0 {
		return report, errors.Join(err, undo) // the journal says what is left to do
	}
	if undo := j.setPhase(Undone); undo != nil {
		return nil, errors.Join(err, undo)
	}
	return nil, err
}

// Resume completes an application that was interrupted, from the journal alone.
// The report lists what it did itself. In every phase but [Applying] it is an
// error of code CodeBusy.
func Resume(ctx context.Context, folder, journal string) (*Report, error) {
	x, phase, done, err := reopen(ctx, folder, journal)
	if err != nil {
		return nil, err
	}
	defer done()
	if phase != Applying {
		e := sandbox.Errorf(sandbox.CodeBusy, opApply, "the changes of the journal %s are %s", Quote(journal), phase)
		e.Resource = journal
		return nil, e
	}
	report, err := x.forward()
	if err != nil {
		return report, err
	}
	return report, x.journal.setPhase(Applied)
}

// reopen opens the folder that a journal belongs to, for the work that is left.
func reopen(ctx context.Context, folder, journal string) (*executor, Phase, func(), error) {
	j, err := readJournal(journal)
	if err != nil {
		return nil, "", nil, err
	}
	phase, err := j.phase()
	if err != nil {
		return nil, "", nil, err
	}
	h, err := openHost(opUndo, folder)
	if err != nil {
		return nil, "", nil, err
	}
	if h.ino != j.Ino || h.path != string(j.Folder) {
		h.close()
		e := sandbox.Errorf(sandbox.CodeValidation, opUndo, "the journal belongs to %s, and that is another folder than %s", Quote(string(j.Folder)), Quote(h.path))
		e.Field, e.Resource = "journal", journal
		return nil, "", nil, e
	}
	if err := h.lock(opUndo); err != nil {
		h.close()
		return nil, "", nil, err
	}
	return &executor{ctx: ctx, host: h, journal: j, step: func(string) {}}, phase, h.close, nil
}

// An executor carries out the operations of a journal in one direction.
type executor struct {
	ctx     context.Context
	host    *host
	journal *journal
	step    func(string)
}

// stage copies what the operation needs into the journal, and compares it with
// the plan.
func (x *executor) stage(i int, op operation, current *Tree) error {
	rel := string(op.Path)
	fd, name, err := x.host.parent(rel)
	if err == nil {
		defer unix.Close(fd)
	}
	if op.Old.Kind == absent && errors.Is(err, unix.ENOENT) {
		err = nil // its folder is made
	} else if op.Old.Kind == absent && err != nil {
		err = nil // what stands in its way is removed first, and looked at again then
	} else if err == nil {
		var have state
		if have, err = stateAt(x.ctx, fd, name, x.journal.Limit); err == nil && op.Old.Kind == regular && have.same(op.Old) {
			err = x.keep(fd, name, x.journal.content("old", i), op.Old)
		} else if err == nil && !have.same(op.Old) && !x.planned(i, have) {
			return changedMeanwhile(rel, whyChanged)
		}
	}
	if err != nil {
		return failed(opApply, rel, err)
	}
	if op.New.Kind != regular {
		return nil
	}
	target := x.journal.content("new", i)
	switch op.source {
	case sourceHost:
		return failed(opApply, rel, x.keep(fd, name, target, op.New))
	case sourceData:
		return failed(opApply, rel, x.save(strings.NewReader(string(op.data)), target, op.New, rel))
	}
	f, _, err := current.Open(op.origin)
	if sandbox.IsNotFound(err) || errors.Is(err, errIrregular) {
		return changedMeanwhile(rel, "it changed in the workspace")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return failed(opApply, rel, x.save(f, target, op.New, rel))
}

// planned reports whether another operation of the same path leads to or from
// the state.
func (x *executor) planned(i int, have state) bool {
	return slices.ContainsFunc(x.others(i), have.same)
}

// others returns the states of a path by the other operations on it.
func (x *executor) others(i int) []state {
	var out []state
	for n, op := range x.journal.Ops {
		if n != i && op.Path == x.journal.Ops[i].Path {
			out = append(out, op.Old, op.New)
		}
	}
	return out
}

// keep copies a file of the host into the journal.
func (x *executor) keep(dir int, name, target string, want state) error {
	f, _, err := openFile(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	return x.save(f, target, want, name)
}

// save copies src into the journal if it has the content of want.
func (x *executor) save(src io.Reader, target string, want state, rel string) error {
	at, err := hostpath.Folder(path.Dir(target), unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	digest, err := copyTo(x.ctx, at, path.Base(target), src, x.journal.Limit, false, nil)
	if errors.Is(err, errLong) || err == nil && digest != want.Digest {
		return changedMeanwhile(rel, "its content is not the planned one")
	}
	return err
}

// syncContent writes the content in the journal to the disk.
func syncContent(j *journal) error {
	files := 0
	for _, op := range j.Ops {
		for _, s := range []state{op.Old, op.New} {
			if s.Kind == regular {
				files++
			}
		}
	}
	if files > few {
		f, err := os.Open(j.dir)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := syncAll(int(f.Fd())); !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	for i, op := range j.Ops {
		for which, s := range map[string]state{"old": op.Old, "new": op.New} {
			if s.Kind != regular {
				continue
			}
			if err := syncFolders(j.content(which, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// changedMeanwhile is the error for what is not as planned.
func changedMeanwhile(rel, why string) error {
	return &sandbox.Error{
		Code: sandbox.CodeBusy, Op: opApply, Resource: rel, Message: Quote(rel) + " is not as it was planned: " + why,
		Hint: "plan the changes again", Retryable: true,
	}
}

// forward does the operations that are not done.
func (x *executor) forward() (*Report, error) {
	report := &Report{}
	touched := map[string]bool{}
	if err := x.clean(); err != nil {
		return report, err
	}
	order := make([]int, len(x.journal.Ops))
	for i := range order {
		order[i] = i
	}
	err := x.run(order, "new", func(i int, did bool, err error) error {
		op := x.journal.Ops[i]
		if err != nil {
			return explain(opApply, string(op.Path), err)
		}
		if did {
			report.Done = append(report.Done, stepOf(op, op.Old, op.New))
			touched[path.Dir(string(op.Path))] = true
		}
		x.step("did " + string(op.Path))
		return nil
	})
	if err != nil {
		return report, err
	}
	return report, x.sync(touched)
}

// run moves the paths of operations, in the given order, to what they have to
// be: which is "new" or "old". It calls each after every operation and ends
// with its error. Files and links that follow each other are first built
// together, so that all of them are written to the disk at once.
func (x *executor) run(order []int, which string, each func(i int, did bool, err error) error) error {
	for len(order) > 0 {
		n := 0
		for n < len(order) && x.builds(order[n], which) {
			n++
		}
		n = max(n, 1)
		built, err := x.buildAll(order[:n], which)
		if err != nil {
			return err
		}
		for k, i := range order[:n] {
			if err := x.ctx.Err(); err != nil {
				return stopped(opApply, err)
			}
			from, to := x.ends(i, which)
			did, err := x.move(i, from, to, which, built[k])
			if err := each(i, did, err); err != nil {
				return err
			}
		}
		order = order[n:]
	}
	return nil
}

// ends returns the states from which and to which an operation leads.
func (x *executor) ends(i int, which string) (from, to state) {
	if op := x.journal.Ops[i]; which == "new" {
		return op.Old, op.New
	} else {
		return op.New, op.Old
	}
}

// builds reports whether an operation makes a file or link.
func (x *executor) builds(i int, which string) bool {
	_, to := x.ends(i, which)
	return to.Kind == regular || to.Kind == symlink
}

// few is the number of files up to which each is written to the disk by itself
// rather than with all that the file system has to write.
const few = 16

// buildAll builds the files and links of operations under their temporary
// names, and reports for which it did. It leaves the others to move, which
// finds out what is wrong with them.
func (x *executor) buildAll(order []int, which string) ([]bool, error) {
	built := make([]bool, len(order))
	if len(order) <= few || !canSyncAll || !x.builds(order[0], which) {
		return built, nil
	}
	for k, i := range order {
		if err := x.ctx.Err(); err != nil {
			return built, stopped(opApply, err)
		}
		from, to := x.ends(i, which)
		op := x.journal.Ops[i]
		dir, name, err := x.host.parent(string(op.Path))
		if err != nil {
			continue
		}
		have, err := x.state(dir, name)
		if err == nil && have.same(from) && !have.same(to) && have.Kind != folder {
			if err = x.build(i, dir, x.journal.temp(i, ""), to, which, false); err == nil {
				built[k] = true
				x.step("built " + string(op.Path))
			}
		}
		unix.Close(dir)
		if err != nil {
			return built, explain(opApply, string(op.Path), err)
		}
	}
	return built, failed(opApply, x.host.path, syncAll(x.host.fd))
}

// stepOf describes what an operation did.
func stepOf(op operation, from, to state) Step {
	s := Step{Path: string(op.Path), Action: Write}
	switch {
	case to.Kind == absent:
		s.Action = Remove
	case op.merged:
		s.Action = Merge
	case from.Kind == to.Kind && from.Digest == to.Digest && from.Link == to.Link:
		s.Action = Chmod
	}
	return s
}

// explain turns an error of move into one of this package.
func explain(op, rel string, err error) error {
	var c *moveConflict
	if errors.As(err, &c) {
		return &sandbox.Error{Code: sandbox.CodeBusy, Op: op, Resource: rel, Message: Quote(rel) + ": " + c.why, Hint: "compare the two by hand", Err: c.err}
	}
	return failed(op, rel, err)
}

// sync writes the names in the folders to the disk.
func (x *executor) sync(folders map[string]bool) error {
	for rel := range folders {
		fd, err := x.host.dir(rel)
		if hostpath.Gone(err) {
			continue // it was removed after its content
		}
		if err == nil {
			err = hostpath.Retry(func() error { return unix.Fsync(fd) })
			unix.Close(fd)
		}
		if err != nil {
			return failed(opApply, rel, err)
		}
	}
	return nil
}

// A moveConflict says that the host has something else at a path than the
// operation expects.
type moveConflict struct {
	why string
	err error
}

func (c *moveConflict) Error() string { return c.why }
func (c *moveConflict) Unwrap() error { return c.err }

func (x *executor) state(dir int, name string) (state, error) {
	return stateAt(x.ctx, dir, name, x.journal.Limit)
}

// move brings the path of operation i from one state to the other. It reports
// whether there was something to do.
// Built says that what to describes is there under the temporary name.
func (x *executor) move(i int, from, to state, which string, built bool) (did bool, err error) {
	op := x.journal.Ops[i]
	dir, name, err := x.host.parent(string(op.Path))
	if to.Kind == absent && (errors.Is(err, unix.ENOENT) || hostpath.Gone(err) && x.inside(string(op.Path))) {
		return false, nil // its folder is not there yet, or no longer
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, &moveConflict{whyFolder, err}
	case errors.Is(err, unix.EXDEV):
		return false, &moveConflict{whyMount, err}
	case hostpath.Gone(err):
		return false, &moveConflict{whyLink, err}
	case err != nil:
		return false, err
	}
	defer unix.Close(dir)
	have, err := x.state(dir, name)
	switch {
	case err != nil:
		return false, err
	case have.same(to):
		return false, nil
	case !have.same(from) && x.planned(i, have):
		return false, nil // it is before or behind another operation on the path
	case !have.same(from):
		return false, &moveConflict{whyChanged, nil}
	}
	temp := x.journal.temp(i, "")
	switch {
	case from.Kind == folder && to.Kind == folder:
		return true, x.chmod(dir, name, from, to)
	case from.Kind == folder && to.Kind == absent:
		err := hostpath.Retry(func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
			return false, &moveConflict{"the folder is not empty", err}
		}
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		return err == nil, err
	case to.Kind == absent:
		return true, x.remove(dir, name, temp, from)
	case from.Kind != absent && from.Kind != regular && from.Kind != symlink:
		return false, &moveConflict{whyChanged, nil}
	}
	if !built {
		if err := x.build(i, dir, temp, to, which, true); err != nil {
			return false, err
		}
		x.step("built " + string(op.Path))
	}
	if from.Kind == absent {
		return true, x.add(dir, name, temp, to)
	}
	return true, x.replace(dir, name, temp, from, to)
}

// chmod changes the mode of a folder.
func (x *executor) chmod(dir int, name string, from, to state) error {
	fd, err := hostpath.At(dir, name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, to.Mode)
}

// build makes what to describes under a temporary name, complete and with its
// owner. With sync a file is on the disk before it has its name.
func (x *executor) build(i, dir int, temp string, to state, which string, sync bool) error {
	part := temp + ".part"
	switch to.Kind {
	case folder:
		if err := unix.Mkdirat(dir, part, 0o700); err != nil {
			return err
		}
		fd, err := hostpath.At(dir, part, unix.O_RDONLY)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := x.own(fd, to, which); err != nil {
			return err
		}
		if err := unix.Fchmod(fd, to.Mode); err != nil {
			return err
		}
	case symlink:
		if err := unix.Symlinkat(string(to.Link), dir, part); err != nil {
			return err
		}
		if uid, gid := x.owner(to, which); os.Geteuid() == 0 {
			if err := unix.Fchownat(dir, part, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
	default:
		if err := x.fill(i, dir, part, to, which, sync); err != nil {
			return err
		}
	}
	return unix.Renameat(dir, part, dir, temp)
}

// fill makes a file from its content in the journal.
func (x *executor) fill(i, dir int, part string, to state, which string, sync bool) error {
	source := x.journal.content(which, i)
	at, err := hostpath.Folder(path.Dir(source), unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	f, _, err := openFile(at, path.Base(source))
	if err != nil {
		return damaged(x.journal.dir, "content is missing: "+err.Error())
	}
	defer f.Close()
	digest, err := copyTo(x.ctx, dir, part, f, x.journal.Limit, sync, func(fd int) error {
		if err := x.own(fd, to, which); err != nil {
			return err
		}
		mode := to.Mode
		if uid, _ := x.owner(to, which); which == "new" || os.Geteuid() != 0 && uid != os.Geteuid() {
			mode = unixPerm(mode)
		}
		if err := unix.Fchmod(fd, mode); err != nil {
			return err
		}
		if which == "old" { // restored, with its time
			when := unix.NsecToTimeval(to.MTime)
			return unix.Futimes(fd, []unix.Timeval{when, when})
		}
		return nil
	})
	if err == nil && digest != to.Digest {
		return damaged(x.journal.dir, "content has another digest than recorded")
	}
	return err
}

// owner returns whom a new path belongs to: the owner of the host's folder, or
// the former owner of what is restored.
func (x *executor) owner(to state, which string) (uid, gid int) {
	if which == "old" {
		return to.UID, to.GID
	}
	return x.host.uid, x.host.gid
}

// own gives a new file or folder its owner. Only root can give something away.
func (x *executor) own(fd int, to state, which string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid := x.owner(to, which)
	return unix.Fchown(fd, uid, gid)
}

// add gives what was built its name, which must be free.
func (x *executor) add(dir int, name, temp string, to state) error {
	err := hostpath.Retry(func() error { return noReplace(dir, temp, name) })
	if lacking(err) {
		// The file system has no such rename. A hard link does not replace
		// anything either; a folder is only replaced if it is empty.
		if to.Kind == folder {
			err = unix.Renameat(dir, temp, dir, name)
		} else if err = unix.Linkat(dir, temp, dir, name, 0); err == nil {
			err = unix.Unlinkat(dir, temp, 0)
		}
	}
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) {
		return errors.Join(&moveConflict{whyNew, err}, x.discard(dir, temp))
	}
	return err
}

// lacking reports whether err says that a file system does not know a kind of
// rename.
func lacking(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EOPNOTSUPP)
}

// replace exchanges what is at name for what was built, looks at what it got,
// and exchanges the two again if that is not what was expected: what another
// process put there meanwhile is not lost.
func (x *executor) replace(dir int, name, temp string, from, to state) error {
	err := hostpath.Retry(func() error { return exchange(dir, temp, name) })
	if lacking(err) {
		// Without such a rename, the state is looked at once more right before
		// it.
		have, err := x.state(dir, name)
		if err == nil && !have.same(from) {
			return errors.Join(&moveConflict{whyChanged, nil}, x.discard(dir, temp))
		}
		if err != nil {
			return err
		}
		return hostpath.Retry(func() error { return unix.Renameat(dir, temp, dir, name) })
	}
	if errors.Is(err, unix.ENOENT) {
		return errors.Join(&moveConflict{whyGone, err}, x.discard(dir, temp))
	}
	if err != nil {
		return err
	}
	x.step("exchanged " + name)
	got, err := x.state(dir, temp)
	if err == nil && got.same(from) {
		return x.discard(dir, temp)
	}
	if back := exchange(dir, temp, name); back != nil {
		return errors.Join(&moveConflict{"it changed in the folder of the host, and lies in " + Quote(temp) + " now", back}, err)
	}
	return errors.Join(&moveConflict{whyChanged, err}, x.discard(dir, temp))
}

// remove takes the name away from what is there, looks at it, and removes it or
// gives the name back.
func (x *executor) remove(dir int, name, temp string, from state) error {
	x.step("takes " + name)
	err := hostpath.Retry(func() error { return unix.Renameat(dir, name, dir, temp) })
	if errors.Is(err, unix.ENOENT) {
		return nil // another process removed it
	}
	if err != nil {
		return err
	}
	x.step("took " + name)
	got, err := x.state(dir, temp)
	if err == nil && got.same(from) {
		return x.discard(dir, temp)
	}
	back := noReplace(dir, temp, name)
	if lacking(back) {
		back = unix.Renameat(dir, temp, dir, name)
	}
	if back != nil {
		return errors.Join(&moveConflict{"it changed in the folder of the host, and lies in " + Quote(temp) + " now", back}, err)
	}
	return &moveConflict{whyChanged, err}
}

// discard removes a temporary name.
func (x *executor) discard(dir int, temp string) error {
	err := hostpath.Retry(func() error { return unix.Unlinkat(dir, temp, 0) })
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = unix.Unlinkat(dir, temp, unix.AT_REMOVEDIR)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// clean removes the temporary names of a process that was killed. What lies
// there and is neither of the operation's two states belongs to the host: it
// gets its name back.
func (x *executor) clean() error {
	for i, op := range x.journal.Ops {
		dir, name, err := x.host.parent(string(op.Path))
		if hostpath.Gone(err) || errors.Is(err, unix.EXDEV) {
			continue
		}
		if err != nil {
			return failed(opApply, string(op.Path), err)
		}
		err = x.cleanOne(i, dir, name)
		unix.Close(dir)
		if err != nil {
			return explain(opApply, string(op.Path), err)
		}
	}
	return nil
}

func (x *executor) cleanOne(i, dir int, name string) error {
	op, temp := x.journal.Ops[i], x.journal.temp(i, "")
	if err := x.discard(dir, temp+".part"); err != nil {
		return err
	}
	got, err := x.state(dir, temp)
	if err != nil || got.Kind == absent {
		return err
	}
	have, err := x.state(dir, name)
	if err != nil {
		return err
	}
	switch {
	case got.same(op.Old), got.same(op.New):
		return x.discard(dir, temp) // the journal has the content of both
	case have.Kind == absent:
		return noReplace(dir, temp, name)
	case have.same(op.New) || have.same(op.Old):
		if err := exchange(dir, temp, name); err != nil {
			return err
		}
		return x.discard(dir, temp)
	}
	return &moveConflict{fmt.Sprintf("it changed in the folder of the host, and an older one lies in %s", Quote(temp)), nil}
}
