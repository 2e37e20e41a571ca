package client

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// maxTreeText bounds what a command says of a tree, in bytes.
const maxTreeText = 64 << 10

// PackTree writes the folder dir, an absolute path inside such as that of the home,
// to w as a tar archive. It is for folders that are not on the host, such as those
// in memory: the guest's own program does it inside as a command, so that names,
// content, links of both kinds, pipes, modes and times come out as they are. It
// returns the things that are left out, each with the reason: sockets, devices and
// other mounts. The archive comes from inside, so it is for [UnpackTree] alone.
//
// A guest from before it is [sandbox.CodeUnsupported], and a folder that cannot be
// read is [sandbox.CodeExecution].
func PackTree(ctx context.Context, sb sandbox.Sandbox, dir string, w io.Writer) (left []string, err error) {
	text, err := tree(ctx, sb, "pack", dir, sandbox.Command{Stdout: w})
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if line, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "left "); ok {
			left = append(left, termsafe.Line(line))
		}
	}
	return left, nil
}

// UnpackTree makes the folder dir, which has to be there, what the archive of a
// PackTree holds: what is in dir and not in the archive is removed, but for other
// mounts. After an error dir is in between, and the call may be repeated.
func UnpackTree(ctx context.Context, sb sandbox.Sandbox, dir string, r io.Reader) error {
	_, err := tree(ctx, sb, "unpack", dir, sandbox.Command{Stdin: r})
	return err
}

// tree runs the guest's program and returns what it has said.
func tree(ctx context.Context, sb sandbox.Sandbox, mode, dir string, c sandbox.Command) (string, error) {
	said := &head{most: maxTreeText}
	c.Args, c.Dir, c.Bare, c.Stderr = []string{sandbox.GuestDir + "/bin/sandbox-guest", "tree", mode, dir}, "/", true, said
	p, err := sb.Start(ctx, c)
	if err != nil {
		return "", err
	}
	exit, err := p.Wait()
	if err != nil {
		return "", err
	}
	text := said.String()
	switch {
	case ctx.Err() != nil:
		return "", contextError(ctx, mode+" "+dir)
	case exit.Code == 0:
		return text, nil
	case exit.Code == 2 && strings.HasPrefix(text, "usage:"):
		return "", &sandbox.Error{Code: sandbox.CodeUnsupported, Op: mode, Resource: dir, Message: "the guest of the sandbox cannot pack folders", Hint: "recreate the sandbox to get the current guest"}
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return "", &sandbox.Error{
		Code: sandbox.CodeExecution, Op: mode, Resource: dir,
		Message: "the guest could not " + mode + " the folder (status " + strconv.Itoa(exit.Code) + "): " + termsafe.Line(lines[len(lines)-1]),
	}
}

// head keeps the beginning of what is written.
type head struct {
	bytes.Buffer
	most int
}

func (h *head) Write(b []byte) (int, error) {
	if room := h.most - h.Len(); room > 0 {
		part := b[:min(len(b), room)]
		for len(part) < len(b) && len(part) > 0 && !utf8.RuneStart(b[len(part)]) {
			part = part[:len(part)-1]
		}
		h.Buffer.Write(part)
	}
	return len(b), nil
}
