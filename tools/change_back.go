package tools

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// replace gives a file another content, as one step. Where the permissions
// change, too, the new file is made beside it and takes its name: a write keeps
// those that there are.
func (a *changeApplier) replace(ctx context.Context, name string, from, to *changeContent) error {
	if to.Mode == 0 || from.Mode == 0 || to.Mode.Perm() == from.Mode.Perm() {
		return a.files.Write(ctx, name, bytes.NewReader(to.Data), sandbox.WriteOptions{})
	}
	beside := path.Join(path.Dir(name), "."+random()+".tmp")
	err := a.files.Write(ctx, beside, bytes.NewReader(to.Data), sandbox.WriteOptions{Exclusive: true, Perm: to.Mode.Perm()})
	if err == nil {
		err = a.files.Rename(ctx, beside, name)
	}
	if err != nil {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), putBackWithin)
		defer done()
		if left := a.files.Remove(ctx, beside, false); left != nil && !sandbox.IsNotFound(left) {
			return errors.Join(err, left)
		}
	}
	return err
}

// random returns an unpredictable part of a name.
func random() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// parents makes the folders above a file, and notes those that it made.
func (a *changeApplier) parents(ctx context.Context, name string) error {
	var missing []string
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		_, err := a.files.Stat(ctx, dir)
		if err == nil {
			break
		}
		if !sandbox.IsNotFound(err) {
			return err
		}
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		err := a.files.Mkdir(ctx, dir, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue // another process has made it meanwhile
		}
		a.made = append(a.made, dir) // also with an error, which may have come after it was made
		if err != nil {
			return err
		}
	}
	return nil
}

// back puts everything back and returns what is to be said of why.
func (a *changeApplier) back(ctx context.Context, why error) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), putBackWithin)
	defer done()
	var left []string
	for _, c := range slices.Backward(a.done) {
		if state := a.undo(ctx, c); state != "" {
			left = append(left, termsafe.Line(c.Path)+" "+state)
		}
	}
	for _, dir := range slices.Backward(a.made) {
		if err := a.files.Remove(ctx, dir, false); err != nil && !sandbox.IsNotFound(err) {
			left = append(left, "the folder "+termsafe.Line(dir)+" was made and is still there")
		}
	}
	var cause *sandbox.Error
	if !errors.As(why, &cause) {
		cause = &sandbox.Error{Code: sandbox.CodeExecution, Message: "the changes failed", Err: why}
		if ctx.Err() == nil && errors.Is(why, context.DeadlineExceeded) {
			cause.Code = sandbox.CodeTimeout
		}
	}
	out := *cause
	if len(left) == 0 {
		out.Message += "; every file is as it was before"
		return &out
	}
	out.Message += "; not all files are as they were before: " + strings.Join(left, "; ")
	out.Hint, out.Retryable = "look at these files before you go on", false
	return &out
}

// undo puts one file back. It says how the file is if it is not as before.
func (a *changeApplier) undo(ctx context.Context, c changeFile) string {
	now, err := a.now(ctx, c)
	switch {
	case sandbox.CodeOf(err) == sandbox.CodeCapabilityBlocked:
		return fmt.Sprintf("was changed by another program meanwhile, and was left so (%v)", err)
	case err != nil:
		return fmt.Sprintf("is in a state that is not known (%v)", err)
	case now.equal(c.Before):
		return ""
	case !now.equal(c.After):
		return "was changed by another program meanwhile, and was left so"
	}
	switch {
	case c.Before == nil:
		err = a.files.Remove(ctx, c.Path, false)
	case c.After == nil:
		err = a.files.Write(ctx, c.Path, bytes.NewReader(c.Before.Data), sandbox.WriteOptions{Exclusive: true, Perm: c.Before.Mode.Perm()})
	default:
		err = a.replace(ctx, c.Path, c.After, c.Before)
	}
	if err != nil {
		return fmt.Sprintf("is changed, and could not be put back (%v)", err)
	}
	return ""
}
