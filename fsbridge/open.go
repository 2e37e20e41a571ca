// Package fsbridge does file operations in a sandbox.
//
// [OpenBy] takes the file server of the sandbox's guest or shell scripts (see
// package script), as the settings say; [Open] takes scripts only where the guest
// serves no files. Both pass one suite, package fstests. The [Bridge] in front of them maps paths: callers name a file by
// its path inside, by the host path that is mounted there, or relative to the
// workspace. A path outside every mount is refused, and so is writing to a
// read-only mount, before anything runs.
//
// Walking, globbing, copying and the io/fs view are functions over the small
// interface [sandbox.Files]; tar streams are in package tarstream.
package fsbridge

import (
	"context"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
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
	Reason  string // why it is this one, for people
	Note    string // what is less than it could be, for people; or empty
}

// A Noted is a [sandbox.Files] that knows what is less than it could be.
type Noted interface {
	// Note is a sentence for people, or empty.
	Note() string
}

// Open is [OpenBy] with [sandbox.FSAuto].
func Open(ctx context.Context, sb sandbox.Sandbox, mounts []sandbox.Mount, tmpfs []sandbox.Tmpfs) (*Bridge, error) {
	return OpenBy(ctx, sandbox.FSAuto, sb, mounts, tmpfs)
}

// OpenBy returns the files of sb, which has the given mounts (see
// [mountpath.New] for which of them are served), over the transport by; empty is
// [sandbox.FSAuto]. ctx bounds the opening alone.
//
// With FSAuto it uses the sandbox's [sandbox.FileServer], and scripts only when
// sb has none or says [sandbox.CodeUnsupported]. Other failures of the server are
// returned: they mean trouble, not absence. With FSGuest that absence is an error
// of CodeUnsupported, too. With FSScript the server is not asked. Scripts are
// started by the sandbox's [sandbox.Execer], and as its commands where it has
// none; writes that would not be durable are then CodeUnsupported.
func OpenBy(ctx context.Context, by sandbox.FSTransport, sb sandbox.Sandbox, mounts []sandbox.Mount, tmpfs []sandbox.Tmpfs) (*Bridge, error) {
	table, err := NewMountTable(mounts, tmpfs)
	if err != nil {
		return nil, err
	}
	switch by {
	case sandbox.FSScript:
		return openScripts(ctx, sb, table, chosen(by), "", true)
	case sandbox.FSGuest, sandbox.FSAuto, "":
	default:
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "open files", Field: "fsTransport", Message: "there is no file transport " + strconv.Quote(string(by)), Hint: "use auto, guest or script"}
	}
	why := "the sandbox serves no files itself"
	var cause error
	if server, ok := sb.(sandbox.FileServer); ok {
		files, err := server.Files(ctx)
		switch {
		case err == nil:
			t := Transport{Name: TransportGuest, Durable: true, Reason: "the guest serves files"}
			if by == sandbox.FSGuest {
				t.Reason = chosen(by)
			}
			if noted, ok := files.(Noted); ok {
				t.Note = noted.Note()
			}
			return New(table, files, t), nil
		case sandbox.CodeOf(err) != sandbox.CodeUnsupported:
			return nil, err
		}
		why, cause = "the guest cannot serve files", err
	}
	if by == sandbox.FSGuest {
		return nil, &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "open files", Field: "fsTransport", Resource: sb.Info().Name,
			Message: why + ", and fsTransport is guest", Err: cause,
			Hint: `get the current guest with: sandbox recreate; or set "fsTransport" to "auto" or "script"`,
		}
	}
	return openScripts(ctx, sb, table, why, why, false)
}

func chosen(by sandbox.FSTransport) string { return "fsTransport is " + string(by) }

// openScripts returns the files of sb over scripts. The note says what makes them
// less than what could be had. With strict, what would not be durable is not
// written.
func openScripts(ctx context.Context, sb sandbox.Sandbox, table *MountTable, reason, note string, strict bool) (*Bridge, error) {
	var starter scriptStarter = sb
	if e, ok := sb.(sandbox.Execer); ok {
		starter = execs{e}
	}
	files, err := openScript(ctx, starter, table)
	if err != nil {
		return nil, err
	}
	t := Transport{Name: TransportScript, Durable: files.Durable(), Reason: reason, Note: note}
	switch {
	case t.Durable:
	case strict:
		files, t.Note = files.OnlyDurable(), "writes are refused: they would not be durable, because there is no sync FILE"
	default:
		t.Note = strings.TrimPrefix(t.Note+"; writes are not durable: no sync FILE", "; ")
	}
	return New(table, files, t), nil
}

// execs starts scripts by means of the engine.
type execs struct{ e sandbox.Execer }

func (s execs) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	return s.e.Exec(ctx, c)
}
