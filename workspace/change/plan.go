package change

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

const opPlan = "plan changes"

// An Original knows what files of the host's folder were when the workspace
// changed them first.
type Original interface {
	// Base returns what was at path, and the content of a regular file if it is
	// kept (else nil); the caller closes it. It reports false where it is not
	// known what was there.
	Base(path string) (content io.ReadCloser, v Version, ok bool)
}

// A Version is what a file was. Without a digest, size, times and mode tell
// whether the file of the host is still the same.
type Version struct {
	Absent  bool        // there was nothing
	Mode    fs.FileMode // type, permissions, setuid, setgid and sticky
	Size    int64
	Digest  string    // SHA-256 of a regular file in hexadecimal, or empty
	Link    string    // target of a symbolic link
	ModTime time.Time // of the content
	Changed time.Time // of the inode; zero is unknown
}

// PlanOptions say what is applied.
type PlanOptions struct {
	// Paths are the files and folders whose changes are applied, with what lies
	// below them; none means all. A renamed file is applied if one of its two
	// paths is named.
	Paths []string
	// AllowRisks and AllowPaths are the consents to changes whose [Level] is
	// Own: by risk, or by a path, which stands for what lies below it too. Each
	// risk of a change has to be allowed. No consent covers [Never].
	AllowRisks []Risk
	AllowPaths []string
	// Partial leaves out what is refused or conflicts. Without it, Apply does
	// nothing if there is any.
	Partial bool

	// Original says what the host's files were. Without it, the base tree does.
	Original Original
	// Since is when the current tree was made from the host's folder, by the
	// clock of its file system: the time of change (ctime) of a file made then.
	// It has to be given where the base tree is the host's folder itself and
	// there is no Original: a file that did not change before counts as one
	// without a known base.
	Since time.Time
	// Journals are the folders of the journals of what was applied before from
	// the same workspace, oldest first. What they applied counts as what the
	// host's files were.
	Journals []string

	// Digest is that of a plan that was shown before: NewPlan returns an error
	// of code CodeBusy when it would make another one. It may be empty.
	Digest string

	MaxFile   int64 // bytes of a file; see [Options.MaxFile]
	MaxBytes  int64 // of all files that are written and replaced, 4 GiB if it is 0
	Unchanged func(path string, current Info) bool
}

// An Action says what a plan does at a path.
type Action string

// The actions.
const (
	Write  Action = "write"  // a file, link or folder is made or replaced
	Merge  Action = "merge"  // the changes of both sides are joined
	Chmod  Action = "chmod"  // the permissions change
	Remove Action = "remove" //
)

// A Step is one action of a plan.
type Step struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
}

// A Conflict is a change that cannot be applied because the host's folder
// changed too. The host's side stays as it is.
type Conflict struct {
	Path string `json:"path"`
	Why  string `json:"why"` // "it changed in the folder of the host, and is no text"
}

// A Plan says what an application of changes does, before it is done. A plan
// that is never applied has no effect.
type Plan struct {
	Entries   []Entry    `json:"entries"` // the selected changes
	Steps     []Step     `json:"steps"`   // what is done, in this order
	Conflicts []Conflict `json:"conflicts,omitempty"`
	Refused   []Entry    `json:"refused,omitempty"` // changes without the consent that they need
	Digest    string     `json:"digest"`            // of all that is done, with the content

	folder  string
	dev     uint64
	ino     uint64
	current *Tree
	o       PlanOptions
	ops     []operation
	step    func(string) // of tests; called between the steps of an application
}

// Bounds of a plan.
const (
	maxMerge    = 4 << 20   // bytes of each side of a merge
	maxMerged   = 256 << 20 // bytes of all merges
	defaultFile = 1 << 30
	defaultSum  = 4 << 30
)

