package workspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A script is a server that a test makes up: what it answers to a request of
// a kind, or nothing.
type script map[byte]func(id uint32, body fields) []*request

func one(q *request) []*request { return []*request{q} }

func nameOf(p string) func(uint32, fields) []*request {
	return func(id uint32, _ fields) []*request {
		return one(newRequest(kindName, id).uint32(1).text(p).text(p).uint32(0))
	}
}

func attrsOf(size uint64, mode uint32) func(uint32, fields) []*request {
	return func(id uint32, _ fields) []*request {
		return one(newRequest(kindAttrs, id).uint32(attrSize | attrIDs | attrPerms).uint64(size).uint32(0).uint32(0).uint32(mode))
	}
}

func statusOf(code uint32) func(uint32, fields) []*request {
	return func(id uint32, _ fields) []*request {
		return one(newRequest(kindStatus, id).uint32(code).text("words").text(""))
	}
}

// honest serves content as /m/f.
func honest(content []byte) script {
	return script{
		kindInit: func(uint32, fields) []*request { return one(newRequest(kindVersion, version)) },
		kindRealpath: func(id uint32, body fields) []*request {
			return nameOf(string(body.text()))(id, body)
		},
		kindLstat: attrsOf(uint64(len(content)), modeFile|0o644),
		kindFstat: attrsOf(uint64(len(content)), modeFile|0o644),
		kindOpen:  func(id uint32, _ fields) []*request { return one(newRequest(kindHandle, id).text("h")) },
		kindRead: func(id uint32, body fields) []*request {
			return one(part(id, body, content, blockSize))
		},
	}
}

// part answers a read, with at most limit bytes.
func part(id uint32, body fields, content []byte, limit int) *request {
	body.text()
	at, n := int(body.uint64()), int(body.uint32())
	if at >= len(content) {
		return newRequest(kindStatus, id).uint32(1).text("").text("")
	}
	return newRequest(kindData, id).text(string(content[at:min(len(content), at+min(n, limit))]))
}

// with returns s with another answer to a kind.
func (s script) with(kind byte, answer func(uint32, fields) []*request) script {
	s[kind] = answer
	return s
}

// serve runs s until the client closes its side.
func (s script) serve(r io.Reader, w io.WriteCloser) {
	defer w.Close()
	for {
		p, err := readPacket(r)
		if err != nil {
			return
		}
		answer, ok := s[p.kind]
		if !ok {
			return
		}
		for _, q := range answer(p.id, p.body) {
			if _, err := w.Write(q.bytes()); err != nil {
				return
			}
		}
	}
}

// fetch reads /m/f from s.
func fetch(s script) ([]byte, error) {
	toServer, in := io.Pipe()
	out, toClient := io.Pipe()
	// As between processes, a client that writes does not wait for a server
	// that does too.
	done := make(chan struct{})
	go func() { defer close(done); defer toServer.Close(); s.serve(toServer, newQueue(toClient)) }()
	defer func() { in.Close(); out.Close(); <-done }()
	session, err := newSession(out, in)
	if err != nil {
		return nil, err
	}
	defer func() { in.Close(); out.Close(); session.Close() }()
	f, err := session.open("/m", "f")
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, 4<<20))
}

// A queue takes what is written at once and passes it on in order.
type queue struct {
	parts chan []byte
	done  chan struct{}
}

func newQueue(w io.WriteCloser) *queue {
	q := &queue{parts: make(chan []byte, 1024), done: make(chan struct{})}
	go func() {
		defer close(q.done)
		defer w.Close()
		for p := range q.parts {
			_, _ = w.Write(p) // the client may have gone
		}
	}()
	return q
}

func (q *queue) Write(p []byte) (int, error) { q.parts <- bytes.Clone(p); return len(p), nil }
func (q *queue) Close() error                { close(q.parts); <-q.done; return nil }

func TestHonestServers(t *testing.T) {
	for _, n := range []int{0, 1, blockSize - 1, blockSize, blockSize + 1, window*blockSize + 7, 3 << 20} {
		content := bytes.Repeat([]byte("abcdefg"), n/7+1)[:n]
		for name, s := range map[string]script{
			"in order": honest(content),
			"short answers": honest(content).with(kindRead, func(id uint32, body fields) []*request {
				return one(part(id, body, content, 20_000))
			}),
			"out of order": honest(content).with(kindRead, reordered(content)),
		} {
			got, err := fetch(s)
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s, %d bytes: got %d, %v", name, n, len(got), err)
			}
		}
	}
}

// reordered answers the first read after the second one, where there are two
// at once.
func reordered(content []byte) func(uint32, fields) []*request {
	var first *request
	asked := 0
	return func(id uint32, body fields) []*request {
		q := part(id, body, content, blockSize)
		asked++
		switch {
		case len(content) < blockSize || asked > 2:
			return one(q)
		case asked == 1:
			first = q
			return nil
		}
		return []*request{q, first}
	}
}

