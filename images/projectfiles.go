package images

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
)

// Bounds of what a build gets.
const (
	maxDockerfile   = 1 << 20   // bytes
	maxContext      = 512 << 20 // bytes of all files
	maxContextFiles = 200_000
)

func projectError(field, resource, format string, args ...any) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: opProject, Field: field, Resource: resource, Message: fmt.Sprintf(format, args...)}
}

// packProject copies the context of p into a temporary file, without what its
// .dockerignore names. It reads the context through an [os.Root]: no link leads out
// of it, and links are packed as links. Owners and times are left out, so that equal
// files have equal digests.
func packProject(ctx context.Context, p about.Project) (_ *packedProject, err error) {
	rel, err := filepath.Rel(p.Context, p.Dockerfile)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, projectError("--from-dockerfile", p.Dockerfile, "it lies outside of the folder %s that the build gets", printable(p.Context))
	}
	root, err := os.OpenRoot(p.Context)
	if err != nil {
		return nil, projectError("--from-dockerfile", p.Context, "the folder cannot be read: %v", err)
	}
	defer root.Close()
	text, err := readIn(root, rel, maxDockerfile)
	if err != nil {
		return nil, projectError("--from-dockerfile", p.Dockerfile, "the Dockerfile cannot be read: %v", err)
	}
	ignored, err := dockerignore(root, rel)
	if err != nil {
		return nil, projectError("--from-dockerfile", p.Context, "its .dockerignore cannot be used: %v", err)
	}
	tmp, err := os.CreateTemp("", "sandbox-context-")
	if err != nil {
		return nil, sandbox.Errorf(sandbox.CodeUnavailable, opProject, "%w", err)
	}
	out := &packedProject{file: tmp, name: filepath.ToSlash(rel), dockerfile: string(text)}
	if err := os.Remove(tmp.Name()); err != nil {
		out.remove()
		return nil, sandbox.Errorf(sandbox.CodeUnavailable, opProject, "%w", err)
	}
	defer func() {
		if err != nil {
			out.remove()
		}
	}()
	sum := sha256.New()
	k := packer{ctx: ctx, root: root, ignored: ignored, keep: out.name, w: tar.NewWriter(io.MultiWriter(tmp, sum))}
	err = fs.WalkDir(root.FS(), ".", k.add)
	if err == nil {
		err = k.w.Close()
	}
	if err == nil {
		out.size, err = tmp.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		var known *sandbox.Error
		if !errors.As(err, &known) {
			err = projectError("--from-dockerfile", p.Context, "the folder cannot be packed: %v", err)
		}
		return nil, err
	}
	out.digest = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}

// readIn reads a file of at most limit bytes.
func readIn(root *os.Root, rel string, limit int64) ([]byte, error) {
	f, err := root.Open(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("it is no regular file"))
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}

// dockerignore returns what the files beside the Dockerfile, or of the context, leave
// out; nil is nothing.
func dockerignore(root *os.Root, dockerfile string) (*patternmatcher.PatternMatcher, error) {
	for _, name := range []string{dockerfile + ".dockerignore", ".dockerignore"} {
		data, err := readIn(root, name, maxDockerfile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		patterns, err := ignorefile.ReadAll(strings.NewReader(string(data)))
		if err != nil {
			return nil, err
		}
		return patternmatcher.New(patterns)
	}
	return nil, nil
}

// A packer writes the entries of a folder to an archive.
type packer struct {
	ctx     context.Context
	root    *os.Root
	ignored *patternmatcher.PatternMatcher
	keep    string // packed in any case
	w       *tar.Writer
	files   int
	bytes   int64
}

func (k *packer) add(name string, e fs.DirEntry, err error) error {
	if err != nil || name == "." {
		return err
	}
	if err := k.ctx.Err(); err != nil {
		return err
	}
	if k.ignored != nil && name != k.keep {
		left, err := k.ignored.MatchesOrParentMatches(name)
		if err != nil {
			return err
		}
		if left {
			// A later pattern may bring back what lies below.
			if e.IsDir() && !k.ignored.Exclusions() && !strings.HasPrefix(k.keep, name+"/") {
				return fs.SkipDir
			}
			return nil
		}
	}
	fi, err := e.Info()
	if err != nil {
		return err
	}
	if k.files++; k.files > maxContextFiles {
		return projectError("--from-dockerfile", name, "the folder has more than %d files; name what the build does not need in .dockerignore", maxContextFiles)
	}
	h := &tar.Header{Name: name, Mode: int64(fi.Mode().Perm()), ModTime: time.Unix(0, 0)}
	switch {
	case fi.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		return k.w.WriteHeader(h)
	case fi.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = k.root.Readlink(name); err != nil {
			return err
		}
		return k.w.WriteHeader(h)
	case fi.Mode().IsRegular():
		return k.addFile(name, h)
	}
	return nil // a socket, a pipe, a device
}

func (k *packer) addFile(name string, h *tar.Header) error {
	f, err := k.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return errors.Join(err, errors.New(name+" changed while it was read"))
	}
	if k.bytes += fi.Size(); k.bytes > maxContext {
		return projectError("--from-dockerfile", name, "the folder has more than %d bytes; name what the build does not need in .dockerignore", maxContext)
	}
	h.Typeflag, h.Size = tar.TypeReg, fi.Size()
	if err := k.w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(k.w, f, fi.Size())
	return err
}

// refusedLine refuses an instruction of a Dockerfile.
func refusedLine(line int, text, why, hint string) error {
	field := "--from-dockerfile"
	if line > 0 {
		field = fmt.Sprintf("--from-dockerfile line %d", line)
	}
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: opProject, Field: field, Resource: clip(printable(text), 120),
		Message: fmt.Sprintf("%q is refused: %s", clip(printable(text), 120), why), Hint: hint,
	}
}

