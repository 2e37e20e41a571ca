package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

func (a *app) fsRead() *ucli.Command {
	offset, limit := number{}, number{value: -1}
	return a.fileCommand(fileCommand{
		name: "read", usage: "print the content of a file", args: "PATH", least: 1, most: 1,
		description: "The bytes are passed on unchanged, except on a terminal: there, what could control it is escaped.",
		flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "offset", Usage: "begin after `BYTES`", Value: &offset},
			&ucli.GenericFlag{Name: "limit", Usage: "at most `BYTES`", Value: &limit},
		},
		do: func(ctx context.Context, s manager.Share, args []string) error {
			r, err := s.Read(ctx, args[0], offset.value, limit.value)
			if err != nil {
				return err
			}
			defer r.Close()
			return a.show(r)
		},
	})
}

// show copies r to standard output.
func (a *app) show(r io.Reader) error {
	if !isTerminal(a.Stdout) {
		_, err := io.Copy(lostOutput{a.Stdout}, r)
		return err
	}
	safe := termsafe.NewWriter(lostOutput{a.Stdout})
	_, err := io.Copy(safe, r)
	return errors.Join(err, safe.Close())
}

// A lostOutput names the failure to write to a file of ours, which is not one
// of the sandbox.
type lostOutput struct{ f *os.File }

func (o lostOutput) Write(p []byte) (int, error) {
	n, err := o.f.Write(p)
	if err != nil {
		err = sandbox.Errorf(sandbox.CodeExecution, "write", "the output cannot be written: %w", err)
	}
	return n, err
}

func (a *app) fsWrite() *ucli.Command {
	var perm permission
	var exclusive bool
	return a.fileCommand(fileCommand{
		name: "write", usage: "replace the content of a file by standard input", args: "PATH", least: 1, most: 1, changes: true,
		description: "A reader sees the old content or the new, never half of it; interrupted, the old one stays.\n" +
			"Missing folders on the way are made, and a file that exists keeps its mode.",
		flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "perm", Usage: "`MODE` of a new file, octal; default 0644", Value: &perm},
			&ucli.BoolFlag{Name: "exclusive", Usage: "fail when the file exists", Destination: &exclusive},
		},
		do: func(ctx context.Context, s manager.Share, args []string) error {
			in, err := newInput(a.Stdin)
			if err != nil {
				return err
			}
			defer in.Close()
			defer context.AfterFunc(ctx, func() { in.Close() })()
			return s.Write(ctx, args[0], &whole{ctx, in}, sandbox.WriteOptions{Perm: perm.value, Exclusive: exclusive})
		},
	})
}

// A whole input ends with an error when its context ends, so that what has
// come until then is not taken for all.
type whole struct {
	ctx context.Context // of the command that it belongs to
	r   io.ReadCloser
}

func (w *whole) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && w.ctx.Err() != nil {
		err = w.ctx.Err()
	}
	return n, err
}

func (w *whole) Close() error { return w.r.Close() }

// A number is the value of a flag that counts bytes.
type number struct {
	written string
	value   int64
}

// Set implements flag.Value.
func (n *number) Set(s string) error {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 0 {
		return errors.New("it must be a number of bytes, such as 4096")
	}
	n.written, n.value = s, v
	return nil
}

// String implements flag.Value.
func (n *number) String() string { return n.written }

// A permission is the value of a flag that holds permission bits.
type permission struct {
	written string
	value   fs.FileMode
}

// Set implements flag.Value.
func (m *permission) Set(s string) error {
	v, err := strconv.ParseUint(s, 8, 32)
	if err != nil || v == 0 || v > 0o777 {
		return errors.New("it must be permission bits in octal, such as 0644")
	}
	m.written, m.value = s, fs.FileMode(v)
	return nil
}

// String implements flag.Value.
func (m *permission) String() string { return m.written }
