package manager

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/registry"
)

// A FileTransport says how file operations reach a session's sandbox.
type FileTransport struct {
	Setting   sandbox.FSTransport `json:"setting"`   // fsTransport
	Transport string              `json:"transport"` // guest or script; empty when it is not decided yet, or refused
	Reason    string              `json:"reason"`    // why it is this one, or none
	Durable   bool                `json:"durable"`   // a write has reached the disk when it returns
	Note      string              `json:"note"`      // what is less than it could be, or why it is not known
}

// notDecided is the note of a sandbox that does not run.
const notDecided = "decided when it runs"

// transportPatience bounds how long explain waits for a sandbox to tell.
const transportPatience = 5 * time.Second

// chosenFiles is what the setting says by itself.
func chosenFiles(by sandbox.FSTransport) FileTransport {
	t := FileTransport{Setting: by, Note: notDecided}
	if by != sandbox.FSAuto {
		t.Transport, t.Reason = string(by), "fsTransport is "+string(by)
		t.Note = "whether it works, and whether a write is on the disk when it returns, is known when it runs"
	}
	return t
}

// explainFiles asks the sandbox which transport serves its files. Only one
// that runs can tell, because asking another would start it.
func (x *explainer) explainFiles(ctx context.Context, w *want, have *sandbox.Info, rec *registry.Record) FileTransport {
	chosen := chosenFiles(w.res.FSTransport)
	if have == nil || have.Status != sandbox.StatusRunning {
		return chosen
	}
	ctx, done := context.WithTimeout(ctx, transportPatience)
	defer done()
	t, err := x.transportOf(ctx, w, kept(w, rec))
	if sandbox.CodeOf(err) == sandbox.CodeUnsupported {
		return FileTransport{Setting: chosen.Setting, Reason: "file operations are refused", Note: err.Error()}
	}
	if err != nil {
		chosen.Note = "it is not known: " + err.Error()
		return chosen
	}
	return FileTransport{Setting: chosen.Setting, Transport: t.Name, Reason: t.Reason, Durable: t.Durable, Note: t.Note}
}

// transportOf opens the running sandbox that spec describes, under its lease,
// and asks it. Nothing is recorded: looking is no use.
func (x *explainer) transportOf(ctx context.Context, w *want, spec sandbox.Spec) (fsbridge.Transport, error) {
	held, err := x.m.locksOf(w.provider.Name()).Shared(ctx, spec.Name)
	if err != nil {
		return fsbridge.Transport{}, err
	}
	defer held.Release()
	sb, err := w.provider.Open(ctx, spec)
	if err != nil {
		return fsbridge.Transport{}, err
	}
	defer sb.Close()
	b, err := fsbridge.OpenBy(ctx, w.res.FSTransport, sb, spec.Mounts, spec.Tmpfs)
	if err != nil {
		return fsbridge.Transport{}, err
	}
	return b.Transport(), nil
}
