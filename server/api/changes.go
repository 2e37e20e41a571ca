package api

import (
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// The content types of changes as text: patches, and everything else.
const (
	ContentPatch = "text/x-diff"
	ContentPlain = "text/plain"
)

// PathText returns a path of a file system, which is bytes, as text that JSON and
// queries can represent: as it is, and quoted as git quotes names where it is no
// UTF-8, has a character U+0000, or begins with a double quote. [PathOf] restores
// it.
func PathText(path string) string {
	if utf8.ValidString(path) && !strings.HasPrefix(path, `"`) && !strings.ContainsRune(path, 0) {
		return path
	}
	return change.Quote(path)
}

// PathOf returns the path that [PathText] has returned text for. It reports false
// for a text that no path has.
func PathOf(text string) (string, bool) {
	if text == "" {
		return "", true
	}
	return change.Unquote(text)
}

// A WorkspaceChange is one difference in a workspace.
type WorkspaceChange struct {
	Path       string          `json:"path" doc:"Relative to the workspace. Quoted as git quotes names where it is no UTF-8 or begins with a double quote; so are from, oldLink and link"`
	Kind       change.Kind     `json:"kind" enum:"added,removed,modified,renamed,mode,type" doc:"mode: the permissions alone; type: a file, link or folder took the place of one of another type"`
	From       string          `json:"from,omitempty" doc:"The old path of a renamed file"`
	Similarity int             `json:"similarity,omitempty" doc:"Of a renamed file, in percent"`
	OldMode    string          `json:"oldMode,omitempty" doc:"Type and permissions in octal as git and stat have them, such as 100644; absent for an added path"`
	Mode       string          `json:"mode,omitempty" doc:"As oldMode; absent for a removed path"`
	OldSize    int64           `json:"oldSize,omitempty" doc:"In bytes"`
	Size       int64           `json:"size,omitempty" doc:"In bytes"`
	OldLink    string          `json:"oldLink,omitempty" doc:"The target of a symbolic link"`
	Link       string          `json:"link,omitempty" doc:"The target of a symbolic link"`
	OldDigest  string          `json:"oldDigest,omitempty" doc:"SHA-256 of the content of a file in hexadecimal"`
	Digest     string          `json:"digest,omitempty" doc:"SHA-256 of the content of a file in hexadecimal"`
	Binary     bool            `json:"binary,omitempty" doc:"The old or the new content is no text"`
	OldType    string          `json:"oldType,omitempty" doc:"Media type by content, of binary files"`
	Type       string          `json:"type,omitempty" doc:"Media type by content, of binary files"`
	Unread     bool            `json:"unread,omitempty" doc:"It is too long or cannot be read; such a change is never applied"`
	Findings   []ChangeFinding `json:"findings,omitempty" doc:"The risks"`
}

// A ChangeFinding is one risk of a change.
type ChangeFinding struct {
	Risk    change.Risk `json:"risk" doc:"Such as git, editor or ci; docs/changes.md has all of them"`
	Why     string      `json:"why" doc:"What makes it a risk, in words"`
	Consent string      `json:"consent" enum:"apply,own,never" doc:"apply: applying is the consent; own: the risk or the path has to be allowed; never: it is not applied"`
}

// ChangeList has what differs in a workspace.
type ChangeList struct {
	Items  []WorkspaceChange `json:"items"`
	Folder string            `json:"folder,omitempty" doc:"Of the host, which a private workspace is a view of; for admins alone"`
	Since  string            `json:"since,omitempty" doc:"The id of the checkpoint that the workspace is compared with"`
}

// ApplyChanges says which changes of a private workspace to apply to the folder of
// the host.
type ApplyChanges struct {
	Paths      []string      `json:"paths,omitempty" maxitems:"10000" maxlen:"16002" doc:"Files and folders, relative to the workspace and written as in the answer of listChanges; absent means all"`
	AllowRisks []change.Risk `json:"allowRisks,omitempty" maxitems:"100" doc:"Consents by risk"`
	AllowPaths []string      `json:"allowPaths,omitempty" maxitems:"10000" maxlen:"16002" doc:"Consents by path, for what lies below it too"`
	Partial    bool          `json:"partial,omitempty" doc:"Leave out what conflicts or has no consent; without it nothing is done then"`
	DryRun     bool          `json:"dryRun,omitempty" doc:"Plan, and write nothing"`
	Digest     string        `json:"digest,omitempty" maxlen:"128" doc:"Of a plan that was shown before: another one is not applied, but a problem of status 409"`
}

// A ChangeStep is one action at a path of the folder.
type ChangeStep struct {
	Path   string        `json:"path"`
	Action change.Action `json:"action" enum:"write,merge,chmod,remove"`
}

// A ChangeConflict is a change that cannot be applied or taken back, because the
// folder changed too.
type ChangeConflict struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// A ChangePlan is what an application does.
type ChangePlan struct {
	Entries   []WorkspaceChange `json:"entries" doc:"The selected changes"`
	Steps     []ChangeStep      `json:"steps" doc:"What is done, in this order"`
	Conflicts []ChangeConflict  `json:"conflicts,omitempty" doc:"What stays as it is in the folder"`
	Refused   []WorkspaceChange `json:"refused,omitempty" doc:"Changes without the consent that they need"`
	Digest    string            `json:"digest" doc:"Of all that is done, with the content"`
}

// A ChangeReport is what was done to the folder.
type ChangeReport struct {
	Done      []ChangeStep     `json:"done"`
	Conflicts []ChangeConflict `json:"conflicts,omitempty" doc:"What was left as it is"`
}

// AppliedChanges is what an application came to. Where nothing was applied because
// of conflicts or missing consents, Plan has them and Problem says so.
type AppliedChanges struct {
	Applied bool          `json:"applied" doc:"At least one change was written to the folder and is there"`
	ID      string        `json:"id,omitempty" doc:"Which undoChanges takes back; absent where nothing was begun"`
	Folder  string        `json:"folder" doc:"Of the host"`
	Plan    ChangePlan    `json:"plan"`
	Report  *ChangeReport `json:"report,omitempty" doc:"Absent where nothing was done"`
	Problem *Problem      `json:"problem,omitempty" doc:"Why the plan was not applied as a whole"`
}

// DiscardChanges says which changes of a workspace to take back.
type DiscardChanges struct {
	Paths []string `json:"paths,omitempty" maxitems:"10000" maxlen:"16002" doc:"As for applyChanges; absent means all"`
}

// DiscardedChanges has what was taken back.
type DiscardedChanges struct {
	Items []WorkspaceChange `json:"items"`
}

// UndoChanges says which application to take back.
type UndoChanges struct {
	ID      string `json:"id,omitempty" maxlen:"128" doc:"Of the answer of applyChanges; absent means the last one that was not taken back"`
	Partial bool   `json:"partial,omitempty" doc:"Take back the others where some conflict; without it nothing is done then"`
}

// UndoneChanges is what taking back an application came to.
type UndoneChanges struct {
	ID      string       `json:"id"`
	Folder  string       `json:"folder" doc:"Of the host"`
	Report  ChangeReport `json:"report"`
	Problem *Problem     `json:"problem,omitempty" doc:"Why not all of it was taken back"`
}

// ChangesOf returns entries for an answer.
func ChangesOf(entries []change.Entry) []WorkspaceChange {
	out := make([]WorkspaceChange, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		c := WorkspaceChange{
			Path: PathText(e.Path), Kind: e.Kind, From: PathText(e.From), Similarity: e.Similarity, OldSize: e.OldSize, Size: e.Size,
			OldLink: PathText(e.OldLink), Link: PathText(e.Link), OldDigest: e.OldDigest, Digest: e.Digest,
			Binary: e.Binary, OldType: e.OldType, Type: e.Type, Unread: e.Unread,
		}
		if e.Kind != change.Added {
			c.OldMode = modeText(e.OldMode)
		}
		if e.Kind != change.Removed {
			c.Mode = modeText(e.Mode)
		}
		for _, f := range e.Findings {
			consent := "apply"
			switch f.Risk.Level() {
			case change.Own:
				consent = "own"
			case change.Never:
				consent = "never"
			}
			c.Findings = append(c.Findings, ChangeFinding{Risk: f.Risk, Why: f.Why, Consent: consent})
		}
		out = append(out, c)
	}
	return out
}

// Entry returns a change of an answer as package change has it. It reports false
// for one that no daemon sends.
func (c WorkspaceChange) Entry() (e change.Entry, ok bool) {
	e = change.Entry{
		Kind: c.Kind, Similarity: c.Similarity, OldSize: c.OldSize, Size: c.Size, OldDigest: c.OldDigest, Digest: c.Digest,
		Binary: c.Binary, OldType: c.OldType, Type: c.Type, Unread: c.Unread,
	}
	ok = c.Path != ""
	for to, text := range map[*string]string{&e.Path: c.Path, &e.From: c.From, &e.OldLink: c.OldLink, &e.Link: c.Link} {
		path, valid := PathOf(text)
		*to, ok = path, ok && valid
	}
	for to, text := range map[*fs.FileMode]string{&e.OldMode: c.OldMode, &e.Mode: c.Mode} {
		mode, valid := modeOfText(text)
		*to, ok = mode, ok && valid
	}
	for _, f := range c.Findings {
		e.Findings = append(e.Findings, change.Finding{Risk: f.Risk, Why: f.Why})
	}
	return e, ok
}

// AppliedChangesOf returns the result of an application for an answer.
func AppliedChangesOf(a manager.Applied) AppliedChanges {
	out := AppliedChanges{ID: a.ID, Folder: a.Folder, Plan: ChangePlan{
		Entries: ChangesOf(a.Plan.Entries), Steps: stepsOf(a.Plan.Steps), Conflicts: conflictsOf(a.Plan.Conflicts), Digest: a.Plan.Digest,
	}}
	if len(a.Plan.Refused) > 0 {
		out.Plan.Refused = ChangesOf(a.Plan.Refused)
	}
	if a.Report != nil {
		r := changeReportOf(a.Report)
		out.Report, out.Applied = &r, len(r.Done) > 0
	}
	return out
}

// UndoneChangesOf returns the result of taking back an application for an answer.
func UndoneChangesOf(u manager.Undone) UndoneChanges {
	return UndoneChanges{ID: u.ID, Folder: u.Folder, Report: changeReportOf(u.Report)}
}

func changeReportOf(r *change.Report) ChangeReport {
	return ChangeReport{Done: stepsOf(r.Done), Conflicts: conflictsOf(r.Conflicts)}
}

func stepsOf(list []change.Step) []ChangeStep {
	out := make([]ChangeStep, 0, len(list))
	for _, s := range list {
		out = append(out, ChangeStep{Path: PathText(s.Path), Action: s.Action})
	}
	return out
}

func conflictsOf(list []change.Conflict) (out []ChangeConflict) {
	for _, c := range list {
		out = append(out, ChangeConflict{Path: PathText(c.Path), Why: c.Why})
	}
	return out
}

// The bits of a mode as stat(2) has them.
const (
	statSetuid = 0o4000
	statSetgid = 0o2000
	statSticky = 0o1000
	statType   = 0o170000
)

// statTypes returns the types of files with their bits in stat(2). A type that is
// none of them has no bit.
func statTypes() map[fs.FileMode]uint64 {
	return map[fs.FileMode]uint64{
		0: 0o100000, fs.ModeDir: 0o040000, fs.ModeSymlink: 0o120000, fs.ModeNamedPipe: 0o010000, fs.ModeSocket: 0o140000,
		fs.ModeDevice: 0o060000, fs.ModeDevice | fs.ModeCharDevice: 0o020000, fs.ModeIrregular: 0,
	}
}

// modeText returns a mode in octal as stat(2) has it, such as 100644.
func modeText(m fs.FileMode) string {
	bits := uint64(m.Perm()) | statTypes()[m.Type()]
	for flag, bit := range map[fs.FileMode]uint64{fs.ModeSetuid: statSetuid, fs.ModeSetgid: statSetgid, fs.ModeSticky: statSticky} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	text := strconv.FormatUint(bits, 8)
	return strings.Repeat("0", max(0, 6-len(text))) + text
}

// modeOfText returns the mode of a text of modeText, and 0 for "".
func modeOfText(text string) (fs.FileMode, bool) {
	if text == "" {
		return 0, true
	}
	bits, err := strconv.ParseUint(text, 8, 16)
	if err != nil {
		return 0, false
	}
	m := fs.FileMode(bits & 0o777)
	for flag, bit := range map[fs.FileMode]uint64{fs.ModeSetuid: statSetuid, fs.ModeSetgid: statSetgid, fs.ModeSticky: statSticky} {
		if bits&bit != 0 {
			m |= flag
		}
	}
	for kind, bit := range statTypes() {
		if bits&statType == bit {
			return m | kind, true
		}
	}
	return 0, false
}