func TestHostileServers(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 100_000)
	plain := func() script { return honest(content) }
	raw := func(b ...byte) func(uint32, fields) []*request {
		return func(uint32, fields) []*request { return one(&request{data: b}) }
	}
	for _, tt := range []struct {
		name string
		s    script
		want error // nil is any
	}{
		{"says nothing", script{}, io.ErrUnexpectedEOF},
		{"another version", plain().with(kindInit, func(uint32, fields) []*request { return one(newRequest(kindVersion, 2)) }), nil},
		{"no version", plain().with(kindInit, statusOf(0)), nil},
		{"greets with text", plain().with(kindInit, raw([]byte("....Welcome to this machine")...)), nil},
		{"a link", plain().with(kindRealpath, nameOf("/etc/passwd")), errLink},
		{"two names", plain().with(kindRealpath, func(id uint32, _ fields) []*request {
			return one(newRequest(kindName, id).uint32(2).text("/m").text("").uint32(0))
		}), nil},
		{"a folder", plain().with(kindLstat, attrsOf(1, 0o040755)), errNoFile},
		{"a pipe, once open", plain().with(kindFstat, attrsOf(1, 0o010644)), errNoFile},
		{"no mode", plain().with(kindLstat, func(id uint32, _ fields) []*request {
			return one(newRequest(kindAttrs, id).uint32(attrSize).uint64(1))
		}), errNoFile},
		{"size below zero", plain().with(kindFstat, attrsOf(1<<63, modeFile)), errMalformed},
		{"missing", plain().with(kindOpen, statusOf(2)), fs.ErrNotExist},
		{"closed", plain().with(kindOpen, statusOf(3)), fs.ErrPermission},
		{"fails", plain().with(kindOpen, statusOf(4)), errRefused},
		{"success without handle", plain().with(kindOpen, statusOf(0)), errMalformed},
		{"answers another request", plain().with(kindOpen, func(id uint32, _ fields) []*request {
			return one(newRequest(kindHandle, id+1).text("h"))
		}), nil},
		{"data that nobody asked for", plain().with(kindRead, func(id uint32, _ fields) []*request {
			return one(newRequest(kindData, id+1000).text("x"))
		}), nil},
		{"answers twice", plain().with(kindRead, func(id uint32, body fields) []*request {
			q := part(id+1, body, content, blockSize)
			return []*request{q, q}
		}), nil},
		{"a length that is not there", plain().with(kindRead, func(id uint32, _ fields) []*request {
			return one(newRequest(kindData, id).uint32(1 << 31))
		}), nil},
		{"success instead of data", plain().with(kindRead, statusOf(0)), errMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := fetch(tt.s); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// TestServerHangsUp holds that the end of the connection is not the end of the
// file.
func TestServerHangsUp(t *testing.T) {
	s := honest([]byte("content"))
	delete(s, kindRead)
	if got, err := fetch(s); err == nil {
		t.Errorf("%q was taken for the whole file", got)
	}
}

// TestEndlessServer checks that of a server which sends without end no more is
// read than the caller asks for.
func TestEndlessServer(t *testing.T) {
	s := honest(nil).with(kindFstat, attrsOf(1<<40, modeFile)).with(kindRead, func(id uint32, _ fields) []*request {
		return one(newRequest(kindData, id).text(string(make([]byte, blockSize+1))))
	})
	if got, err := fetch(s); err != nil || len(got) != 4<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// nowhere is a server that reads everything and answers nothing.
type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }

func FuzzServer(f *testing.F) {
	answer := func(qs ...*request) (out []byte) {
		for _, q := range qs {
			out = append(out, q.bytes()...)
		}
		return out
	}
	hello := func() *request { return newRequest(kindVersion, version) }
	f.Add(answer(hello(), nameOf("/m")(0, fields{})[0], nameOf("/m/f")(1, fields{})[0], attrsOf(3, modeFile)(2, fields{})[0],
		newRequest(kindHandle, 3).text("h"), attrsOf(3, modeFile)(4, fields{})[0], newRequest(kindData, 5).text("abc")))
	f.Add(answer(hello(), statusOf(2)(0, fields{})[0]))
	f.Add([]byte{0, 0, 0, 5, 2})
	f.Add(binary.BigEndian.AppendUint32(nil, 1<<31))
	f.Fuzz(func(t *testing.T, said []byte) {
		s, err := newSession(bytes.NewReader(said), nowhere{io.Discard})
		if err != nil {
			return
		}
		defer s.Close()
		file, err := s.open("/m", "f")
		if err != nil {
			return
		}
		if file.size < 0 {
			t.Fatalf("a size of %d", file.size)
		}
		if n, err := io.Copy(io.Discard, file); err == nil && n > int64(len(said)) {
			t.Fatalf("%d bytes of %d", n, len(said))
		}
	})
}

func Example_ref() {
	hosts := []Host{{Name: "node", Folders: []string{"/srv/media"}}}
	for _, ref := range []string{"node:/srv/media/a.jpg", "node:/srv/media/../key", "-oProxyCommand=id:/srv/media/a"} {
		h, folder, rel, err := parse(hosts, ref)
		fmt.Println(h.Name, folder, rel, err != nil)
	}
	// Output:
	// node /srv/media a.jpg false
	//    true
	//    true
}
