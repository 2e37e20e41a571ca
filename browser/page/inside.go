package page

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"slices"

	"github.com/bulkhead-dev/sandbox"
)

// folderPrefix is the path prefix inside of folders for uploads and downloads;
// /tmp is in memory.
const folderPrefix = "/tmp/.sandbox-page-"

// inside runs a program in the container and waits for it.
func (s *session) inside(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	var said excerpt
	p, err := s.container.Start(ctx, sandbox.Command{Args: args, Dir: "/", Stdin: stdin, Stdout: stdout, Stderr: &said})
	if err != nil {
		return err
	}
	exit, err := p.Wait()
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case exit.Code != 0:
		return failed("a file cannot be moved within the browser's container: " + shown(said.String()))
	}
	return nil
}

// makeFolder creates a folder inside that only the browser's user may enter.
// It is removed with the session.
func (s *session) makeFolder(ctx context.Context) (string, error) {
	name := make([]byte, 16)
	rand.Read(name)
	folder := folderPrefix + hex.EncodeToString(name)
	s.mu.Lock()
	s.folders = append(s.folders, folder)
	s.mu.Unlock()
	return folder, s.inside(ctx, nil, nil, "mkdir", "-m", "700", "--", folder)
}

// made returns the folders not yet removed.
func (s *session) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.folders)
}

// removeFolders removes folders created by makeFolder.
func (s *session) removeFolders(folders ...string) {
	if len(folders) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTime) // independent of the time used before
	defer cancel()
	s.mu.Lock()
	s.folders = slices.DeleteFunc(s.folders, func(f string) bool { return slices.Contains(folders, f) })
	s.mu.Unlock()
	// Remaining folders are removed with the container.
	_ = s.inside(ctx, nil, nil, append([]string{"rm", "-rf", "--"}, folders...)...)
}

// An excerpt keeps the beginning of a program's output, and drops the rest.
type excerpt struct{ bytes.Buffer }

// Write implements io.Writer.
func (t *excerpt) Write(p []byte) (int, error) {
	if room := 512 - t.Len(); room > 0 {
		t.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