// NewPlan compares current with base and plans the changes for the folder of
// the host. It reads the folder and writes nothing.
//
// A path of the host that is as it was in the base gets what current has. One
// that changed on the host too is merged line by line if it is a text on all
// sides, and else a [Conflict]; so is one that is a link, lies behind a link,
// or of which the base is not known. Special files are never applied, and files
// are applied without setuid, setgid and sticky, owners, extended attributes
// and hard links.
func NewPlan(ctx context.Context, folder string, base, current *Tree, o PlanOptions) (*Plan, error) {
	if o.MaxFile == 0 {
		o.MaxFile = defaultFile
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultSum
	}
	for _, p := range slices.Concat(o.Paths, o.AllowPaths) {
		if err := checkPath(opPlan, p); err != nil {
			return nil, err
		}
	}
	h, err := openHost(opPlan, folder)
	if err != nil {
		return nil, err
	}
	defer h.close()
	live := slices.ContainsFunc(base.layers, func(l layer) bool { return l.dev == h.dev && l.ino == h.ino })
	if live && o.Original == nil && o.Since.IsZero() {
		e := sandbox.Errorf(sandbox.CodeValidation, opPlan, "it is not known what the files of %s were when the workspace was made", Quote(h.path))
		e.Field, e.Resource = "since", h.path
		return nil, e
	}
	onHost, err := Folder(h.path)
	if err != nil {
		return nil, err
	}
	defer onHost.Close()
	entries, err := Compare(ctx, base, current, Options{MaxFile: o.MaxFile, Unchanged: o.Unchanged})
	if err != nil {
		return nil, err
	}
	if err := findRisks(ctx, entries, onHost, base, current); err != nil {
		return nil, err
	}
	p := &Plan{folder: h.path, dev: h.dev, ino: h.ino, current: current, o: o, step: func(string) {}}
	pl := planner{Plan: p, ctx: ctx, host: h, base: base, live: live, made: map[string]bool{}, gone: map[string]bool{}, bad: map[string]bool{}, done: map[string]bool{}, replaced: map[string]bool{}, applied: map[string]past{}}
	if err := pl.past(); err != nil {
		return nil, err
	}
	if err := pl.all(entries); err != nil {
		return nil, err
	}
	if o.Digest != "" && o.Digest != p.Digest {
		return nil, &sandbox.Error{
			Code: sandbox.CodeBusy, Op: opPlan, Resource: h.path, Message: "the changes are not those that were shown before", Hint: "look at them again", Retryable: true,
		}
	}
	return p, nil
}

// allowed reports whether e has the consents that it needs.
func (o *PlanOptions) allowed(e *Entry) bool {
	named := func(p string) bool {
		return slices.ContainsFunc(o.AllowPaths, func(a string) bool { return a != "." && within(p, a) })
	}
	byPath := !slices.ContainsFunc(e.paths(), func(p string) bool { return !named(p) })
	for _, f := range e.Findings {
		switch f.Risk.Level() {
		case Never:
			return false
		case Own:
			if !byPath && !slices.Contains(o.AllowRisks, f.Risk) {
				return false
			}
		}
	}
	return !e.Unread
}

// selects reports whether the paths to apply name e.
func (o *PlanOptions) selects(e *Entry) bool {
	return len(o.Paths) == 0 || slices.ContainsFunc(e.paths(), func(p string) bool {
		return slices.ContainsFunc(o.Paths, func(s string) bool { return within(p, s) })
	})
}

// A planner makes a plan.
type planner struct {
	*Plan
	ctx  context.Context
	host *host
	base *Tree
	live bool            // the base is the host's folder
	made map[string]bool // folders that the plan makes
	gone map[string]bool // paths that the plan removes
	bad  map[string]bool // paths of entries that are left out
	done map[string]bool // paths of another type, which the host has too

	replaced map[string]bool // folders whose place something else takes
	applied  map[string]past // what was applied before, by path

	merged int
	bytes  int64

	removals, folders, puts, modes []operation
}

