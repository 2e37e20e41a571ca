// Package fsbridge does file operations in a sandbox.
//
// [Open] takes the file server of the sandbox's guest where there is one, and
// shell scripts otherwise (see package script); both pass one suite, package
// fstests. The [Bridge] in front of them maps paths: callers name a file by
// its path inside, by the host path that is mounted there, or relative to the
// workspace. A path outside every mount is refused, and so is writing to a
// read-only mount, before anything runs.
//
// Walking, globbing, copying and the io/fs view are functions over the small
// interface [sandbox.Files]; tar streams are in package tarstream.
package fsbridge

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge/mountpath"
	"github.com/bulkhead-dev/sandbox/fsbridge/script"
)

// The names of transports.
const (
	TransportGuest  = "guest"
	TransportScript = "script"
)

// A Transport says how file operations reach the sandbox.
type Transport struct {
	Name    string // TransportGuest or TransportScript
	Durable bool   // a write has reached the disk when it returns
	Note    string // what is less than it could be, for people; or empty
}

// A Noted is a [sandbox.Files] that knows what is less than it could be.
type Noted interface {
	// Note is a sentence for people, or empty.
	Note() string
}

// Open returns the files of sb, which has the given mounts (see
// [mountpath.New] for which of them are served). It uses the sandbox's
// [sandbox.FileServer]; scripts are used only when sb has none or says
// [sandbox.CodeUnsupported]. Other failures of the server are returned: they
// mean trouble, not absence. ctx bounds the opening alone.
func Open(ctx context.Context, sb sandbox.Sandbox, mounts []sandbox.Mount, tmpfs []sandbox.Tmpfs) (*Bridge, error) {
	table, err := mountpath.New(mounts, tmpfs)
	if err != nil {
		return nil, err
	}
	note := "the sandbox serves no files itself"
	if server, ok := sb.(sandbox.FileServer); ok {
		files, err := server.Files(ctx)
		switch {
		case err == nil:
			t := Transport{Name: TransportGuest, Durable: true}
			if noted, ok := files.(Noted); ok {
				t.Note = noted.Note()
			}
			return New(table, files, t), nil
		case sandbox.CodeOf(err) != sandbox.CodeUnsupported:
			return nil, err
		}
		note = "the guest cannot serve files"
	}
	files, err := script.Open(ctx, sb, table)
	if err != nil {
		return nil, err
	}
	t := Transport{Name: TransportScript, Durable: files.Durable(), Note: note}
	if !t.Durable {
		t.Note += "; writes are not durable: no sync FILE"
	}
	return New(table, files, t), nil
}
