package e2b

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// routesSnapshots registers snapshots, which are checkpoints, and forks.
func (d *Translator) routesSnapshots(h func(pattern string, do func(c *call) error)) {
	h("POST /sandboxes/{id}/snapshots", d.snapshot)
	h("GET /snapshots", d.snapshots)
	h("DELETE /templates/{ref}", d.deleteSnapshot)
	h("POST /sandboxes/{id}/fork", d.fork)
}

// shownSnapshot is a checkpoint as the protocol has it.
type shownSnapshot struct {
	SnapshotID string   `json:"snapshotID"`
	Names      []string `json:"names"`
}

func snapshotOf(k api.Checkpoint) shownSnapshot {
	out := shownSnapshot{SnapshotID: k.ID, Names: []string{}}
	if k.Name != "" {
		out.Names = append(out.Names, k.Name)
	}
	return out
}

// checkpointPath returns the path of a checkpoint in /v1. The reference of a
// snapshot may have the tag that SDKs give to templates without one.
func checkpointPath(ref string) (string, bool) {
	ref = strings.TrimSuffix(ref, ":default")
	return api.Prefix + "/checkpoints/" + ref, goodName(ref)
}

// snapshot keeps the state of a sandbox. Memory is not kept, so a client that
// asks for it by name is refused.
func (d *Translator) snapshot(c *call) error {
	var in struct {
		Name   string `json:"name"`
		Memory *bool  `json:"memory"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.Memory != nil && *in.Memory {
		return unsupported("memory: true")
	}
	var made api.Checkpoint
	if err := c.do(c.r.Context(), http.MethodPost, box(c.name, "/checkpoints"), nil, api.CreateCheckpoint{Name: in.Name}, &made); err != nil {
		return err
	}
	write(c.w, http.StatusCreated, snapshotOf(made))
	return nil
}

// snapshots lists those that clients have asked for, and not those that were made
// before a command or for a fork.
func (d *Translator) snapshots(c *call) error {
	q := c.r.URL.Query()
	limit, err := limitOf(q)
	if err != nil {
		return err
	}
	out := []shownSnapshot{}
	if ref := q.Get("name"); ref != "" {
		one, err := c.checkpoint(ref)
		if err != nil {
			return err
		}
		if one != nil && (q.Get("sandboxID") == "" || q.Get("sandboxID") == one.Sandbox) {
			out = append(out, snapshotOf(*one))
		}
		write(c.w, http.StatusOK, out)
		return nil
	}
	cursor := q.Get("nextToken")
	for {
		var page api.CheckpointPage
		args := url.Values{"limit": {strconv.Itoa(limit - len(out))}}
		if cursor != "" {
			args.Set("cursor", cursor)
		}
		if name := q.Get("sandboxID"); name != "" {
			args.Set("sandbox", name)
		}
		if err := c.do(c.r.Context(), http.MethodGet, api.Prefix+"/checkpoints", args, nil, &page); err != nil {
			return err
		}
		for _, k := range page.Items {
			if !k.Auto {
				out = append(out, snapshotOf(k))
			}
		}
		cursor = page.Next
		if cursor == "" || len(out) >= limit {
			break
		}
	}
	if cursor != "" {
		c.w.Header().Set(headerNext, cursor)
	}
	write(c.w, http.StatusOK, out)
	return nil
}

// checkpoint returns the checkpoint of a reference, nil where there is none.
func (c *call) checkpoint(ref string) (*api.Checkpoint, error) {
	at, ok := checkpointPath(ref)
	if !ok {
		return nil, nil
	}
	var one api.Checkpoint
	err := c.do(c.r.Context(), http.MethodGet, at, nil, nil, &one)
	if f, ok := errors.AsType[*fault](err); ok && f.code == sandbox.CodeNotFound {
		return nil, nil
	}
	return &one, err
}

func (d *Translator) deleteSnapshot(c *call) error {
	ref := c.r.PathValue("ref")
	at, ok := checkpointPath(ref)
	if ok {
		if err := c.do(c.r.Context(), http.MethodDelete, at, nil, nil, nil); err != nil {
			return err
		}
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return &fault{status: http.StatusNotFound, code: sandbox.CodeNotFound, message: "there is no snapshot " + strconv.Quote(ref)}
}

// begin has the body of POST /v1/sandboxes begin with the snapshot that the
// template is, where it is one and no template of another kind.
func (d *Translator) begin(c *call, body map[string]any, template string) error {
	if body["image"] != template || template == "" {
		return nil // the base, a preset or the code interpreter
	}
	k, err := c.checkpoint(template)
	if err != nil || k == nil {
		return err
	}
	delete(body, "image")
	if k.Image == about.CodeImage {
		body["image"] = k.Image
	}
	body["from"] = k.ID
	return nil
}

// freshSession returns the name of a session that no sandbox has.
func freshSession() string {
	b := make([]byte, 12)
	rand.Read(b)
	return "e2b-" + hex.EncodeToString(b)
}

// forkResult is one fork, or why there is none.
type forkResult struct {
	Sandbox *madeSandbox `json:"sandbox,omitempty"`
	Error   *forkFailure `json:"error,omitempty"`
}

type forkFailure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func forkFailed(err error) forkResult {
	f := asFault(err)
	return forkResult{Error: &forkFailure{Code: f.status, Message: f.message}}
}

// fork makes sandboxes that begin with the state of one. Programs that run go on in
// that one, and not in the forks.
func (d *Translator) fork(c *call) error {
	var in struct {
		Timeout *int64 `json:"timeout"`
		Count   *int64 `json:"count"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	seconds, count := int64(defaultTimeout1), int64(1)
	if in.Timeout != nil {
		seconds = *in.Timeout
	}
	if in.Count != nil {
		count = *in.Count
	}
	switch {
	case count < 1 || count > api.MaxForks:
		return bad("count", "must be from 1 to "+strconv.Itoa(api.MaxForks))
	case seconds < 1 || seconds > maxTimeout:
		return bad("timeout", "must be from 1 to "+strconv.Itoa(maxTimeout)+" seconds")
	}
	sessions := make([]string, count)
	for i := range sessions {
		sessions[i] = freshSession()
	}
	var list api.ForkList
	if err := c.do(c.r.Context(), http.MethodPost, box(c.name, "/fork"), nil, api.Fork{Sessions: sessions}, &list); err != nil {
		return err
	}
	out := []forkResult{}
	for _, f := range list.Items {
		out = append(out, d.forked(c, f, seconds))
	}
	// Clients know nothing of the checkpoint that the forks began with, so nothing
	// else would remove it.
	if len(list.Items) > 0 {
		if at, ok := checkpointPath(list.Items[0].Checkpoint); ok {
			if err := c.do(c.r.Context(), http.MethodDelete, at, nil, nil, nil); err != nil {
				d.o.Log.WithError(err).WithField("checkpoint", list.Items[0].Checkpoint).Warn("the checkpoint of a fork was not removed")
			}
		}
	}
	write(c.w, http.StatusCreated, out)
	return nil
}

// forked returns a fork that ends after so many seconds. One whose end cannot be
// set is removed: nothing else would end it.
func (d *Translator) forked(c *call, f api.Forked, seconds int64) forkResult {
	if p := f.Problem; p != nil {
		return forkFailed(&fault{status: p.Status, code: p.Code, message: text(*p)})
	}
	var s api.Sandbox
	err := c.do(c.r.Context(), http.MethodPost, box(f.Name, "/timeout"), nil, api.SetTimeout{Timeout: seconds}, &s)
	if err != nil {
		if gone := c.do(c.r.Context(), http.MethodDelete, box(f.Name), url.Values{"force": {"true"}, "workspace": {"true"}}, nil, nil); gone != nil {
			d.o.Log.WithError(gone).WithField("sandbox", f.Name).Warn("a fork whose end could not be set was not removed")
		}
		return forkFailed(err)
	}
	made := d.made(c, s, nil)
	return forkResult{Sandbox: &made}
}
