package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Messages of the service filesystem.Filesystem.
type (
	pathRequest struct {
		Path string `json:"path"`
	}

	listDirRequest struct {
		Path  string `json:"path"`
		Depth *int   `json:"depth"`
	}

	moveRequest struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}

	entryResponse struct {
		Entry *entry `json:"entry"`
	}

	listDirResponse struct {
		Entries []*entry `json:"entries"`
	}

	entry struct {
		Name          string    `json:"name"`
		Type          string    `json:"type"`
		Path          string    `json:"path"`
		Size          int64     `json:"size,string"`
		Mode          uint32    `json:"mode"`
		Permissions   string    `json:"permissions"`
		Owner         string    `json:"owner"`
		Group         string    `json:"group"`
		ModifiedTime  time.Time `json:"modifiedTime"`
		SymlinkTarget string    `json:"symlinkTarget,omitempty"`
	}

	watchRequest struct {
		Path               string `json:"path"`
		Recursive          bool   `json:"recursive"`
		IncludeEntry       bool   `json:"includeEntry"`
		AllowNetworkMounts bool   `json:"allowNetworkMounts"`
	}

	// A watchResponse has one of the three.
	watchResponse struct {
		Start      *empty           `json:"start,omitempty"`
		Filesystem *filesystemEvent `json:"filesystem,omitempty"`
		Keepalive  *empty           `json:"keepalive,omitempty"`
	}

	filesystemEvent struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Entry *entry `json:"entry,omitempty"`
	}
)

func (d *Translator) routesFilesystem(o []connect.HandlerOption) {
	const service = "/filesystem.Filesystem/"
	unary(d, service+"Stat", d.stat, o)
	unary(d, service+"MakeDir", d.makeDir, o)
	unary(d, service+"Move", d.move, o)
	unary(d, service+"ListDir", d.listDir, o)
	unary(d, service+"Remove", d.remove, o)
	serverStream(d, service+"WatchDir", d.watchDir, o)
	unary(d, service+"CreateWatcher", d.createWatcher, o)
	unary(d, service+"GetWatcherEvents", d.watcherEvents, o)
	unary(d, service+"RemoveWatcher", d.removeWatcher, o)
}

// path returns a path of a request of the file system.
func (c *call) path(p string) (string, error) {
	if err := c.fileUser(); err != nil {
		return "", err
	}
	return inside(p)
}

// entryOf returns a file as the protocol has it. The owner is not reported: /v1 does
// not.
func entryOf(f api.File) *entry {
	mode, _ := strconv.ParseUint(f.Mode, 8, 32)
	e := &entry{
		Name: f.Name, Path: f.Path, Size: f.Size, Mode: uint32(mode), ModifiedTime: f.ModifiedAt.UTC(), SymlinkTarget: f.Target,
		Type: "FILE_TYPE_FILE",
	}
	kind := "-"
	switch f.Type {
	case "dir":
		e.Type, kind = "FILE_TYPE_DIRECTORY", "d"
	case "symlink":
		e.Type, kind = "FILE_TYPE_SYMLINK", "L"
	case "other":
		e.Type, kind = "FILE_TYPE_UNSPECIFIED", "?"
	}
	const letters = "rwxrwxrwx"
	bits := []byte(letters)
	for i := range bits {
		if mode&(1<<(8-i)) == 0 {
			bits[i] = '-'
		}
	}
	e.Permissions = kind + string(bits)
	return e
}

// look returns what is known of one entry.
func (c *call) look(ctx context.Context, p string) (api.File, error) {
	var one api.FileList
	if err := c.do(ctx, http.MethodGet, c.filePath(p), url.Values{"stat": {"true"}}, nil, &one); err != nil {
		return api.File{}, err
	}
	if len(one.Items) != 1 {
		return api.File{}, &fault{status: http.StatusNotFound, message: "there is no such file"}
	}
	return one.Items[0], nil
}

