package agents

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// A newSandbox is the body of create. The client for Python sends none.
type newSandbox struct {
	ExposedPorts  []int    `json:"exposedPorts"`    // every port can be reached without
	Timeout       *float64 `json:"timeoutMs"`       // of commands; each of them says it again
	CreateTimeout *float64 `json:"createTimeoutMs"` // how long the client waits for the answer
	Mounts        []any    `json:"mounts"`
}

// maxMillis bounds a time of the protocol.
const maxMillis = 604800 * 1000

// millis returns a time of the protocol; 0 is none.
func millis(field string, ms *float64) (time.Duration, error) {
	if ms == nil {
		return 0, nil
	}
	if math.IsNaN(*ms) || *ms < 0 || *ms > maxMillis {
		return 0, bad(field, "must be from 0 to "+strconv.Itoa(maxMillis)+" milliseconds")
	}
	return time.Duration(*ms * float64(time.Millisecond)), nil
}

// body reads the body of a request, which is JSON. optional is one that may be empty.
func (c *call) body(v any, optional bool) error {
	data, err := io.ReadAll(http.MaxBytesReader(c.W, c.R.Body, maxJSON))
	if err != nil {
		return err
	}
	if optional && len(data) == 0 {
		return nil
	}
	if err := compat.Decode(data, v); err != nil {
		return bad("", "the body is not as the protocol has it: "+err.Error())
	}
	return nil
}

func create(c *call) error {
	var in newSandbox
	if err := c.body(&in, true); err != nil {
		return err
	}
	if len(in.Mounts) > 0 {
		return unsupported("mounting a bucket")
	}
	for _, port := range in.ExposedPorts {
		if port < 1 || port > math.MaxUint16 {
			return bad("exposedPorts", strconv.Itoa(port)+" is no port")
		}
	}
	if _, err := millis("timeoutMs", in.Timeout); err != nil {
		return err
	}
	within, err := millis("createTimeoutMs", in.CreateTimeout)
	if err != nil {
		return err
	}
	ctx := c.R.Context()
	if within > 0 {
		var done func()
		ctx, done = context.WithTimeout(ctx, within)
		defer done()
	}
	session := make([]byte, sessionBytes)
	rand.Read(session)
	out := map[string]any{"session": sessionPrefix + hex.EncodeToString(session)}
	var made api.Sandbox
	err = c.Do(ctx, http.MethodPost, api.Prefix+"/sandboxes", nil, out, &made)
	if isBound(err) { // the token is for one session, so the sandbox is that session's
		delete(out, "session")
		err = c.Do(ctx, http.MethodPost, api.Prefix+"/sandboxes", nil, out, &made)
	}
	if err != nil {
		return err
	}
	write(c.W, http.StatusOK, map[string]string{"id": idOf(made.Name)})
	return nil
}

// The session of a sandbox that create makes: the prefix and random bytes in
// hexadecimal digits. The name of the sandbox has both, and the digits of a hash.
const (
	sessionPrefix = "agents-"
	sessionBytes  = 12
	hashDigits    = 16
)

// sessionOf returns the session of a sandbox that create has made, by its name.
func sessionOf(name string) (string, bool) {
	const length = len(sessionPrefix) + 2*sessionBytes
	at := len(name) - length - 1 - hashDigits
	if at < 0 {
		return "", false
	}
	session, hash := name[at:at+length], name[at+length:]
	digits, ok := strings.CutPrefix(session, sessionPrefix)
	return session, ok && hash[0] == '-' && strings.Trim(digits+hash[1:], "0123456789abcdef") == ""
}

// remake makes a sandbox of the caller that has been removed, for a client that
// begins with it anew: the client for Python resumes a session from its own archive
// of the workspace under the id that the session had, because a worker makes every
// sandbox that is named. lost is the error that the sandbox is not there.
func remake(c *call, lost error) error {
	session, ok := sessionOf(c.name)
	if !ok {
		return lost
	}
	var made api.Sandbox
	err := c.Do(c.R.Context(), http.MethodPost, api.Prefix+"/sandboxes", nil, map[string]any{"session": session}, &made)
	switch {
	case isBound(err):
		return lost
	case err != nil || made.Name == c.name:
		return err
	case made.Created: // the name is that of another caller's, or of other settings
		q := url.Values{"force": {"true"}, "workspace": {"true"}}
		if err := c.Do(c.R.Context(), http.MethodDelete, compat.Sandbox(made.Name), q, nil, nil); err != nil {
			return err
		}
	}
	return lost
}

// isBound reports whether err says that the token is for one session.
func isBound(err error) bool {
	f, ok := errors.AsType[*compat.Fault](err)
	return ok && f.Code == sandbox.CodePermissionDeny && f.Field == api.HeaderSession
}

func remove(c *call) error {
	q := url.Values{"force": {"true"}, "workspace": {"true"}}
	if err := c.Do(c.R.Context(), http.MethodDelete, compat.Sandbox(c.name), q, nil, nil); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

// running answers whether the sandbox can be used: one that is stopped or paused
// comes up with its next use.
func running(c *call) error {
	var s api.Sandbox
	err := c.Do(c.R.Context(), http.MethodGet, compat.Sandbox(c.name), nil, nil, &s)
	if f, ok := errors.AsType[*compat.Fault](err); ok && c.gone(f) {
		err = nil
	}
	if err != nil {
		return err
	}
	up := s.Kind == sandbox.KindSandbox
	switch s.Status {
	case sandbox.StatusRunning, sandbox.StatusStopped:
	case sandbox.StatusPaused:
		up = up && (s.AutoResume == nil || *s.AutoResume)
	default:
		up = false
	}
	write(c.W, http.StatusOK, map[string]bool{"running": up})
	return nil
}