// all plans the selected entries.
func (p *planner) all(entries []Entry) error {
	// Folders that hold a selected change come along.
	needed := map[string]bool{}
	for i := range entries {
		if e := &entries[i]; p.o.selects(e) && e.hasNow() {
			for d := path.Dir(e.Path); d != "."; d = path.Dir(d) {
				needed[d] = true
			}
		}
	}
	for i := range entries {
		e := &entries[i]
		if p.o.selects(e) || needed[e.Path] && e.hasNow() && e.Mode.IsDir() && e.Kind != Mode {
			p.Entries = append(p.Entries, *e)
		}
	}
	for _, e := range p.Entries {
		if e.Kind != Type {
			continue
		}
		p.replaced[e.Path] = e.OldMode.IsDir()
		have, _, err := p.host.state(p.ctx, e.Path, p.o.MaxFile)
		want := wanted(&e)
		if err == nil && (have.same(want) || have.Kind == folder && want.Kind == folder) {
			p.done[e.Path] = true
		}
	}
	for i := range p.Entries {
		if err := p.ctx.Err(); err != nil {
			return stopped(opPlan, err)
		}
		e := &p.Entries[i]
		if !p.o.allowed(e) {
			p.Refused = append(p.Refused, *e)
			p.bad[e.Path] = true
			continue
		}
		if err := p.entry(e); err != nil {
			return failed(opPlan, e.Path, err)
		}
	}
	if err := p.emptied(); err != nil {
		return err
	}
	return p.finish()
}

// A past is what an earlier application made of a path.
type past struct {
	state   state
	content string // file in a journal
}

// past reads the journals of what was applied before.
func (p *planner) past() error {
	for _, dir := range p.o.Journals {
		j, err := readJournal(dir)
		if err != nil {
			return err
		}
		phase, err := j.phase()
		switch {
		case err != nil:
			return err
		case phase == Undone:
			continue
		case phase != Applied:
			return &sandbox.Error{
				Code: sandbox.CodeBusy, Op: opPlan, Resource: dir, Message: "changes were applied in part: their journal " + Quote(dir) + " is in phase " + string(phase),
				Hint: "complete or undo them first",
			}
		case string(j.Folder) != p.host.path:
			return damaged(dir, "it belongs to another folder")
		}
		for i, op := range j.Ops {
			p.applied[string(op.Path)] = past{op.New, j.content("new", i)}
		}
	}
	return nil
}

// conflict records that e is not applied.
func (p *planner) conflict(e *Entry, rel, why string) {
	p.bad[e.Path] = true
	p.Conflicts = append(p.Conflicts, Conflict{rel, why})
}

// entry plans one entry, except the removal of folders.
func (p *planner) entry(e *Entry) error {
	for d := path.Dir(e.Path); d != "."; d = path.Dir(d) {
		if p.bad[d] && (e.hasNow() || p.replaced[d]) {
			p.conflict(e, e.Path, "the change of its folder is not applied")
			return nil
		}
	}
	if p.done[e.Path] {
		return nil
	}
	var ops []operation
	if e.From != "" {
		op, ok, err := p.removal(e, e.From)
		if err != nil || !ok {
			return err
		}
		ops = append(ops, op)
	}
	replaces := e.Kind == Type && e.Mode.IsDir()
	switch {
	case e.OldMode.IsDir() && (e.Kind == Type || e.Kind == Removed):
		return nil // after what lies in the folder; see emptied
	case e.Kind == Removed || replaces:
		op, ok, err := p.removal(e, e.Path)
		if err != nil || !ok {
			return err
		}
		ops = append(ops, op)
	}
	if e.hasNow() {
		op, ok, err := p.put(e, replaces)
		if err != nil || !ok {
			return err
		}
		ops = append(ops, op)
	}
	for _, op := range ops {
		p.add(op)
	}
	return nil
}

// add sorts an operation into its group.
func (p *planner) add(op operation) {
	switch {
	case op.Old.same(op.New):
	case op.New.Kind == absent:
		p.removals = append(p.removals, op)
		p.gone[string(op.Path)] = true
	case op.New.Kind == folder && op.Old.Kind == folder:
		p.modes = append(p.modes, op)
	case op.New.Kind == folder:
		// The folder is made so that its content can be, and gets its mode in
		// the end.
		final := op
		final.Old, final.New.Mode = op.New, op.New.Mode
		op.New.Mode |= 0o700
		final.Old.Mode = op.New.Mode
		p.folders = append(p.folders, op)
		p.made[string(op.Path)] = true
		if final.Old.Mode != final.New.Mode {
			p.modes = append(p.modes, final)
		}
	default:
		p.puts = append(p.puts, op)
	}
}

