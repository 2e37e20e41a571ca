// Media: this part of the package stages what came in from outside, the attachments of a
// message say, in a workspace: copied to <workspace>/media/inbound/ under a
// clean name of its own, where the sandbox finds it.
//
// Two sides are not trusted. What a [Source] hands over was named and filled
// by the sender of the message: names are made clean, sizes bounded, and the
// type is determined by content. What lies in the workspace was put there by the
// sandbox, which may run meanwhile: folders are opened through no link and
// held by descriptor, content goes to a new file that is given away by its
// descriptor and only then named, and an existing name is never taken.
//
// A call stages all of its files or none. What a program that was killed left
// is a file under a temporary name, which [Stager.Sweep] removes.

package workspace

import (
	"context"
	"io"
	"os"
	"path"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// Where files are staged, below the workspace.
const (
	mediaDir   = "media"
	inboundDir = "inbound"
)

// InboundDir is where a sandbox finds what was staged.
const InboundDir = sandbox.WorkspaceDir + "/" + mediaDir + "/" + inboundDir

// A Source is where files come from. It is safe for concurrent use.
type Source interface {
	// Open opens what ref means. What ref may mean is the source's to decide,
	// and it treats ref as written by a stranger. The end of ctx ends reading
	// too. Errors are of type *[sandbox.Error]: CodeValidation for a ref that
	// is none, CodeCapabilityBlocked for one that is not allowed, CodeNotFound
	// where nothing is there.
	Open(ctx context.Context, ref string) (io.ReadCloser, Info, error)
}

// An Info is what a source says about a file.
type Info struct {
	Name string // as the sender had it; nothing about it is checked
	Size int64  // bytes; below zero is not known
}

// The bounds of a call where Options does not say otherwise.
const (
	DefaultMaxFile  = 64 << 20
	DefaultMaxTotal = 256 << 20
	DefaultMaxFiles = 32
	DefaultTimeout  = 5 * time.Minute

	maxBytes = 1 << 50 // above what any bound may be set to
)

// Options say where a Stager puts files and how much it takes. Zero bounds
// mean the defaults.
type Options struct {
	Workspace string        // the workspace on the host: absolute, and no part of the path is a link
	Owner     Owner         // the user that the sandbox runs as
	MaxFile   int64         // bytes of one file
	MaxTotal  int64         // bytes of all files of a call
	MaxFiles  int           // files of a call
	Timeout   time.Duration // of a call
}

// A Staged is one file that a call has put into the workspace.
type Staged struct {
	Ref      string `json:"ref"`      // as the caller gave it
	Original string `json:"original"` // the sender's name for it: make it safe before showing it
	Path     string `json:"path"`     // inside the sandbox, below InboundDir
	Size     int64  `json:"size"`     // bytes
	SHA256   string `json:"sha256"`   // of the content as it came, in hex: the file is the sandbox's from then on
	MIME     string `json:"mime"`     // by content, whatever the name says
}

// A Stager stages files in one workspace. It is safe for concurrent use, also
// by many processes. Errors are of type *[sandbox.Error].
type mediaStager struct {
	o Options
}

// New returns a stager, and CodeValidation with the field of o at fault. It
// touches nothing yet.
func New(o Options) (*mediaStager, error) {
	switch {
	case !path.IsAbs(o.Workspace) || path.Clean(o.Workspace) != o.Workspace || o.Workspace == "/":
		return nil, invalid("Workspace", "%q is not a clean absolute path of a folder", o.Workspace)
	case o.Owner.UID < 1 || o.Owner.GID < 1:
		return nil, invalid("Owner", "uid %d and gid %d must be above 0: sandboxes never run as root", o.Owner.UID, o.Owner.GID)
	case o.MaxFile < 0 || o.MaxFile > maxBytes:
		return nil, invalid("MaxFile", "%d is not between 0 and %d", o.MaxFile, int64(maxBytes))
	case o.MaxTotal < 0 || o.MaxTotal > maxBytes:
		return nil, invalid("MaxTotal", "%d is not between 0 and %d", o.MaxTotal, int64(maxBytes))
	case o.MaxFiles < 0:
		return nil, invalid("MaxFiles", "%d is below 0", o.MaxFiles)
	case o.Timeout < 0:
		return nil, invalid("Timeout", "%v is below 0", o.Timeout)
	}
	o.MaxFile = or(o.MaxFile, DefaultMaxFile)
	o.MaxTotal = or(o.MaxTotal, DefaultMaxTotal)
	o.MaxFiles = or(o.MaxFiles, DefaultMaxFiles)
	o.Timeout = or(o.Timeout, DefaultTimeout)
	return &mediaStager{o: o}, nil
}

func or[T int | int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Stage copies what refs mean in src into the workspace and says where each
// came to lie, in the order of refs. Either all are there or, with an error,
// none: nothing gets its name before everything was copied.
//
// The codes of errors, beside those of the source: CodeCapabilityBlocked for
// too many files, too much, and for a workspace in which media or inbound is
// something else than a folder; CodeBudgetExceeded where the workspace is
// full; CodeUnavailable, worth another try, for a file that changed while it
// was copied, and where the disk of the machine is full; CodeTimeout.
func (s *mediaStager) Stage(ctx context.Context, src Source, refs []string) ([]Staged, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	if len(refs) > s.o.MaxFiles {
		return nil, refused("", "%d files are more than the %d that one call may bring", len(refs), s.o.MaxFiles)
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	in, err := openInbound(s.o.Workspace, s.o.Owner)
	if err != nil {
		return nil, s.room(err)
	}
	defer in.close()
	c := call{s: s, src: src, in: in, left: s.o.MaxTotal}
	defer c.drop()
	for _, ref := range refs {
		if err := c.copy(ctx, ref); err != nil {
			return nil, timeout(ctx, ref, s.room(err))
		}
	}
	out, err := c.name()
	return out, s.room(err)
}

// A call is one run of Stage.
type call struct {
	s    *mediaStager
	src  Source
	in   *inbound
	left int64 // bytes that the call may still bring
	got  []*arrival
}

// An arrival is a file that was copied.
type arrival struct {
	staged Staged
	tmp    string // its temporary name; empty when it has none any more
	file   os.FileInfo
}

// copy brings one file in under a temporary name.
func (c *call) copy(ctx context.Context, ref string) error {
	r, info, err := c.src.Open(ctx, ref)
	if err != nil {
		return err
	}
	defer r.Close()
	limit, what := c.s.o.MaxFile, "that one file may have"
	if c.left < limit {
		limit, what = c.left, "that are left for this call"
	}
	if info.Size > limit {
		return refused(ref, "its %d bytes are more than the %d %s", info.Size, limit, what)
	}
	a := &arrival{staged: Staged{Ref: ref, Original: info.Name}}
	c.got = append(c.got, a)
	if err := c.in.receive(ctx, a, r, info, limit); err != nil {
		return err
	}
	if a.staged.Size > limit {
		return refused(ref, "it has more than the %d bytes %s", limit, what)
	}
	c.left -= a.staged.Size
	return nil
}

// name gives everything that was copied its name.
func (c *call) name() ([]Staged, error) {
	var out []Staged
	for _, a := range c.got {
		base, err := c.in.place(a)
		if err != nil {
			c.takeBack(out)
			return nil, err
		}
		a.staged.Path = path.Join(InboundDir, base)
		out = append(out, a.staged)
	}
	if err := c.in.confirm(out, c.got); err != nil {
		c.takeBack(out)
		return nil, err
	}
	return out, nil
}

// takeBack removes what already has its name, as far as it is still what was
// put there.
func (c *call) takeBack(placed []Staged) {
	for i, s := range placed {
		base := path.Base(s.Path)
		if fi, err := c.in.dir.Lstat(base); err == nil && os.SameFile(fi, c.got[i].file) {
			_ = c.in.dir.Remove(base)
		}
	}
}

// drop removes temporary names.
func (c *call) drop() {
	for _, a := range c.got {
		if a.tmp != "" {
			_ = c.in.dir.Remove(a.tmp)
		}
	}
}
