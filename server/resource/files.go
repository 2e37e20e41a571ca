// This file serves the files of a sandbox over HTTP: contents with ranges and
// conditions, atomic writes, archives, and descriptions of entries.
//
// A path of a request is one inside the sandbox, without its first slash, and is
// refused where it would have to be cleaned: "..", ".", and empty names are not
// valid in the address of a file. All operations use the sandbox's own file
// transport, which confines them; nothing of the host is opened here.
//
// # Tags
//
// A content up to [Limits.Whole] is read, hashed and answered from memory, so
// its ETag is strong: the SHA-256 of exactly what is sent. The tag of a larger
// one is weak, made of size and time. If-Match compares strongly, so for a large
// file it needs the digest, which the client knows when it has the content; the
// server computes it up to [Limits.Hashed].
//
// # Conditions and races
//
// Requests of this process that change one file take turns, so of two with the
// same condition one succeeds. A command inside may still write between the
// check and the replacement, which itself is atomic: If-Match guards against
// other callers, not against the sandbox. If-None-Match: * is decided by the
// file system and guards against all writers.

package resource

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A Tree is the files of one sandbox, with paths inside the sandbox alone; a
// Bridge is one after [fsbridge.Bridge.Inside].
type Tree interface {
	sandbox.Files
	fsbridge.Linker
}

// Limits bound one request. Zero values are the defaults.
type Limits struct {
	Whole   int64 // bytes of a content that is held in memory while it is answered; 1 MiB
	Hashed  int64 // bytes of a content that is read to compare its digest; 256 MiB
	File    int64 // bytes of one file that is written, or of an archive's; 4 GiB
	Archive int64 // bytes of all files of an archive; 16 GiB
	Entries int64 // of an archive; 200,000
}

func (l Limits) orDefaults() Limits {
	for _, d := range []struct {
		have *int64
		want int64
	}{{&l.Whole, 1 << 20}, {&l.Hashed, 256 << 20}, {&l.File, 4 << 30}, {&l.Archive, 16 << 30}, {&l.Entries, 200_000}} {
		if *d.have <= 0 {
			*d.have = d.want
		}
	}
	return l
}

// A filesServer answers requests for files. It is safe for concurrent use; one
// serves all sandboxes of a process.
type filesServer struct {
	limits Limits
	turns  keylock.Turns // by file: of requests that change it, with the same condition, one wins
	looks  keylock.Turns // by sandbox: the content of folders is held in memory while it is sent
	trees  keylock.Turns // by sandbox: archives, of which the same is true for as long as a client takes
}

// NewFiles returns a server.
func NewFiles(l Limits) *filesServer {
	return &filesServer{limits: l.orDefaults(), looks: keylock.Turns{Most: maxLooks}, trees: keylock.Turns{Most: maxTrees}}
}

// The number of requests that may scan folders of one sandbox, and move its
// archives, at a time; others wait. A folder with 300,000 files takes 100 MB
// while it is listed, so without a bound one sandbox could use up the memory of
// the daemon.
const (
	maxLooks = 2
	maxTrees = 4
)

func precondition(name, header string) error {
	return &Fault{Status: http.StatusPreconditionFailed, Err: &sandbox.Error{
		Code: sandbox.CodeBusy, Op: "files", Field: header, Resource: termsafe.Line(name),
		Message: termsafe.Line(name) + " is not as " + header + " says", Hint: "read it again and decide anew",
	}}
}

func malformed(field, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "files", Field: field, Message: message, Hint: hint}
}

// maxPath is the longest path of Linux in bytes.
const maxPath = 4095

// pathFiles returns the path inside the sandbox for the rest of a request's
// address, without escapes. The empty rest is the root.
func pathFiles(rest string) (string, error) {
	hint := "give the path inside the sandbox without its first slash, such as " + strings.TrimPrefix(sandbox.WorkspaceDir, "/") + "/FILE"
	rest = strings.TrimSuffix(rest, "/")
	switch {
	case len(rest) >= maxPath:
		return "", malformed("path", "the path is too long", hint)
	case strings.IndexByte(rest, 0) >= 0:
		return "", malformed("path", "the path has a NUL byte", hint)
	case rest == "":
		return "/", nil
	}
	for e := range strings.SplitSeq(rest, "/") {
		switch {
		case e == "" || e == "." || e == "..":
			return "", malformed("path", `the path has an empty name, "." or ".." in it`, hint)
		case len(e) > 255:
			return "", malformed("path", "a name in the path has more than 255 bytes", hint)
		}
	}
	return "/" + rest, nil
}

// insideFiles checks a path of a body or query: an absolute path inside, or one
// relative to the workspace, which is ".", or the URL of one.
func insideFiles(field, name string) (string, error) {
	name, err := fsbridge.FromURL(name)
	if err != nil {
		return "", atField(field, err)
	}
	full := name
	switch {
	case name == "":
		return "", malformed(field, "the path is empty", "give a path inside the sandbox")
	case name == ".":
		full = sandbox.WorkspaceDir
	case !path.IsAbs(name):
		full = sandbox.WorkspaceDir + "/" + name
	}
	p, err := pathFiles(full[1:])
	return p, atField(field, err)
}

// atField returns err with the name of the field that caused it.
func atField(field string, err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) {
		e.Field = field
	}
	return err
}

// regular returns an error unless name is a file with content.
func regular(name string, isDir, isRegular bool) error {
	safe := termsafe.Line(name)
	switch {
	case isDir:
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read", Field: "path", Resource: safe, Message: safe + " is a folder",
			Hint: "ask with ?list for what is in it, or for an archive of it"}
	case !isRegular:
		return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "read", Field: "path", Resource: safe, Message: safe + " is not a regular file"}
	}
	return nil
}

// changing waits for the turn to change a file of a sandbox.
func (s *filesServer) changing(ctx context.Context, scope, name string) (func(), error) {
	back, err := s.turns.Enter(ctx, scope+"\x00"+name)
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeTimeout, Op: "write", Field: "path", Resource: termsafe.Line(name),
			Message: "another request is changing " + termsafe.Line(name), Retryable: true, Err: err}
	}
	return back, nil
}