// What the host has at a path, as a conflict calls it.
const (
	whyLink    = "a folder on its way is a link or a file in the folder of the host"
	whyChanged = "it changed in the folder of the host"
	whyUnknown = "it is not known what it was when the workspace was made"
	whyNew     = "the folder of the host has another one of this name"
	whyGone    = "it was removed from the folder of the host"
	whySpecial = "it is a special file, too long or not readable in the folder of the host"
	whyMount   = "another file system is mounted on its way in the folder of the host"
	whyFolder  = "the folder that it lies in is gone in the folder of the host"
)

// look returns the state of the host at rel, and false after it recorded a
// conflict.
func (p *planner) look(e *Entry, rel string) (state, time.Time, bool, error) {
	s, changed, err := p.host.state(p.ctx, rel, p.o.MaxFile)
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		for d := path.Dir(rel); d != "."; d = path.Dir(d) {
			if p.gone[d] || p.done[d] {
				return state{}, changed, true, nil
			}
		}
		p.conflict(e, rel, whyLink)
		return s, changed, false, nil
	case errors.Is(err, unix.EXDEV):
		p.conflict(e, rel, whyMount)
		return s, changed, false, nil
	case err != nil:
		return s, changed, false, err
	case s.Kind == irregular, s.Kind == unreadable:
		p.conflict(e, rel, whySpecial)
		return s, changed, false, nil
	}
	return s, changed, true, nil
}

// before returns what was at rel when the workspace was made. known is false
// where that is not known.
func (p *planner) before(e *Entry, rel string, have state, changed time.Time) (s state, known bool, err error) {
	if a, ok := p.applied[rel]; ok {
		return a.state, true, nil
	}
	folders := have.Kind == folder && e.hasOld() && e.OldMode.IsDir() // have no content to lose
	if p.o.Original != nil && !folders {
		return p.version(rel, have, changed)
	}
	if p.live && have.Kind != absent && !folders && !changed.Before(p.o.Since) {
		return state{}, false, nil
	}
	if !e.hasOld() {
		return state{}, true, nil
	}
	s.Mode = unixMode(e.OldMode)
	switch e.OldMode.Type() {
	case fs.ModeDir:
		s.Kind = folder
	case fs.ModeSymlink:
		s.Kind, s.Mode, s.Link = symlink, 0, rawName(e.OldLink)
	case 0:
		s.Kind, s.Size, s.Digest = regular, e.OldSize, e.OldDigest
	default:
		return s, false, nil
	}
	return s, true, nil
}

// version returns what the Original knows of rel.
func (p *planner) version(rel string, have state, changed time.Time) (s state, known bool, err error) {
	content, v, ok := p.o.Original.Base(rel)
	if content != nil {
		defer content.Close()
	}
	if !ok || v.Absent {
		return state{}, ok, nil
	}
	s.Mode = unixMode(v.Mode)
	switch v.Mode.Type() {
	case fs.ModeDir:
		s.Kind = folder
		return s, true, nil
	case fs.ModeSymlink:
		s.Kind, s.Mode, s.Link = symlink, 0, rawName(v.Link)
		return s, true, nil
	case 0:
	default:
		return s, false, nil
	}
	s.Kind, s.Size, s.Digest = regular, v.Size, v.Digest
	switch {
	case s.Digest != "":
		return s, true, nil
	case content != nil:
		sum, err := digestOf(p.ctx, content, p.o.MaxFile, make([]byte, 64<<10))
		s.Digest = sum.digest
		return s, !sum.unread, err
	case have.Kind == regular && have.Size == v.Size && have.MTime == v.ModTime.UnixNano() && have.Mode == s.Mode && (v.Changed.IsZero() || v.Changed.Equal(changed)):
		return have, true, nil
	}
	return s, false, nil
}

