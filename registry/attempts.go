package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

const (
	attemptsFile = "attempts.jsonl"
	maxAttempts  = 256 << 10 // bytes; an attempt has about 300
	maxText      = 300       // bytes of a detail
	maxFields    = 16
)

// An Attempt is one sandbox that was made while a pool was kept: it was a slot,
// or it was not.
type Attempt struct {
	Time    time.Time     `json:"time"`
	Sandbox string        `json:"sandbox"` // its name
	Tenant  string        `json:"tenant,omitempty"`
	Agent   string        `json:"agent,omitempty"`
	Shape   string        `json:"shape,omitempty"` // of the slots that it can be
	Took    time.Duration `json:"tookNs"`          // the claim, or making it
	Miss    *pool.Miss    `json:"miss,omitempty"`  // why it was none; nil where it was claimed
	Code    sandbox.Code  `json:"errorCode,omitempty"`
}

// LogAttempt appends a to what is on record of attempts, of which the newest
// are kept: some hundred. It is for people and for how many slots are kept, so it
// is not forced to the disk.
func (s *Store) LogAttempt(a Attempt) error {
	path := filepath.Join(s.root, attemptsFile)
	data, err := json.Marshal(a.bounded())
	if err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, "log attempt", "cannot encode it: %w", err)
	}
	lock := flock.New(path + ".lock")
	if err := lock.Lock(); err != nil {
		return statedir.Unavailable("log attempt", path, err)
	}
	defer lock.Close()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return statedir.Unavailable("log attempt", path, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return statedir.Unavailable("log attempt", path, err)
	}
	line := append(data, '\n')
	if last := []byte{'\n'}; fi.Size() > 0 {
		if _, err := f.ReadAt(last, fi.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...) // the end of the last one was lost
		}
	}
	if _, err := f.Write(line); err != nil {
		return statedir.Unavailable("log attempt", path, err)
	}
	if fi.Size()+int64(len(line)) <= maxAttempts {
		return nil
	}
	all, err := readBounded(path, 2*maxAttempts)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return statedir.Unavailable("log attempt", path, err)
	}
	if err != nil { // too long to be ours
		all = line
	}
	keep := all[max(0, len(all)-maxAttempts/2):]
	if len(keep) < len(all) {
		_, keep, _ = bytes.Cut(keep, []byte{'\n'})
	}
	return statedir.Unavailable("log attempt", path, renameio.WriteFile(path, keep, 0o600, renameio.WithTempDir(s.root)))
}

// Attempts returns what is on record of attempts, the oldest first. Lines that
// cannot be read are left out.
func (s *Store) Attempts() ([]Attempt, error) {
	path := filepath.Join(s.root, attemptsFile)
	data, err := readBounded(path, 2*maxAttempts)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, ErrCorrupt): // the next one that is logged cuts it
		return nil, nil
	case err != nil:
		return nil, statedir.Unavailable("read attempts", path, err)
	}
	var out []Attempt
	for line := range bytes.Lines(data) {
		var a Attempt
		if json.Unmarshal(line, &a) == nil && a.Sandbox != "" {
			out = append(out, a)
		}
	}
	return out, nil
}

// bounded returns a with texts that are short enough for a line.
func (a Attempt) bounded() Attempt {
	a.Time = a.Time.UTC()
	if a.Miss != nil {
		m := *a.Miss
		m.Fields = m.Fields[:min(len(m.Fields), maxFields)]
		for i, f := range m.Fields {
			if len(f) > maxText {
				m.Fields = append([]string(nil), m.Fields...)
				m.Fields[i] = cut(f)
			}
		}
		m.Detail = cut(m.Detail)
		a.Miss = &m
	}
	return a
}

// cut returns the beginning of text that is short enough.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