// readDockerfile returns the references of the images that the stages of a
// Dockerfile are built on or copy from, each once, in order. It refuses what would make the engine
// fetch something over the network of the host, and whatever it cannot read as surely
// as the engine does.
func readDockerfile(text string, args map[string]string) ([]string, error) {
	d := dockerfile{args: map[string]string{}, given: args, stages: map[string]bool{}}
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, maxDockerfile+1)
	joined, begun := "", 0
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(strings.TrimPrefix(sc.Text(), "\ufeff"))
		if name, value, ok := strings.Cut(strings.TrimLeft(line, "# \t"), "="); ok && strings.HasPrefix(line, "#") && strings.EqualFold(strings.TrimSpace(name), "escape") && strings.TrimSpace(value) != `\` {
			return nil, refusedLine(n, line, "another character than \\ continues lines", "leave the directive out")
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if joined == "" {
			begun = n
		}
		more := strings.HasSuffix(line, `\`)
		joined += strings.TrimSuffix(line, `\`)
		if more {
			joined += " "
			continue
		}
		if err := d.instruction(begun, joined); err != nil {
			return nil, err
		}
		joined = ""
	}
	if err := sc.Err(); err != nil {
		return nil, projectError("--from-dockerfile", "", "the Dockerfile cannot be read: %v", err)
	}
	if joined != "" {
		if err := d.instruction(begun, joined); err != nil {
			return nil, err
		}
	}
	if len(d.refs) == 0 && !d.scratch {
		return nil, projectError("--from-dockerfile", "", "the Dockerfile has no FROM")
	}
	return d.refs, nil
}

// dockerfile is what was read of one so far.
type dockerfile struct {
	args, given map[string]string // before the first FROM; of the build
	stages      map[string]bool
	begun       bool // a FROM was read
	scratch     bool
	refs        []string
}

func (d *dockerfile) instruction(line int, text string) error {
	word, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(text, "\t", " ")), " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToUpper(word) {
	case "ARG":
		if !d.begun {
			d.arg(rest)
		}
	case "FROM":
		return d.from(line, text, rest)
	case "ONBUILD":
		return refusedLine(line, text, "what it does would run in another build", "leave it out")
	case "ADD":
		return checkAdd(line, text, rest)
	case "COPY":
		return d.copyFrom(line, text, rest)
	}
	return nil
}

func (d *dockerfile) arg(rest string) {
	for _, one := range strings.Fields(rest) {
		name, value, _ := strings.Cut(one, "=")
		if given, ok := d.given[name]; ok {
			value = given
		}
		d.args[name] = strings.Trim(value, `"'`)
	}
}

func (d *dockerfile) from(line int, text, rest string) error {
	d.begun = true
	fields := slices.DeleteFunc(strings.Fields(rest), func(f string) bool { return strings.HasPrefix(f, "--") })
	if len(fields) == 0 {
		return refusedLine(line, text, "it names no image", "write FROM IMAGE")
	}
	ref := d.expand(fields[0])
	if strings.ContainsAny(ref, `$"'\`) {
		return refusedLine(line, text, "the image that it means is not known", "use variables that ARG sets above the first FROM, as $NAME or ${NAME}")
	}
	d.use(ref)
	if len(fields) == 3 && strings.EqualFold(fields[1], "AS") {
		d.stages[strings.ToLower(fields[2])] = true
	}
	return nil
}

// use notes an image unless it is a stage.
func (d *dockerfile) use(ref string) {
	switch {
	case d.stages[strings.ToLower(ref)]:
	case ref == "scratch":
		d.scratch = true
	case !slices.Contains(d.refs, ref):
		d.refs = append(d.refs, ref)
	}
}

// copyFrom notes the image of COPY --from=IMAGE.
func (d *dockerfile) copyFrom(line int, text, rest string) error {
	for _, f := range strings.Fields(rest) {
		from, ok := strings.CutPrefix(f, "--from=")
		if !ok {
			continue
		}
		if strings.Trim(from, "0123456789") == "" {
			return nil // a stage by its number
		}
		if strings.ContainsAny(from, `$"'\`) {
			return refusedLine(line, text, "the image that it means is not known", "name it without variables")
		}
		d.use(from)
	}
	return nil
}

// expand replaces $NAME and ${NAME} by what ARG has set; others stay.
func (d *dockerfile) expand(s string) string {
	for name, value := range d.args {
		s = strings.ReplaceAll(s, "${"+name+"}", value)
		if s == "$"+name {
			s = value
		}
	}
	return s
}

// checkAdd refuses an ADD that may fetch something: the engine does that itself, over
// the network of the host, whatever network the build has.
func checkAdd(line int, text, rest string) error {
	const hint = "use COPY for files of the project, and RUN with curl or git for what is fetched"
	words := strings.Fields(rest)
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		words = words[1:]
	}
	if rest := strings.Join(words, " "); strings.HasPrefix(rest, "[") {
		words = nil
		if err := json.Unmarshal([]byte(rest), &words); err != nil {
			return refusedLine(line, text, "it is not known what it adds", hint)
		}
	} else if strings.ContainsAny(rest, `"'\`) {
		return refusedLine(line, text, "it is not known what it adds", hint)
	}
	for _, w := range words {
		lower := strings.ToLower(w)
		if strings.ContainsAny(w, "$") || strings.Contains(lower, "://") || strings.HasPrefix(lower, "git@") || strings.HasPrefix(lower, "github.com/") || strings.HasSuffix(path.Clean(lower), ".git") {
			return refusedLine(line, text, "the engine would fetch it over the network of the host", hint)
		}
	}
	return nil
}