// removal plans that the file or link rel is removed.
func (p *planner) removal(e *Entry, rel string) (operation, bool, error) {
	op := operation{Path: rawName(rel), entries: []string{e.Path}}
	have, changed, ok, err := p.look(e, rel)
	if err != nil || !ok {
		return op, false, err
	}
	if have.Kind == absent {
		return op, true, nil // both removed it
	}
	was, known, err := p.before(e, rel, have, changed)
	switch {
	case err != nil:
		return op, false, err
	case !known:
		p.conflict(e, rel, whyUnknown)
		return op, false, nil
	case !have.same(was):
		p.conflict(e, rel, whyChanged)
		return op, false, nil
	}
	op.Old = have
	return op, true, p.charge(have.Size)
}

// put plans that the path of e gets what the current tree has. After is set
// where the plan removes what is there first.
func (p *planner) put(e *Entry, after bool) (operation, bool, error) {
	op := operation{Path: rawName(e.Path), origin: e.Path, entries: []string{e.Path}}
	op.New = wanted(e)
	have, changed := state{}, time.Time{}
	if !after {
		var ok bool
		var err error
		if have, changed, ok, err = p.look(e, e.Path); err != nil || !ok {
			return op, false, err
		}
	}
	if have.Kind == absent && !p.hasFolder(path.Dir(e.Path)) {
		p.conflict(e, e.Path, whyFolder)
		return op, false, nil
	}
	op.Old = have
	if after {
		return op, true, p.charge(op.New.Size)
	}
	if have.Kind == folder && op.New.Kind == folder {
		op.New.Mode |= have.Mode &^ 0o777 // those of the host's folder stay
	}
	if have.same(op.New) || e.Kind == Added && have.Kind == folder && op.New.Kind == folder {
		op.New = have // both made it
		return op, true, nil
	}
	fresh := *e
	if e.From != "" {
		fresh.Kind = Added // there was nothing at the new path
	}
	was, known, err := p.before(&fresh, e.Path, have, changed)
	switch {
	case err != nil:
		return op, false, err
	case !known && have.Kind != absent:
		p.conflict(e, e.Path, whyUnknown)
		return op, false, nil
	case !known || have.same(was):
		return op, true, p.charge(have.Size + op.New.Size)
	case have.Kind == absent:
		p.conflict(e, e.Path, whyGone)
		return op, false, nil
	case was.Kind == absent:
		p.conflict(e, e.Path, whyNew)
		return op, false, nil
	}
	return p.join(e, op, was, have)
}

// wanted returns the state that e leads to.
func wanted(e *Entry) state {
	switch e.Mode.Type() {
	case fs.ModeDir:
		return state{Kind: folder, Mode: uint32(e.Mode.Perm())}
	case fs.ModeSymlink:
		return state{Kind: symlink, Link: rawName(e.Link)}
	}
	return state{Kind: regular, Mode: uint32(e.Mode.Perm()), Size: e.Size, Digest: e.Digest}
}

