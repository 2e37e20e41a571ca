package change

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

const opRender = "show changes"

// A Format is a form in which changes are shown.
type Format string

// The formats.
const (
	Unified  Format = ""          // patches that "git apply" accepts, without the content of binary files
	Stat     Format = "stat"      // one line for a file with the number of lines, and a bar
	NameOnly Format = "name-only" // the paths, one in a line
)

// RenderOptions say how changes are shown.
type RenderOptions struct {
	Base, Current *Tree // the trees that were compared
	Format        Format
	// Terminal replaces what could steer a terminal in the content of files by
	// visible escapes. Without it contents are written as they are, for git.
	// Names are quoted in both cases.
	Terminal bool
	Color    bool  // as git colours patches; implies Terminal
	Width    int   // columns of Stat, 80 if it is 0
	MaxText  int64 // bytes of a text that is compared by lines, 8 MiB if it is 0; a longer one is shown like a binary file
}

// Render writes changes as git does. Folders and what git cannot represent
// (permissions beside those to execute, pipes) have a line that begins with
// "#" in the unified format, which git ignores.
//
// A file whose content no longer has the digest of its entry is an error of
// code CodeBusy: the trees changed since they were compared. What was written
// before stays written.
func Render(ctx context.Context, w io.Writer, entries []Entry, o RenderOptions) error {
	if o.Width == 0 {
		o.Width = 80
	}
	if o.MaxText == 0 {
		o.MaxText = 8 << 20
	}
	o.Terminal = o.Terminal || o.Color
	r := renderer{ctx: ctx, w: bufio.NewWriter(w), o: o}
	shown := visible(entries)
	var err error
	switch o.Format {
	case Unified:
		for i := range shown {
			if err = r.unified(&shown[i]); err != nil {
				break
			}
		}
	case Stat:
		err = r.stat(shown)
	case NameOnly:
		for i := range shown {
			fmt.Fprintf(r.w, "%s\n", labelOf(&shown[i]))
		}
	default:
		e := sandbox.Errorf(sandbox.CodeValidation, opRender, "there is no format %q", o.Format)
		e.Field, e.Hint = "format", "use stat or name-only, or leave it out"
		return e
	}
	if err != nil {
		return err
	}
	if err := r.w.Flush(); err != nil {
		return sandbox.Errorf(sandbox.CodeUnavailable, opRender, "the output cannot be written: %w", err)
	}
	return nil
}