func (d *Translator) stat(ctx context.Context, c *call, in *pathRequest) (*entryResponse, error) {
	p, err := c.path(in.Path)
	if err != nil {
		return nil, err
	}
	f, err := c.look(ctx, p)
	if err != nil {
		return nil, err
	}
	return &entryResponse{entryOf(f)}, nil
}

func (d *Translator) makeDir(ctx context.Context, c *call, in *pathRequest) (*entryResponse, error) {
	p, err := c.path(in.Path)
	if err != nil {
		return nil, err
	}
	var f api.File
	err = c.do(ctx, http.MethodPost, box(c.name, "/files:mkdir"), nil, api.MakeFolder{Path: p}, &f)
	if isMissing(err, c) { // a folder above it
		err = c.do(ctx, http.MethodPost, box(c.name, "/files:mkdir"), nil, api.MakeFolder{Path: p, Parents: true}, &f)
	} else if err != nil {
		if have, seen := c.look(ctx, p); seen == nil {
			if have.Type != "dir" {
				return nil, bad("path", "names something that is no folder")
			}
			return nil, connect.NewError(connect.CodeAlreadyExists, errors.New("the folder is there already"))
		}
	}
	if err != nil {
		return nil, err
	}
	return &entryResponse{entryOf(f)}, nil
}

// isMissing reports whether err says that a path does not exist, while the sandbox
// does.
func isMissing(err error, c *call) bool {
	var f *fault
	return errors.As(err, &f) && f.status == http.StatusNotFound && !gone(err, c)
}

func (d *Translator) move(ctx context.Context, c *call, in *moveRequest) (*entryResponse, error) {
	from, err := c.path(in.Source)
	if err != nil {
		return nil, err
	}
	to, err := c.path(in.Destination)
	if err != nil {
		return nil, err
	}
	var f api.File
	m := api.MoveFile{From: from, To: to, Overwrite: true}
	err = c.do(ctx, http.MethodPost, box(c.name, "/files:move"), nil, m, &f)
	if isMissing(err, c) {
		if _, gone := c.look(ctx, from); gone != nil {
			return nil, gone
		}
		if err := c.do(ctx, http.MethodPost, box(c.name, "/files:mkdir"), nil, api.MakeFolder{Path: path.Dir(to), Parents: true}, nil); err != nil {
			return nil, err
		}
		err = c.do(ctx, http.MethodPost, box(c.name, "/files:move"), nil, m, &f)
	}
	if err != nil {
		return nil, err
	}
	return &entryResponse{entryOf(f)}, nil
}

// maxEntries bounds a list of a folder and the folders in it.
const maxEntries = 50_000

func (d *Translator) listDir(ctx context.Context, c *call, in *listDirRequest) (*listDirResponse, error) {
	p, err := c.path(in.Path)
	if err != nil {
		return nil, err
	}
	depth := 1
	if in.Depth != nil && *in.Depth != 0 {
		depth = *in.Depth
	}
	if depth < 0 {
		return nil, bad("depth", "is below 0")
	}
	top, err := c.look(ctx, p)
	if err != nil {
		return nil, err
	}
	if top.Type == "file" || top.Type == "other" {
		return nil, bad("path", "names something that is no folder")
	}
	out := &listDirResponse{Entries: []*entry{}}
	return out, c.walk(ctx, p, depth, out)
}

