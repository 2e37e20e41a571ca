package fsbridge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

const (
	// writeGrace is how long a write that is called off may take to remove
	// its temporary file.
	writeGrace = 2 * time.Second
	// cleanupTime bounds the second try, after the script was killed.
	cleanupTime = 10 * time.Second
)

// Write replaces the content of path as one step, or makes the file and its
// missing parents. The new content goes into a temporary file of the same
// folder, is synced where the sandbox can, and renamed. Links in the mount
// are followed and stay; a hard link is broken, its other names keep the old
// content. When r fails or ctx ends, the old content stays and the temporary
// file goes away; only when the sandbox is killed may it be left behind,
// with a name of the form .sbx-*.tmp.
//
// The content is followed by a random trailer which tells the script that
// all of it has arrived: an end of input alone can also mean that we died.
func (f *scriptFiles) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	p, err := f.table.Inside(path)
	if err != nil {
		return err
	}
	if f.strict && !f.durable {
		return &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "write", Field: "fsTransport", Resource: termsafe.Line(path),
			Message: "the sandbox has no sync that takes a file, so what a script writes would not be on the disk when it returns",
			Hint:    `use an image with a sync of coreutils or busybox; or set "fsTransport" to "auto" or "guest"`,
		}
	}
	if r == nil {
		r = strings.NewReader("")
	}
	perm := o.Perm.Perm()
	if perm == 0 {
		perm = 0o644
	}
	dir, base := p.Split()
	temp, trailer := ".sbx-"+randomName()+".tmp", randomName()
	source := &recorder{r: r, ended: ctx.Err}
	byItself, err := f.runExit(ctx, call{
		op: "write", path: path, script: placeScript + writeScript, grace: writeGrace,
		stdin: io.MultiReader(source, strings.NewReader(trailer)),
		args:  []string{p.Root.Target, dir, base, temp, octal(perm), trailer, flag(o.Exclusive), flag(f.durable)},
	})
	if err == nil {
		return nil
	}
	if !byItself {
		err = errors.Join(err, f.cleanUp(ctx, path, p, temp))
	}
	if cause := source.failure(); cause != nil && ctx.Err() == nil {
		return &sandbox.Error{
			Code: sandbox.CodeExecution, Op: "write", Field: "content", Resource: termsafe.Line(path),
			Message: "the content could not be read; " + termsafe.Line(path) + " is unchanged", Err: cause,
		}
	}
	return err
}

// cleanUp removes the temporary file of a write that was killed. It runs even
// when ctx has ended, because nothing else removes that file. A missing file
// or folder is not an error.
func (f *scriptFiles) cleanUp(ctx context.Context, path string, p Place, temp string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	dir, base := p.Split()
	err := f.run(ctx, call{
		op: "write", path: path, script: cleanupScript,
		args: []string{p.Root.Target, dir, base, temp},
	})
	if err == nil || sandbox.IsNotFound(err) || sandbox.CodeOf(err) == sandbox.CodeCapabilityBlocked {
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeOf(err), Op: "write", Resource: termsafe.Line(path),
		Message: "the temporary file " + temp + " may be left beside " + termsafe.Line(path), Hint: "remove it", Err: err,
	}
}

// randomName returns 32 unpredictable hex digits.
func randomName() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// A recorder remembers how its reader failed. An end of input after the end
// of the context counts as a failure, because it may be a consequence: the
// trailer must not follow it.
type recorder struct {
	r     io.Reader
	ended func() error

	mu  sync.Mutex
	err error
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err == io.EOF && r.ended() != nil {
		err = r.ended()
	}
	if err != nil && err != io.EOF {
		r.mu.Lock()
		r.err = err
		r.mu.Unlock()
	}
	return n, err
}

func (r *recorder) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