// RenderRisks writes the changes that need a consent of their own, or are never
// applied, with the reasons.
func RenderRisks(w io.Writer, entries []Entry) error {
	var b strings.Builder
	for i := range entries {
		e := &entries[i]
		if e.Level() == Plain {
			continue
		}
		fmt.Fprintf(&b, "%s\n", labelOf(e))
		for _, f := range e.Findings {
			if f.Risk.Level() != Plain {
				fmt.Fprintf(&b, "    %s: %s\n", f.Risk, termsafe.Line(f.Why))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// visible leaves out folders below which another entry lies, which shows them.
func visible(entries []Entry) []Entry {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int { return strings.Compare(a.Path+"/", b.Path+"/") })
	var out []Entry
	for i, e := range sorted {
		below := i+1 < len(sorted) && within(sorted[i+1].Path, e.Path) && sorted[i+1].Path != e.Path
		if !e.IsDir() || e.Kind == Mode || !below {
			out = append(out, e)
		}
	}
	return out
}

// labelOf names an entry in lists.
func labelOf(e *Entry) string {
	if e.IsDir() {
		return Quote(e.Path + "/")
	}
	return Quote(e.Path)
}

type renderer struct {
	ctx context.Context
	w   *bufio.Writer
	o   RenderOptions
}

// The colours of git.
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	reset = "\x1b[m"
)

// line writes one line of a patch.
func (r *renderer) line(color, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r.o.Color && color != "" {
		text = color + text + reset
	}
	r.w.WriteString(text)
	r.w.WriteByte('\n')
}

// A face is one side of a change.
type face struct {
	mode   fs.FileMode
	size   int64
	digest string
	mime   string
	data   []byte
	exists bool
	opaque bool // not shown by lines
}

// unified writes the patch of one entry.
func (r *renderer) unified(e *Entry) error {
	if err := r.ctx.Err(); err != nil {
		return stopped(opRender, err)
	}
	old, now, err := r.faces(e)
	if err != nil {
		return err
	}
	switch {
	case e.IsDir() && e.Kind == Mode:
		r.line(bold, "# mode of folder %s changed from %s to %s", labelOf(e), octal(e.OldMode), octal(e.Mode))
		return nil
	case e.IsDir():
		r.line(bold, "# folder %s was %s", labelOf(e), e.Kind)
		return nil
	case e.Kind == Type:
		none := face{}
		r.patch(e, e.Path, e.Path, old, none)
		r.patch(e, e.Path, e.Path, none, now)
		return nil
	}
	from := e.Path
	if e.From != "" {
		from = e.From
	}
	r.patch(e, from, e.Path, old, now)
	return nil
}

// faces reads both sides of an entry.
func (r *renderer) faces(e *Entry) (old, now face, err error) {
	if e.hasOld() {
		from := e.Path
		if e.From != "" {
			from = e.From
		}
		old = face{mode: e.OldMode, size: e.OldSize, digest: e.OldDigest, mime: e.OldType, exists: true}
		if err = r.load(r.o.Base, from, e, &old, e.OldLink); err != nil {
			return old, now, err
		}
	}
	if e.hasNow() {
		now = face{mode: e.Mode, size: e.Size, digest: e.Digest, mime: e.Type, exists: true}
		err = r.load(r.o.Current, e.Path, e, &now, e.Link)
	}
	return old, now, err
}

// load fills in the content of a face.
func (r *renderer) load(t *Tree, rel string, e *Entry, f *face, link string) error {
	switch {
	case f.mode.Type() == fs.ModeSymlink:
		f.data = []byte(link)
		return nil
	case !f.mode.IsRegular():
		f.opaque = true
		return nil
	case e.Binary || e.Unread || f.size > r.o.MaxText || e.OldDigest == e.Digest && e.Kind != Type:
		f.opaque = true
		return nil
	}
	data, err := t.text(rel, r.o.MaxText)
	if err == nil && hexDigest(data) == f.digest {
		f.data = data
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeBusy, Op: opRender, Resource: rel, Message: Quote(rel) + " changed since the trees were compared",
		Hint: "compare them again", Retryable: true, Err: err,
	}
}

// gitMode returns the mode by which git records a file; 0 for what it cannot
// record.
func gitMode(m fs.FileMode) int {
	switch {
	case m.Type() == fs.ModeSymlink:
		return 0o120000
	case m.IsRegular() && m.Perm()&0o100 != 0:
		return 0o100755
	case m.IsRegular():
		return 0o100644
	}
	return 0
}

// octal writes permissions as chmod takes them.
func octal(m fs.FileMode) string { return fmt.Sprintf("%04o", unixMode(m)) }

// kindOf names a type of file that git cannot record.
func kindOf(m fs.FileMode) string {
	switch m.Type() {
	case fs.ModeDir:
		return "folder"
	case fs.ModeNamedPipe:
		return "pipe"
	case fs.ModeSocket:
		return "socket"
	case fs.ModeSymlink:
		return "link"
	case 0:
		return "file"
	}
	return "device"
}

// patch writes the patch from one side to the other.
func (r *renderer) patch(e *Entry, from, to string, old, now face) {
	oldMode, mode := gitMode(old.mode), gitMode(now.mode)
	for _, f := range []face{old, now} {
		if f.exists && gitMode(f.mode) == 0 {
			what := "added"
			if !now.exists {
				what = "removed"
			}
			r.line(bold, "# %s %s was %s", kindOf(f.mode), Quote(to), what)
			return
		}
	}
	if old.exists && now.exists && oldMode == mode && old.mode != now.mode && now.mode.IsRegular() {
		r.line(bold, "# mode of %s changed from %s to %s", Quote(to), octal(old.mode), octal(now.mode))
		if e.Kind == Mode {
			return
		}
	}
	r.line(bold, "diff --git %s %s", prefixed("a/", from), prefixed("b/", to))
	switch {
	case !old.exists:
		r.line(bold, "new file mode %06o", mode)
	case !now.exists:
		r.line(bold, "deleted file mode %06o", oldMode)
	case oldMode != mode:
		r.line(bold, "old mode %06o", oldMode)
		r.line(bold, "new mode %06o", mode)
	}
	if from != to {
		r.line(bold, "similarity index %d%%", e.Similarity)
		r.line(bold, "rename from %s", Quote(from))
		r.line(bold, "rename to %s", Quote(to))
	}
	switch {
	case old.exists && now.exists && old.mode.Type() == now.mode.Type() && old.digest == now.digest && old.mode.IsRegular() && !e.Unread:
	case old.opaque && old.exists || now.opaque && now.exists:
		if old.exists && old.size > 0 || now.exists && now.size > 0 {
			r.line("", "Binary files %s and %s differ", described("a/", from, old), described("b/", to, now))
		}
	default:
		r.hunks(from, to, old, now)
	}
}

// described names one side of a binary change with size and type.
func described(prefix, name string, f face) string {
	if !f.exists {
		return "/dev/null"
	}
	mime := f.mime
	if mime == "" {
		mime = "text/plain"
	}
	return fmt.Sprintf("%s (%d bytes, %s)", prefixed(prefix, name), f.size, mime)
}

// context is the number of lines around a change.
const contextLines = 3

// hunks writes what differs between two texts.
func (r *renderer) hunks(from, to string, old, now face) {
	a, b := splitLines(old.data), splitLines(now.data)
	edits := diffLines(a, b)
	if len(edits) == 0 {
		return
	}
	nameA, nameB := header("a/", from), header("b/", to)
	if !old.exists {
		nameA = "/dev/null"
	}
	if !now.exists {
		nameB = "/dev/null"
	}
	r.line(bold, "--- %s", nameA)
	r.line(bold, "+++ %s", nameB)
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a1-edits[n-1].a2 <= 2*contextLines {
			n++
		}
		r.hunk(a, b, edits[:n])
		edits = edits[n:]
	}
}

// hunk writes edits that lie close to each other.
func (r *renderer) hunk(a, b []string, edits []edit) {
	first, last := edits[0], edits[len(edits)-1]
	a1, a2 := max(first.a1-contextLines, 0), min(last.a2+contextLines, len(a))
	b1, b2 := first.b1-(first.a1-a1), last.b2+(a2-last.a2)
	r.line(cyan, "@@ -%s +%s @@", span(a1, a2), span(b1, b2))
	at := a1
	for _, e := range edits {
		r.text("", " ", a[at:e.a1])
		r.text(red, "-", a[e.a1:e.a2])
		r.text(green, "+", b[e.b1:e.b2])
		at = e.a2
	}
	r.text("", " ", a[at:a2])
}

// span writes the lines from to to as a hunk names them.
func span(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprintf("%d", from+1)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

// text writes lines of a file.
func (r *renderer) text(color, sign string, lines []string) {
	for _, l := range lines {
		body, complete := strings.CutSuffix(l, "\n")
		if r.o.Terminal {
			body = termsafe.String(body)
		}
		r.line(color, "%s%s", sign, body)
		if !complete {
			r.line("", `\ No newline at end of file`)
		}
	}
}

// A statLine is one line of the statistics.
type statLine struct {
	name       string
	plus, less int
	binary     string
}

// stat writes the statistics.
func (r *renderer) stat(entries []Entry) error {
	var lines []statLine
	var notes []string
	width, most, plus, less, files := 0, 0, 0, 0, 0
	for i := range entries {
		e := &entries[i]
		l, err := r.count(e)
		if err != nil {
			return err
		}
		lines = append(lines, l)
		if !e.IsDir() {
			files++
		}
		width, most = max(width, termsafe.Width(l.name)), max(most, l.plus+l.less)
		plus, less = plus+l.plus, less+l.less
		if n := noteOf(e); n != "" {
			notes = append(notes, n)
		}
	}
	digits := len(fmt.Sprint(most))
	width = min(width, max(r.o.Width*5/8, 10))
	bar := max(r.o.Width-width-digits-5, 6)
	for _, l := range lines {
		name := l.name
		if over := len(name) - width; over > 0 {
			name = "..." + name[over+3:]
		}
		if l.binary != "" {
			fmt.Fprintf(r.w, " %-*s | %s\n", width, name, l.binary)
			continue
		}
		p, m := l.plus, l.less
		if most > bar {
			p, m = scale(l.plus, bar, most), scale(l.less, bar, most)
		}
		fmt.Fprintf(r.w, " %-*s | %*d%s%s%s\n", width, name, digits, l.plus+l.less, blank(p+m), r.paint(green, strings.Repeat("+", p)), r.paint(red, strings.Repeat("-", m)))
	}
	if len(entries) == 0 {
		return nil
	}
	summary := fmt.Sprintf(" %d %s changed", files, plural(files, "file"))
	if plus > 0 || less == 0 {
		summary += fmt.Sprintf(", %d %s(+)", plus, plural(plus, "insertion"))
	}
	if less > 0 || plus == 0 {
		summary += fmt.Sprintf(", %d %s(-)", less, plural(less, "deletion"))
	}
	fmt.Fprintln(r.w, summary)
	for _, n := range notes {
		fmt.Fprintln(r.w, n)
	}
	return nil
}

func blank(n int) string { return strings.Repeat(" ", min(n, 1)) }

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// scale shortens a bar as git does, so that something stays visible.
func scale(n, bar, most int) int {
	if n == 0 {
		return 0
	}
	return 1 + n*(bar-1)/most
}

func (r *renderer) paint(color, text string) string {
	if !r.o.Color || text == "" {
		return text
	}
	return color + text + reset
}

// count returns the statistics of one entry.
func (r *renderer) count(e *Entry) (statLine, error) {
	l := statLine{name: labelOf(e)}
	if e.From != "" {
		l.name = Quote(e.From) + " => " + Quote(e.Path)
	}
	if err := r.ctx.Err(); err != nil {
		return l, stopped(opRender, err)
	}
	if e.IsDir() {
		l.binary = "folder"
		return l, nil
	}
	old, now, err := r.faces(e)
	if err != nil {
		return l, err
	}
	same := e.OldDigest == e.Digest && e.Digest != "" && e.Kind != Type
	switch {
	case same:
	case e.hasNow() && gitMode(e.Mode) == 0:
		l.binary = kindOf(e.Mode)
	case old.opaque || now.opaque:
		l.binary = fmt.Sprintf("Bin %d -> %d bytes", e.OldSize, e.Size)
		if mime := cmp.Or(e.Type, e.OldType); mime != "" {
			l.binary += " " + mime
		}
	default:
		for _, d := range diffLines(splitLines(old.data), splitLines(now.data)) {
			l.plus, l.less = l.plus+d.b2-d.b1, l.less+d.a2-d.a1
		}
	}
	return l, nil
}

// noteOf returns the line of the summary about modes and names.
func noteOf(e *Entry) string {
	switch {
	case e.IsDir() && e.Kind == Mode:
		return fmt.Sprintf(" mode change %s => %s %s", octal(e.OldMode), octal(e.Mode), labelOf(e))
	case e.IsDir():
		return ""
	case e.Kind == Added:
		return fmt.Sprintf(" create mode %06o %s", gitMode(e.Mode), Quote(e.Path))
	case e.Kind == Removed:
		return fmt.Sprintf(" delete mode %06o %s", gitMode(e.OldMode), Quote(e.Path))
	case e.Kind == Renamed:
		return fmt.Sprintf(" rename %s => %s (%d%%)", Quote(e.From), Quote(e.Path), e.Similarity)
	case e.Kind == Type:
		return fmt.Sprintf(" type change %s => %s %s", kindOf(e.OldMode), kindOf(e.Mode), Quote(e.Path))
	case e.Mode != e.OldMode:
		return fmt.Sprintf(" mode change %s => %s %s", octal(e.OldMode), octal(e.Mode), Quote(e.Path))
	}
	return ""
}