// hasFolder reports whether the host has the folder rel, or gets it.
func (p *planner) hasFolder(rel string) bool {
	if p.made[rel] {
		return true
	}
	fd, err := p.host.dir(rel)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// join plans the merge of a path that changed on both sides.
func (p *planner) join(e *Entry, op operation, was, have state) (operation, bool, error) {
	if was.Kind != have.Kind || was.Kind != op.New.Kind {
		p.conflict(e, e.Path, whyChanged)
		return op, false, nil
	}
	mode, ok := have.Mode, true
	switch {
	case unixPerm(op.New.Mode) == unixPerm(was.Mode):
	case have.Mode == was.Mode:
		mode = op.New.Mode
	default:
		ok = unixPerm(have.Mode) == unixPerm(op.New.Mode)
	}
	if !ok {
		p.conflict(e, e.Path, "its permissions changed on both sides")
		return op, false, nil
	}
	if op.New.Kind == folder {
		op.New.Mode = mode
		return op, true, nil
	}
	mode = unixPerm(mode)
	switch {
	case op.New.Kind == symlink:
		p.conflict(e, e.Path, "it is a link that changed on both sides")
		return op, false, nil
	case op.New.Digest == was.Digest:
		op.New, op.source = have, sourceHost
		op.New.Mode = mode
		return op, true, p.charge(2 * have.Size)
	case have.Digest == was.Digest || have.Digest == op.New.Digest:
		op.New.Mode = mode
		return op, true, p.charge(have.Size + op.New.Size)
	}
	data, why, err := p.merge(e, was, have)
	if err != nil || why != "" {
		if err == nil {
			p.conflict(e, e.Path, why)
		}
		return op, false, err
	}
	op.source, op.data, op.merged = sourceData, data, true
	op.New = state{Kind: regular, Mode: mode, Size: int64(len(data)), Digest: hexDigest(data)}
	return op, true, p.charge(have.Size + op.New.Size)
}

func unixPerm(mode uint32) uint32 { return mode & 0o777 }

// merge joins the lines of both sides. Why says why it cannot.
func (p *planner) merge(e *Entry, was, have state) (data []byte, why string, err error) {
	base, err := p.original(e, was)
	if err != nil {
		return nil, whyChanged + ", and what it was cannot be read", nil
	}
	fd, name, err := p.host.parent(e.Path)
	if err != nil {
		return nil, "", err
	}
	defer unix.Close(fd)
	f, _, err := openFile(fd, name)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	ours, err := io.ReadAll(io.LimitReader(f, maxMerge+1))
	if err != nil {
		return nil, "", err
	}
	theirs, err := p.current.text(e.Path, maxMerge)
	switch {
	case errors.Is(err, errLong) || len(base) > maxMerge || len(ours) > maxMerge:
		return nil, whyChanged + ", and is too long to be merged", nil
	case err != nil:
		return nil, "", err
	case isBinary(base) || isBinary(ours) || isBinary(theirs):
		return nil, whyChanged + ", and is no text", nil
	case hexDigest(ours) != have.Digest || hexDigest(theirs) != e.Digest || hexDigest(base) != was.Digest:
		return nil, "it changes while it is read", nil
	}
	data, ok := merge3(base, ours, theirs)
	if !ok {
		return nil, "the same lines changed in the folder of the host", nil
	}
	if p.merged += len(data); p.merged > maxMerged {
		return nil, "there is too much to be merged at once", nil
	}
	return data, "", nil
}

// original reads the content that a file had when the workspace was made.
func (p *planner) original(e *Entry, was state) ([]byte, error) {
	if a, ok := p.applied[e.Path]; ok {
		return hostpath.File(a.content, maxMerge)
	}
	if p.o.Original == nil {
		return p.base.text(e.Path, maxMerge)
	}
	content, _, ok := p.o.Original.Base(e.Path)
	if !ok || content == nil {
		return nil, fs.ErrNotExist
	}
	defer content.Close()
	return io.ReadAll(io.LimitReader(content, maxMerge+1))
}

// charge bounds the bytes of a plan.
func (p *planner) charge(n int64) error {
	if p.bytes += n; p.bytes <= p.o.MaxBytes {
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeBudgetExceeded, Op: opPlan, Resource: p.host.path,
		Message: fmt.Sprintf("the files that change have more than %d bytes together", p.o.MaxBytes), Hint: "apply some paths only, or raise the bound",
	}
}

// emptied plans the removal of folders, deepest first, and what takes their
// places.
func (p *planner) emptied() error {
	for i := len(p.Entries) - 1; i >= 0; i-- {
		e := &p.Entries[i]
		if e.Kind != Removed && e.Kind != Type || !e.OldMode.IsDir() || p.bad[e.Path] || p.done[e.Path] {
			continue
		}
		have, _, ok, err := p.look(e, e.Path)
		if err != nil {
			return failed(opPlan, e.Path, err)
		}
		if !ok {
			continue
		}
		if have.Kind != absent {
			if have.Kind != folder {
				p.conflict(e, e.Path, whyChanged)
				continue
			}
			names, err := p.host.names(e.Path)
			if err != nil {
				return failed(opPlan, e.Path, err)
			}
			if left := slices.DeleteFunc(names, func(n string) bool { return p.gone[path.Join(e.Path, n)] }); len(left) > 0 {
				p.conflict(e, e.Path, "the folder of the host holds "+Quote(left[0])+" in it, which stays")
				continue
			}
			p.removals = append(p.removals, operation{Path: rawName(e.Path), Old: have, entries: []string{e.Path}})
			p.gone[e.Path] = true
		}
		if e.hasNow() {
			op, ok, err := p.put(e, true)
			if err != nil {
				return failed(opPlan, e.Path, err)
			}
			if ok {
				p.add(op)
			}
		}
	}
	return nil
}

// kept reports whether dir is or lies in a folder that something else was to
// replace, and that stays.
func (p *planner) kept(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if p.bad[dir] && p.replaced[dir] {
			return true
		}
	}
	return false
}

