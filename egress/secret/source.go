package secret

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

// The bounds of values, in bytes. Shorter values occur in ordinary text, which
// would be scrubbed; servers do not accept longer headers.
const (
	minValue  = 8
	maxValue  = 16 << 10
	maxSource = 64 << 10
	// maxSeen bounds the values that one secret may have had. All of them stay
	// scrubbed, so the bound stops a source that returns a new one each time.
	maxSeen = 1024
)

const (
	commandAge = 5 * time.Minute // how long the output of a command is valid
	failureAge = 5 * time.Second // how long a failure is cached, so that programs inside cannot cause unlimited retries
)

// A reading is the result of the last read of a source.
type reading struct {
	at     time.Time
	file   fileStamp
	failed error
}

type fileStamp struct {
	dev, ino   uint64
	size       int64
	mod, chang unix.Timespec
}

// refresh reads the value of h again if its source may have changed. If that
// fails, the old value is not used.
func (v *vault) refresh(ctx context.Context, h *held) error {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return h.unread("was not read in time", "", ctx.Err())
	}
	now := v.deps.Now()
	age := now.Sub(h.state.at)
	if h.state.failed != nil && age >= 0 && age < failureAge {
		return h.state.failed
	}
	if h.state.failed == nil && h.value != nil && v.fresh(h, age) {
		return nil
	}
	data, stamp, err := v.read(ctx, h)
	if err == nil {
		data, err = h.clean(data)
	}
	if err == nil {
		err = v.learn(h, data)
	}
	if ctx.Err() == nil { // an ended ctx says nothing about the source
		h.state = reading{at: now, file: stamp, failed: err}
	}
	if err != nil {
		clear(data)
	}
	return err
}

// fresh reports whether the value is still valid.
func (v *vault) fresh(h *held, age time.Duration) bool {
	switch {
	case h.From.File != "":
		var st unix.Stat_t
		return unix.Stat(v.path(h), &st) == nil && stampOf(st) == h.state.file
	case len(h.From.Command) > 0:
		return age >= 0 && age < commandAge
	}
	return true
}

// read returns the content of the source.
func (v *vault) read(ctx context.Context, h *held) (data []byte, s fileStamp, err error) {
	switch {
	case h.From.File != "":
		return v.readFile(h)
	case len(h.From.Command) > 0:
		data, err = v.run(ctx, h)
		return data, s, err
	}
	text, ok := v.deps.LookupEnv(h.From.Env)
	if !ok || text == "" {
		return nil, s, h.invalid("comes from the variable "+h.From.Env+", which is not set", "set it where sandbox runs, not inside")
	}
	return []byte(text), s, nil
}

// path returns the file of h with ~ replaced.
func (v *vault) path(h *held) string {
	if rest, ok := strings.CutPrefix(h.From.File, "~/"); ok && v.deps.Home != "" {
		return filepath.Join(v.deps.Home, rest)
	}
	return h.From.File
}

// readFile reads the file of h. It follows links, because secrets are often
// mounted that way, and accepts regular files only, because others can block
// or have no end. It does not check which users can read the file, which is
// its owner's decision; it refuses a world-writable file, because its writers
// would choose what is sent as a credential.
func (v *vault) readFile(h *held) (data []byte, s fileStamp, err error) {
	path := v.path(h)
	if err := v.beyondReach(h, path); err != nil {
		return nil, s, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, s, h.unread("comes from a file that cannot be read", "", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, s, h.unread("comes from a file that cannot be read", "", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, s, h.invalid("comes from "+path+", which is not a regular file", "")
	case st.Mode&unix.S_IWOTH != 0:
		return nil, s, h.invalid("comes from "+path+", which everybody may write", "chmod o-w "+path)
	}
	data, err = io.ReadAll(io.LimitReader(f, maxSource+1))
	if err != nil {
		return nil, s, h.unread("comes from a file that cannot be read", "", err)
	}
	return data, stampOf(st), nil
}

func stampOf(st unix.Stat_t) fileStamp {
	return fileStamp{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mod: st.Mtim, chang: st.Ctim}
}

// clean removes one line ending and returns an error for data that cannot be a
// value: a line ending or NUL in it could add header lines.
func (h *held) clean(data []byte) ([]byte, error) {
	if len(data) > maxSource {
		return data, h.invalid(fmt.Sprintf("has more than %d bytes", maxSource), "")
	}
	data = bytes.TrimSuffix(data, []byte("\n"))
	data = bytes.TrimSuffix(data, []byte("\r"))
	switch {
	case len(data) < minValue:
		return data, h.invalid(fmt.Sprintf("is shorter than %d bytes, so that ordinary text would be taken for it", minValue), "use a longer secret")
	case len(data) > maxValue:
		return data, h.invalid(fmt.Sprintf("has more than %d bytes", maxValue), "")
	case bytes.ContainsFunc(data, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return data, h.invalid("has a line break or another control character in it, which no header can carry", "take a secret of one line")
	case data[0] == ' ' || data[len(data)-1] == ' ':
		return data, h.invalid("starts or ends with a space", "take the spaces off")
	case bytes.Contains(data, []byte(standInPrefix)):
		return data, h.invalid("is a stand-in and no value", "name where the real value is")
	}
	return data, nil
}

// learn makes data the value of h, and scrubs it from now on.
func (v *vault) learn(h *held, data []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return errClosed()
	}
	for i, old := range h.seen {
		if bytes.Equal(old, data) {
			h.value = h.seen[i]
			clear(data)
			return nil
		}
	}
	if len(h.seen) == maxSeen {
		return h.unread(fmt.Sprintf("has had %d values", maxSeen), "start the sandbox again; its source should give the same value for longer", nil)
	}
	h.seen = append(h.seen, data)
	h.value = data
	v.match = newMatcher(v.secrets)
	return nil
}

func (h *held) invalid(message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read secret", Field: field(h.Name), Message: "the secret " + h.Name + " " + message, Hint: hint}
}

func (h *held) unread(message, hint string, err error) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "read secret", Field: field(h.Name), Resource: h.From.String(), Message: "the secret " + h.Name + " " + message, Hint: hint, Err: err, Retryable: true}
}
