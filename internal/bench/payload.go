//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

// The folders and files of the workspace that are worked on.
const (
	benchDir = "bench"
	listDir  = "many"
	entries  = 10_000
)

// payloads hold the bytes that are read and written. They are made once, so
// that no sample pays for memory.
type payloads struct {
	root    *os.Root
	content []byte // random; what is read is a beginning of it
	out     []byte // as content, with a stamp in front that differs for each write
	in      []byte // where reads put what they get
	stamp   uint64
}

// newPayloads fills the workspace from the host. No file is larger than biggest.
func newPayloads(r *rig, biggest int) (*payloads, error) {
	p := &payloads{root: r.Workspace, content: make([]byte, biggest), in: make([]byte, biggest+1)}
	if _, err := io.ReadFull(rand.NewChaCha8([32]byte{1}), p.content); err != nil {
		return nil, err
	}
	p.out = bytes.Clone(p.content)
	if err := p.root.Mkdir(benchDir, 0o755); err != nil {
		return nil, err
	}
	if err := p.root.Chown(benchDir, r.Spec.UID, r.Spec.GID); err != nil {
		return nil, err
	}
	if err := p.root.Mkdir(listDir, 0o755); err != nil {
		return nil, err
	}
	for i := range entries {
		if err := p.root.WriteFile(entryName(i), nil, 0o644); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func entryName(i int) string { return fmt.Sprintf("%s/entry-%05d", listDir, i) }

// place makes a file of size bytes for reading and returns its path in the
// workspace.
func (p *payloads) place(size int) (string, error) {
	name := fmt.Sprintf("%s/read-%d", benchDir, size)
	return name, p.root.WriteFile(name, p.content[:size], 0o644)
}

// next returns size bytes to write that were never written before.
func (p *payloads) next(size int) []byte {
	p.stamp++
	binary.BigEndian.PutUint64(p.out, p.stamp)
	return p.out[:size]
}

// arrived verifies the first n bytes of the read buffer.
func (p *payloads) arrived(n, size int) error {
	if n != size || !bytes.Equal(p.in[:n], p.content[:size]) {
		return wrong("%d bytes arrived that are not the %d of the file", n, size)
	}
	clear(p.in[:n]) // so that the next sample cannot pass with what is there
	return nil
}

// stored verifies from the host that the file name holds what next returned
// last.
func (p *payloads) stored(name string, size int) error {
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := readAll(f, p.in)
	if err != nil {
		return err
	}
	if n != size || !bytes.Equal(p.in[:n], p.out[:size]) {
		return wrong("the %d bytes of %s are not the %d that were written", n, name, size)
	}
	return nil
}

// readAll reads r to its end into buf, which must be larger than what comes.
func readAll(r io.Reader, buf []byte) (int, error) {
	n, err := io.ReadFull(r, buf)
	switch err {
	case io.EOF, io.ErrUnexpectedEOF:
		return n, nil
	case nil:
		return n, wrong("more than %d bytes arrived", len(buf)-1)
	}
	return n, err
}

// A sink is a writer into a fixed buffer. What does not fit is an error.
type sink struct {
	buf []byte
	n   int
}

func (s *sink) Write(p []byte) (int, error) {
	n := copy(s.buf[s.n:], p)
	s.n += n
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}
