package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/bulkhead-dev/sandbox/egress/secret"
)

// gzipMagic is how gzip begins, with the only method that there is.
const gzipMagic = "\x1f\x8b\x08"

// maxHeld is how many bytes of an archive wait until they are searched, so that
// a value among them can be replaced. Twice as many that hold nothing are no
// archive that anything is packed into.
const maxHeld = 1 << 20

var (
	errSecretInArchive = errors.New("the host sent a secret back within an archive, of which a part has passed on")
	errEmptyArchive    = errors.New("the host sent an archive that has a megabyte of nothing, which cannot be searched for secrets")
)

// searched returns body without values of secrets. A body that is gzip itself,
// such as a package, is searched as what it holds. It passes on byte for byte
// where no value is in it: clients compare packages with digests.
func searched(secrets *secret.Set, body io.Reader) io.Reader {
	return &late{open: func() (io.Reader, error) {
		in := bufio.NewReader(body)
		if b, _ := in.Peek(1); len(b) == 1 && b[0] == gzipMagic[0] { // no other body waits for more than it has
			if b, _ := in.Peek(len(gzipMagic)); string(b) == gzipMagic {
				return secrets.ScrubBody(newArchive(secrets, in)), nil // the fields of its head are in plain
			}
		}
		return secrets.ScrubBody(in), nil
	}}
}

// An archive is a gzip stream that passes on as it is while what it holds is
// searched. A byte of it passes on when all that it holds is known to have no
// value, and none does before maxHeld bytes or the end are reached.
//
// When a value comes before anything has passed on, the archive is compressed
// anew, with the stand-in. When it comes later the archive ends with an error.
// Bytes that are no gzip, or none any more, pass on as they are. The caller
// searches all that passes on once more.
type archive struct {
	secrets *secret.Set
	in      *bufio.Reader
	raw     bytes.Buffer // what was read from in and has not passed on
	inErr   error        // of in, once it came

	held     holding
	scrubbed io.Reader // what held has given, without values
	buf      []byte

	marks []mark // how far raw and content go together, for what is not compared yet
	taken mark   // how far both have been read

	ready  int       // bytes of raw that may pass on
	passed bool      // something has passed on
	rest   io.Reader // what follows raw when the archive itself is done
}

// A mark is a number of bytes of the archive, and of the content in them.
type mark struct{ raw, plain int64 }

// A holding is the content of an archive as it is decompressed.
type holding struct {
	a     *archive
	gz    *gzip.Reader
	plain bytes.Buffer // what was read and not compared yet
	err   error        // of gz, once it came
}

func newArchive(secrets *secret.Set, in *bufio.Reader) *archive {
	a := &archive{secrets: secrets, in: in, buf: make([]byte, 32<<10)}
	a.held.a = a
	a.scrubbed = secrets.ScrubBody(&a.held)
	return a
}

// consumed is what the decompressor reads from. It has ReadByte, so that the
// decompressor reads no byte before it needs it.
type consumed struct{ a *archive }

// Read implements io.Reader.
func (c consumed) Read(p []byte) (int, error) {
	if err := c.a.room(); err != nil {
		return 0, err
	}
	n, err := c.a.in.Read(p[:min(len(p), maxHeld/2)])
	c.a.raw.Write(p[:n])
	c.a.taken.raw += int64(n)
	c.a.keep(err)
	return n, err
}

// ReadByte implements io.ByteReader.
func (c consumed) ReadByte() (byte, error) {
	if err := c.a.room(); err != nil {
		return 0, err
	}
	b, err := c.a.in.ReadByte()
	if err == nil {
		c.a.raw.WriteByte(b)
		c.a.taken.raw++
	}
	c.a.keep(err)
	return b, err
}

// room reports whether more may be read, which is bounded where nothing of it
// can pass on.
func (a *archive) room() error {
	if a.raw.Len() > 2*maxHeld {
		a.keep(errEmptyArchive)
		return errEmptyArchive
	}
	return nil
}

func (a *archive) keep(err error) {
	if err != nil {
		a.inErr = err
	}
}

// Read implements io.Reader. The scrubber reads no less at once than a
// decompressor holds, so that everything decompressed has been searched when
// the scrubber has returned it.
func (h *holding) Read(p []byte) (int, error) {
	if h.gz == nil && h.err == nil {
		h.gz, h.err = gzip.NewReader(consumed{h.a})
	}
	if h.err != nil {
		return 0, h.end()
	}
	n, err := h.gz.Read(p)
	h.plain.Write(p[:n])
	if n > 0 {
		h.a.taken.plain += int64(n)
		h.a.marks = append(h.a.marks, h.a.taken)
	}
	if err != nil {
		h.err = err
		err = h.end()
	}
	return n, err
}

// end is how the content ends: with the error of the body that it is in, if
// there is one. Content that is no gzip any more ends there.
func (h *holding) end() error {
	if err := h.a.inErr; err != nil {
		return err
	}
	return io.EOF
}

// Read implements io.Reader.
func (a *archive) Read(p []byte) (int, error) {
	for a.ready == 0 {
		if a.rest != nil {
			return a.rest.Read(p)
		}
		if err := a.search(); err != nil {
			return 0, err
		}
	}
	n := copy(p, a.raw.Next(min(a.ready, len(p))))
	a.ready -= n
	return n, nil
}

// search compares the next part of the content with what it is without values.
func (a *archive) search() error {
	n, err := a.scrubbed.Read(a.buf)
	switch plain := a.held.plain.Next(n); {
	case !bytes.Equal(plain, a.buf[:n]), err == io.EOF && a.held.plain.Len() > 0:
		return a.replace()
	case err == io.EOF:
		a.ready, a.passed, a.rest = a.raw.Len(), true, a.in // in has nothing, or what is no gzip any more
	case err != nil:
		return err
	case a.passed || a.raw.Len() >= maxHeld:
		compared := a.taken.plain - int64(a.held.plain.Len())
		for len(a.marks) > 0 && a.marks[0].plain <= compared {
			a.ready, a.passed = a.raw.Len()-int(a.taken.raw-a.marks[0].raw), true
			a.marks = a.marks[1:]
		}
	default:
		a.marks = nil // nothing passes on before there are later ones
	}
	return nil
}

// replace compresses the archive anew, without values.
func (a *archive) replace() error {
	if a.passed {
		return errSecretInArchive
	}
	gz, err := gzip.NewReader(io.MultiReader(&a.raw, a.in))
	if err != nil {
		return err
	}
	a.rest = newGzipped(a.secrets.ScrubBody(gz))
	return nil
}

// A gzipped is what it is made from as gzip. What was read passes on at once.
type gzipped struct {
	from io.Reader
	buf  []byte
	out  bytes.Buffer
	to   *gzip.Writer
	err  error // of from, once it came
}

func newGzipped(from io.Reader) *gzipped {
	g := &gzipped{from: from, buf: make([]byte, 32<<10)}
	g.to = gzip.NewWriter(&g.out)
	return g
}

// Read implements io.Reader.
func (g *gzipped) Read(p []byte) (int, error) {
	for g.out.Len() == 0 {
		if g.err != nil {
			return 0, g.err
		}
		var n int
		n, g.err = g.from.Read(g.buf)
		if _, err := g.to.Write(g.buf[:n]); err != nil {
			return 0, err
		}
		end := g.to.Flush
		if g.err == io.EOF {
			end = g.to.Close
		}
		if err := end(); err != nil {
			return 0, err
		}
	}
	return g.out.Read(p)
}