// walk appends what is in a folder, and in the folders in it down to depth. Links are
// not followed.
func (c *call) walk(ctx context.Context, dir string, depth int, out *listDirResponse) error {
	cursor := ""
	for {
		q := url.Values{"list": {"true"}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		var page api.FileList
		if err := c.do(ctx, http.MethodGet, c.filePath(dir), q, nil, &page); err != nil {
			return err
		}
		for _, f := range page.Items {
			if len(out.Entries) >= maxEntries {
				return connect.NewError(connect.CodeOutOfRange, errors.New("the folder has more than "+strconv.Itoa(maxEntries)+" entries; list it with a smaller depth"))
			}
			out.Entries = append(out.Entries, entryOf(f))
			if depth > 1 && f.Type == "dir" {
				if err := c.walk(ctx, f.Path, depth-1, out); err != nil && !isMissing(err, c) {
					return err
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

func (d *Translator) remove(ctx context.Context, c *call, in *pathRequest) (*empty, error) {
	p, err := c.path(in.Path)
	if err != nil {
		return nil, err
	}
	err = c.do(ctx, http.MethodDelete, c.filePath(p), url.Values{"recursive": {"true"}}, nil, nil)
	if isMissing(err, c) {
		err = nil // as rm -rf
	}
	return &empty{}, err
}

// A watch is what a client asks to be reported.
type watch struct {
	entries bool
}

// watch returns the request of /v1 for a watch.
func (c *call) watch(ctx context.Context, in *watchRequest) (watch, *http.Request, error) {
	p, err := c.path(in.Path)
	if err != nil {
		return watch{}, nil, err
	}
	f, err := c.look(ctx, p)
	if err != nil {
		return watch{}, nil, err
	}
	if f.Type != "dir" {
		return watch{}, nil, bad("path", "names something that is no folder")
	}
	r := c.request(ctx, http.MethodGet, box(c.name, "/watch"), url.Values{"path": {p}, "recursive": {strconv.FormatBool(in.Recursive)}}, nil)
	return watch{entries: in.IncludeEntry}, r, nil
}

// kinds are the changes of /v1 as the protocol names them.
var kinds = map[string]string{
	"create": "EVENT_TYPE_CREATE", "write": "EVENT_TYPE_WRITE", "remove": "EVENT_TYPE_REMOVE",
	"rename": "EVENT_TYPE_RENAME", "chmod": "EVENT_TYPE_CHMOD",
}

// events returns a change as the protocol has it. The protocol reports a rename at
// the old name and then the new name as created. It has no name for the watched
// folder itself.
func (w watch) events(data []byte) ([]*filesystemEvent, error) {
	var v api.Change
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	kind := kinds[v.Kind]
	if v.Name == "." || kind == "" {
		return nil, nil
	}
	out := []*filesystemEvent{{Name: v.Name, Type: kind}}
	at := v.Path
	if v.To != "" {
		at = strings.TrimSuffix(v.Path, v.Name) + v.To
		out = append(out, &filesystemEvent{Name: v.To, Type: kinds["create"]})
	}
	if w.entries && v.Type != "" && v.Kind != "remove" {
		out[len(out)-1].Entry = entryOf(api.File{Path: at, Name: path.Base(at), Type: v.Type, Mode: v.Mode, Size: v.Size, ModifiedAt: v.ModifiedAt})
	}
	return out, nil
}

func (d *Translator) watchDir(ctx context.Context, c *call, in *watchRequest, h http.Header, to *connect.ServerStream[watchResponse]) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	w, r, err := c.watch(ctx, in)
	if err != nil {
		return err
	}
	out, err := newSender(h, to, &watchResponse{Keepalive: &empty{}}, end)
	if err != nil {
		return err
	}
	defer out.close()
	return c.follow(ctx, r, func(name string, data []byte) error {
		switch name {
		case api.EventReady:
			return out.send(&watchResponse{Start: &empty{}})
		case api.EventNote, api.EventOverflow:
			return noted(name, data)
		case api.EventError:
			return problem(data)
		case api.EventChange:
			events, err := w.events(data)
			for _, e := range events {
				if err == nil {
					err = out.send(&watchResponse{Filesystem: e})
				}
			}
			return err
		}
		return nil
	})
}

// noted returns the error of a watch that cannot see everything, or has not: the
// protocol has no other message for it.
func noted(name string, data []byte) error {
	var v api.WatchNote
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	code := connect.CodeOutOfRange
	switch {
	case name == api.EventOverflow:
		code = connect.CodeDataLoss
	case v.Code == string(sandbox.CodeUnsupported):
		code = connect.CodeUnimplemented
	}
	return connect.NewError(code, errors.New("the watch cannot see everything: "+v.Message))
}

// problem returns the error that an event reports.
func problem(data []byte) error {
	var v api.Problem
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return &fault{status: v.Status, code: v.Code, message: text(v), field: v.Field, about: v.Resource}
}
