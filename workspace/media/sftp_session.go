package media

import (
	"errors"
	"io"
	"io/fs"
)

const (
	blockSize = 32 << 10 // bytes of one read, what every server answers
	window    = 16       // reads under way, so that distance costs no speed
)

// Reasons for which a server's file is not taken.
var (
	errLink    = errors.New("is reached over a link")
	errNoFile  = errors.New("is no regular file")
	errRefused = errors.New("the server refuses it")
)

// A session speaks the protocol with one server, for one file. It is for one
// goroutine. It trusts nothing that the server says: each packet is bounded,
// must answer something that was asked, and be of a kind that answers it.
type session struct {
	r    io.Reader
	w    io.Writer
	next uint32 // id of the next request
}

// newSession agrees with the server on the version.
func newSession(r io.Reader, w io.Writer) (*session, error) {
	s := &session{r: r, w: w}
	if _, err := w.Write(newRequest(kindInit, version).bytes()); err != nil {
		return nil, err
	}
	p, err := readPacket(r)
	if err != nil {
		return nil, err
	}
	if p.kind != kindVersion || p.id != version {
		return nil, errMalformed
	}
	return s, nil
}

// send sends what build adds to a request and returns the request's id.
func (s *session) send(kind byte, build func(*request)) (uint32, error) {
	id := s.next
	s.next++
	q := newRequest(kind, id)
	build(q)
	_, err := s.w.Write(q.bytes())
	return id, err
}

// ask sends a request and returns its answer, which must be of the kind want.
func (s *session) ask(kind byte, build func(*request), want byte) (fields, error) {
	id, err := s.send(kind, build)
	if err != nil {
		return fields{}, err
	}
	p, err := readPacket(s.r)
	switch {
	case err != nil:
		return fields{}, err
	case p.id != id:
		return fields{}, errMalformed
	case p.kind == kindStatus:
		return fields{}, status(p.body)
	case p.kind != want:
		return fields{}, errMalformed
	}
	return p.body, nil
}

// status turns a status into an error; success answers nothing that is asked
// here. The server's own words are left out.
func status(f fields) error {
	code := f.uint32()
	switch {
	case f.bad || code == 0:
		return errMalformed
	case code == 1:
		return io.EOF
	case code == 2:
		return fs.ErrNotExist
	case code == 3:
		return fs.ErrPermission
	}
	return errRefused
}

// real returns what the path p leads to.
func (s *session) real(p string) (string, error) {
	f, err := s.ask(kindRealpath, func(q *request) { q.text(p) }, kindName)
	if err != nil {
		return "", err
	}
	n, name := f.uint32(), f.text()
	if f.bad || n != 1 {
		return "", errMalformed
	}
	return string(name), nil
}

// open opens the regular file at prefix + "/" + rel, no part of rel being a
// link. Between the look and the opening the server's side can exchange the
// file: what it hands out is its own business in the end, that it is a file
// and how large it may be is ours.
func (s *session) open(prefix, rel string) (*file, error) {
	p := prefix + "/" + rel
	top, err := s.real(prefix)
	if err != nil {
		return nil, err
	}
	got, err := s.real(p)
	if err != nil {
		return nil, err
	}
	if top == "/" {
		top = ""
	}
	if got != top+"/"+rel {
		return nil, errLink
	}
	if _, err := s.attrs(kindLstat, p); err != nil { // before it is opened: a pipe would wait
		return nil, err
	}
	f, err := s.ask(kindOpen, func(q *request) { q.text(p).uint32(openRead).uint32(0) }, kindHandle)
	if err != nil {
		return nil, err
	}
	handle := string(f.text())
	if f.bad || len(handle) > maxHandle {
		return nil, errMalformed
	}
	size, err := s.attrs(kindFstat, handle)
	if err != nil {
		return nil, err
	}
	return &file{s: s, handle: handle, size: size, early: map[uint32]packet{}}, nil
}

// attrs returns the size of what is named, which must be a regular file.
func (s *session) attrs(kind byte, what string) (int64, error) {
	f, err := s.ask(kind, func(q *request) { q.text(what) }, kindAttrs)
	if err != nil {
		return 0, err
	}
	size, mode, ok := f.attrs()
	if !ok {
		return 0, errMalformed
	}
	if mode&modeType != modeFile {
		return 0, errNoFile
	}
	return size, nil
}

// A file is read from its beginning to its end, with several reads under way.
type file struct {
	s      *session
	handle string
	size   int64 // bytes, when it was opened

	asked []span            // under way, in order of their places
	early map[uint32]packet // answers to others of asked than the first
	at    int64             // where the next read begins
	left  []byte            // came, not yet handed over
	err   error             // what all further reads return
}

// A span is one read under way.
type span struct {
	id uint32
	at int64
}

// Read implements [io.Reader].
func (f *file) Read(p []byte) (int, error) {
	for len(f.left) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.left, f.err = f.block()
	}
	n := copy(p, f.left)
	f.left = f.left[n:]
	return n, nil
}

// block returns the next bytes of the file.
func (f *file) block() ([]byte, error) {
	// One read goes beyond the size, so that a file that grew is noticed.
	for len(f.asked) < window && (f.at <= f.size || len(f.asked) == 0) {
		at := f.at
		id, err := f.s.send(kindRead, func(q *request) { q.text(f.handle).uint64(uint64(at)).uint32(blockSize) })
		if err != nil {
			return nil, err
		}
		f.asked = append(f.asked, span{id, at})
		f.at += blockSize
	}
	first := f.asked[0]
	p, err := f.answer(first.id)
	if err != nil {
		return nil, err
	}
	f.asked = f.asked[1:]
	if p.kind == kindStatus {
		return nil, status(p.body)
	}
	data := p.body.text()
	if p.kind != kindData || p.body.bad || len(data) == 0 || len(data) > blockSize {
		return nil, errMalformed
	}
	if len(data) < blockSize {
		// What was asked for beyond begins at the wrong place.
		if err := f.forget(); err != nil {
			return nil, err
		}
		f.at = first.at + int64(len(data))
	}
	return data, nil
}

// forget waits for the answers to all that is under way, without looking.
func (f *file) forget() error {
	for _, s := range f.asked {
		if _, err := f.answer(s.id); err != nil {
			return err
		}
	}
	f.asked = nil
	clear(f.early)
	return nil
}

// answer returns the answer to the request id. A server may answer in any
// order, so others are kept, no more than are under way.
func (f *file) answer(id uint32) (packet, error) {
	for {
		if p, ok := f.early[id]; ok {
			delete(f.early, id)
			return p, nil
		}
		p, err := readPacket(f.s.r)
		if err != nil {
			return packet{}, err
		}
		if _, twice := f.early[p.id]; twice || !f.waits(p.id) {
			return packet{}, errMalformed
		}
		f.early[p.id] = p
	}
}

func (f *file) waits(id uint32) bool {
	for _, s := range f.asked {
		if s.id == id {
			return true
		}
	}
	return false
}
