package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/bulkhead-dev/sandbox/egress/secret"
)

// gzipMagic is the start of a gzip stream, with the only compression method.
const gzipMagic = "\x1f\x8b\x08"

// maxHeld is how many bytes of an archive are held back until they are
// searched, so that a value among them can be replaced. An archive with twice
// as many bytes that decompress to nothing is refused.
const maxHeld = 1 << 20

var (
	errSecretInArchive = errors.New("the host sent a secret back within an archive, of which a part has passed on")
	errEmptyArchive    = errors.New("the host sent an archive that has a megabyte of nothing, which cannot be searched for secrets")
)

// searched returns body without values of secrets. A body that is itself gzip,
// such as a package, is searched in decompressed form. It is passed on byte
// for byte if no value is in it: clients compare packages with digests.
func searched(secrets *secret.Set, body io.Reader) io.Reader {
	return &late{open: func() (io.Reader, error) {
		in := bufio.NewReader(body)
		if b, _ := in.Peek(1); len(b) == 1 && b[0] == gzipMagic[0] { // a body of another type never waits for further bytes
			if b, _ := in.Peek(len(gzipMagic)); string(b) == gzipMagic {
				return secrets.ScrubBody(newArchive(secrets, in)), nil // the fields of the gzip header are not compressed
			}
		}
		return secrets.ScrubBody(in), nil
	}}
}

// An archive is a gzip stream that is passed on unchanged while its content is
// searched. Bytes of it are passed on once all their content is known to
// contain no value, and none before maxHeld bytes or the end are reached.
//
// If a value is found before anything was passed on, the archive is compressed
// again with the stand-in. If it is found later, the archive ends with an
// error. Bytes that are not gzip, or follow the gzip stream, are passed on
// unchanged. The caller searches all bytes that are passed on once more.
type archive struct {
	secrets *secret.Set
	in      *bufio.Reader
	raw     bytes.Buffer // read from in and not passed on
	inErr   error        // error of in, once it occurred

	held     holding
	scrubbed io.Reader // content of held, without values
	buf      []byte

	marks []mark // positions in raw and content that correspond, for content not compared yet
	taken mark   // read position in both

	ready  int       // bytes of raw that may pass on
	passed bool      // something has passed on
	rest   io.Reader // bytes that follow the archive
}

// A mark is a number of bytes of the archive, and of the content in them.
type mark struct{ raw, plain int64 }

// A holding is the decompressed content of an archive.
type holding struct {
	a     *archive
	gz    *gzip.Reader
	plain bytes.Buffer // read and not compared yet
	err   error        // error of gz, once it occurred
}

func newArchive(secrets *secret.Set, in *bufio.Reader) *archive {
	a := &archive{secrets: secrets, in: in, buf: make([]byte, 32<<10)}
	a.held.a = a
	a.scrubbed = secrets.ScrubBody(&a.held)
	return a
}

// consumed is the input of the decompressor. It has ReadByte, so that the
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

// room returns an error if too much was read of which nothing can be passed
// on.
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

// Read implements io.Reader. The scrubber reads at least as much at once as a
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

// end returns the error that ends the content: that of the surrounding body,
// if there is one. Content that is no longer gzip ends there.
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

// search compares the next part of the content with its scrubbed form.
func (a *archive) search() error {
	n, err := a.scrubbed.Read(a.buf)
	switch plain := a.held.plain.Next(n); {
	case !bytes.Equal(plain, a.buf[:n]), err == io.EOF && a.held.plain.Len() > 0:
		return a.replace()
	case err == io.EOF:
		a.ready, a.passed, a.rest = a.raw.Len(), true, a.in // in is at its end, or no longer gzip
	case err != nil:
		return err
	case a.passed || a.raw.Len() >= maxHeld:
		compared := a.taken.plain - int64(a.held.plain.Len())
		for len(a.marks) > 0 && a.marks[0].plain <= compared {
			a.ready, a.passed = a.raw.Len()-int(a.taken.raw-a.marks[0].raw), true
			a.marks = a.marks[1:]
		}
	default:
		a.marks = nil // nothing is passed on before there are later marks
	}
	return nil
}

// replace compresses the archive again, without values.
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

// A gzipped compresses from as gzip. Bytes are passed on as soon as they were
// read.
type gzipped struct {
	from io.Reader
	buf  []byte
	out  bytes.Buffer
	to   *gzip.Writer
	err  error // error of from, once it occurred
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