// finish orders the operations: removals from the deepest path up, folders from
// the top down, files, and the modes of folders from the deepest up.
func (p *planner) finish() error {
	up := func(a, b operation) int { return strings.Compare(string(b.Path)+"/", string(a.Path)+"/") }
	down := func(a, b operation) int { return strings.Compare(string(a.Path)+"/", string(b.Path)+"/") }
	slices.SortStableFunc(p.removals, up)
	slices.SortStableFunc(p.folders, down)
	slices.SortStableFunc(p.puts, down)
	slices.SortStableFunc(p.modes, up)
	for _, op := range slices.Concat(p.removals, p.folders, p.puts, p.modes) {
		if slices.ContainsFunc(op.entries, func(e string) bool { return p.bad[e] }) || p.kept(path.Dir(string(op.Path))) {
			continue
		}
		p.ops = append(p.ops, op)
		s := Step{Path: string(op.Path), Action: Write}
		switch {
		case op.New.Kind == absent:
			s.Action = Remove
		case op.merged:
			s.Action = Merge
		case op.Old.Kind == op.New.Kind && op.Old.Digest == op.New.Digest && op.Old.Link == op.New.Link:
			s.Action = Chmod
		}
		p.Steps = append(p.Steps, s)
	}
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(struct {
		Folder  rawName
		Ops     []operation
		Refused []Entry
		Con     []Conflict
	}{rawName(p.folder), p.ops, p.Refused, p.Conflicts}); err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, opPlan, "cannot encode the plan: %w", err)
	}
	p.Digest = hex.EncodeToString(h.Sum(nil))
	return nil
}

// Err returns why the plan cannot be applied as a whole: an error of code
// CodeBusy for conflicts, CodeCapabilityBlocked for changes without consent, or
// nil.
func (p *Plan) Err() error {
	switch {
	case p.o.Partial:
		return nil
	case len(p.Refused) > 0:
		e := &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: opApply, Resource: p.Refused[0].Path,
			Message: fmt.Sprintf("%s: %s", Quote(p.Refused[0].Path), reason(&p.Refused[0])),
			Hint:    "look at the change and allow its risk or its path, or apply other paths",
		}
		if n := len(p.Refused) - 1; n > 0 {
			e.Message += fmt.Sprintf(", and %d more need a consent of their own", n)
		}
		if p.Refused[0].Level() == Never || p.Refused[0].Unread {
			e.Hint = "apply other paths"
		}
		return e
	case len(p.Conflicts) > 0:
		e := &sandbox.Error{
			Code: sandbox.CodeBusy, Op: opApply, Resource: p.Conflicts[0].Path,
			Message: fmt.Sprintf("%s: %s", Quote(p.Conflicts[0].Path), p.Conflicts[0].Why),
			Hint:    "compare the two by hand, or apply other paths",
		}
		if n := len(p.Conflicts) - 1; n > 0 {
			e.Message += fmt.Sprintf(", and %d more conflict", n)
		}
		return e
	}
	return nil
}

// reason returns why a change needs a consent of its own.
func reason(e *Entry) string {
	level, why := Plain, "it is too long, or cannot be read"
	for _, f := range e.Findings {
		if f.Risk.Level() > level {
			level, why = f.Risk.Level(), f.Why
		}
	}
	return why
}
