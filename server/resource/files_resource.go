package resource

import (
	"context"
	"net/http"
	"time"

	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A filesManager gives access to the files of sandboxes; a [manager.Manager] is
// one.
type filesManager interface {
	Finder
	Files(ctx context.Context, req manager.Request, fn func(manager.Share) error) error
}

// A filesResource serves the files of sandboxes.
type filesResource struct {
	manager filesManager
	server  *filesServer
}

// NewResource returns the resource.
func NewFilesResource(l filesManager, bounds Limits) *filesResource {
	return &filesResource{manager: l, server: NewFiles(bounds)}
}

// transferTime is how long one content or archive may take. A transfer that
// makes no progress is cut off much earlier.
const transferTime = time.Hour

const filesBase = api.Prefix + "/sandboxes/{name}"

// pathDoc is the documentation of every path in an address.
const pathDoc = "The path is the one inside the sandbox without its first slash, such as workspace/a.txt. "

// Routes implements [Resource].
func (x *filesResource) Routes() []Route {
	return takingSettings(append(x.contents(), x.changes()...))
}

var conditions = []Param{
	{Name: "If-Match", Doc: "Only when the content has one of these entity tags: the SHA-256 of it, as ETag tells"},
	{Name: "If-None-Match", Doc: "Only when the content has none of these entity tags; * is only when nothing is there"},
	{Name: "If-Unmodified-Since", Doc: "Only when it has not been changed since"},
}

func (x *filesResource) contents() []Route {
	reading := append([]Param{
		{Name: "Range", Doc: "One range of bytes; several are answered with the whole"},
		{Name: "If-Range", Doc: "The range only when the content has this entity tag"},
		{Name: "If-Modified-Since", Doc: "Only when it has been changed since"},
	}, conditions...)
	return []Route{{
		ID: "readFile", Method: http.MethodGet, Path: filesBase + "/files/{path...}", Tag: "files", Role: token.Session,
		Summary: "Read a file, or list a folder",
		Doc: pathDoc + "Without list and stat the answer is the content. With list it is a page of the folder in order of names; with stat the one entry, " +
			"a link not followed unless follow is given. The ETag of a content up to 1 MiB is its SHA-256; that of a larger one is weak.",
		Query: []Param{
			{Name: "list", Type: Boolean, Doc: "What is in the folder"},
			{Name: "stat", Type: Boolean, Doc: "What is known of the entry"},
			{Name: "follow", Type: Boolean, Doc: "With stat: of what a link leads to"},
			{Name: "limit", Type: Integer, Min: 1, Max: MaxPage, Doc: "With list: the most entries"},
			{Name: "cursor", Length: 512, Doc: "With list: next of the page before"},
		},
		Header: reading, Response: api.FileList{}, ResponseContent: []string{content8},
		Also: []int{http.StatusPartialContent}, Replies: []int{http.StatusNotModified},
		Errors:  []int{403, 404, 409, 412, 416, 503, 504},
		Timeout: transferTime, Do: x.get,
	}, {
		ID: "writeFile", Method: http.MethodPut, Path: filesBase + "/files/{path...}", Tag: "files", Role: token.Session,
		Summary: "Write a file",
		Doc:     pathDoc + "It is replaced or made in one step, and missing folders are made. With If-None-Match: * it must not be there.",
		Query:   []Param{{Name: "mode", Length: 4, Doc: "Permissions of a new file in octal; 0644 without"}},
		Header:  conditions, RequestContent: content8, Response: api.WrittenFile{}, Also: []int{http.StatusCreated},
		Errors: []int{400, 403, 404, 409, 412, 413, 429, 503, 504},
		Body:   x.server.limits.File, Timeout: transferTime, Do: x.put,
	}, {
		ID: "packArchive", Method: http.MethodGet, Path: filesBase + "/archive", Tag: "files", Role: token.Session,
		Summary: "Read a folder or file as a tar archive",
		Doc:     "Of a folder the names are those that are in it. Links are kept as links when they stay in the tree; pipes, sockets and devices are left out, and so is what is removed meanwhile.",
		Query:   []Param{pathParam}, ResponseContent: []string{ContentTar},
		Errors: []int{403, 404, 409, 429, 503, 504}, Timeout: transferTime, Do: x.pack,
	}, {
		ID: "unpackArchive", Method: http.MethodPut, Path: filesBase + "/archive", Tag: "files", Role: token.Session,
		Summary: "Extract a tar archive into a folder",
		Doc:     "The folder is made when it is missing. Links that lead out, pipes, sockets and devices are left out and named; a name that leads out ends it, and what came before is there then.",
		Query:   []Param{pathParam}, RequestContent: ContentTar, Response: api.UnpackedArchive{},
		Errors: []int{403, 404, 409, 413, 429, 503, 504},
		Body:   x.server.limits.Archive + x.server.limits.Entries*2048, Timeout: transferTime, Do: x.unpack,
	}}
}

// content8 is the content type of all files.
const content8 = "application/octet-stream"

var pathParam = Param{Name: "path", Required: true, Length: maxPath, Doc: "Inside; relative ones are in the workspace"}

func (x *filesResource) changes() []Route {
	return []Route{{
		ID: "removeFile", Method: http.MethodDelete, Path: filesBase + "/files/{path...}", Tag: "files", Role: token.Session,
		Summary: "Remove a file, a link, or a folder", Doc: pathDoc + "A link is removed, not what it leads to.",
		Query:  []Param{{Name: "recursive", Type: Boolean, Doc: "Also what is in the folder"}},
		Header: []Param{conditions[0], conditions[2]},
		Errors: []int{403, 404, 409, 412, 503, 504}, Timeout: changeTime, Do: x.remove,
	}, {
		ID: "moveFile", Method: http.MethodPost, Path: filesBase + "/files:move", Tag: "files", Role: token.Session,
		Summary: "Rename a file or folder", Request: api.MoveFile{}, Response: api.File{},
		Doc:    "Within one mount. Without overwrite nothing may be there.",
		Errors: []int{403, 404, 409, 501, 503, 504}, Timeout: changeTime, Do: x.move,
	}, {
		ID: "makeFolder", Method: http.MethodPost, Path: filesBase + "/files:mkdir", Tag: "files", Role: token.Session,
		Summary: "Make a folder", Request: api.MakeFolder{}, Response: api.File{}, Status: http.StatusCreated,
		Errors: []int{403, 404, 409, 503, 504}, Timeout: changeTime, Do: x.mkdir,
	}, {
		ID: "makeLink", Method: http.MethodPost, Path: filesBase + "/files:symlink", Tag: "files", Role: token.Session,
		Summary: "Make a symbolic link", Request: api.MakeLink{}, Response: api.File{}, Status: http.StatusCreated,
		Doc:    "The target is not looked at: what follows the link later decides, and does not follow it out of its mount.",
		Errors: []int{403, 404, 409, 501, 503, 504}, Timeout: changeTime, Do: x.symlink,
	}, {
		ID: "globFiles", Method: http.MethodPost, Path: filesBase + "/files:glob", Tag: "files", Role: token.Session,
		Summary: "Find files by their names", Request: api.Glob{}, Response: api.GlobResult{},
		Errors: []int{403, 404, 409, 429, 503, 504}, Timeout: changeTime, Do: x.glob,
	}}
}

// changeTime is how long scanning or removing a tree may take.
const changeTime = 10 * time.Minute

// with calls fn with the files of the call's sandbox, after waiting for the
// sandbox's turn in room; a nil room means no waiting.
func (x *filesResource) with(c *Call, room *keylock.Turns, fn func(t Tree, scope string) error) error {
	box, err := Sandboxed(c, x.manager)
	if err != nil {
		return err
	}
	if room != nil {
		leave, err := room.Enter(c.Context(), box.Name)
		if err != nil {
			return err
		}
		c.Until(leave) // the answer is held in memory until the client has read it
	}
	tool := toolOf(c)
	return x.manager.Files(c.Context(), manager.Request{Who: box.Who, Flags: c.Settings, MustExist: true, Tool: c.Tool(tool), Changes: tool == "write"}, func(s manager.Share) error { return fn(s.Bridge.Inside(), s.Name) })
}

// toolOf returns the tool of an agent that does the same.
func toolOf(c *Call) string {
	if m := c.Request.Method; m == http.MethodGet || m == http.MethodHead || c.Route.ID == "globFiles" {
		return "read"
	}
	return "write"
}

// within is with for answers in JSON.
func within[T any](x *filesResource, c *Call, room *keylock.Turns, fn func(t Tree, scope string) (T, error)) (any, error) {
	var out T
	err := x.with(c, room, func(t Tree, scope string) (err error) {
		out, err = fn(t, scope)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (x *filesResource) get(c *Call) (any, error) {
	name, err := pathFiles(c.Path("path"))
	if err != nil {
		return nil, err
	}
	ctx := c.Context()
	switch list, stat := c.True("list"), c.True("stat"); {
	case list && stat:
		return nil, Invalid("stat", "list and stat exclude each other")
	case list:
		return within(x, c, &x.server.looks, func(t Tree, _ string) (api.FileList, error) {
			return x.server.List(ctx, t, name, int(c.Number("limit", 0)), c.Text("cursor"))
		})
	case stat:
		return within(x, c, nil, func(t Tree, _ string) (api.FileList, error) {
			f, err := x.server.Stat(ctx, t, name, c.True("follow"))
			return api.FileList{Items: []api.File{f}}, err
		})
	}
	return Sent{}, x.with(c, nil, func(t Tree, _ string) error { return x.server.Get(c.Writer, c.Request, t, name) })
}

func (x *filesResource) put(c *Call) (any, error) {
	name, err := pathFiles(c.Path("path"))
	if err != nil {
		return nil, err
	}
	var out api.WrittenFile
	err = x.with(c, nil, func(t Tree, scope string) (err error) {
		out, err = x.server.Put(c.Writer, c.Request, t, scope, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if out.Created {
		status = http.StatusCreated
	}
	return Reply{Status: status, Header: http.Header{"Etag": {out.ETag}}, Body: out}, nil
}

func (x *filesResource) remove(c *Call) (any, error) {
	name, err := pathFiles(c.Path("path"))
	if err != nil {
		return nil, err
	}
	return nil, x.with(c, nil, func(t Tree, scope string) error {
		return x.server.Remove(c.Request, t, scope, name, c.True("recursive"))
	})
}

func (x *filesResource) move(c *Call) (any, error) {
	m, err := Body[api.MoveFile](c)
	if err != nil {
		return nil, err
	}
	return within(x, c, nil, func(t Tree, scope string) (api.File, error) { return x.server.Move(c.Context(), t, scope, m) })
}

func (x *filesResource) mkdir(c *Call) (any, error) {
	m, err := Body[api.MakeFolder](c)
	if err != nil {
		return nil, err
	}
	return within(x, c, nil, func(t Tree, _ string) (api.File, error) { return x.server.Mkdir(c.Context(), t, m) })
}

func (x *filesResource) symlink(c *Call) (any, error) {
	m, err := Body[api.MakeLink](c)
	if err != nil {
		return nil, err
	}
	return within(x, c, nil, func(t Tree, scope string) (api.File, error) { return x.server.Symlink(c.Context(), t, scope, m) })
}

func (x *filesResource) glob(c *Call) (any, error) {
	g, err := Body[api.Glob](c)
	if err != nil {
		return nil, err
	}
	return within(x, c, &x.server.looks, func(t Tree, _ string) (api.GlobResult, error) { return x.server.Glob(c.Context(), t, g) })
}

func (x *filesResource) pack(c *Call) (any, error) {
	name, err := insideFiles("path", c.Text("path"))
	if err != nil {
		return nil, err
	}
	return Sent{}, x.with(c, &x.server.trees, func(t Tree, _ string) error { return x.server.Pack(c.Writer, c.Request, t, name) })
}

func (x *filesResource) unpack(c *Call) (any, error) {
	name, err := insideFiles("path", c.Text("path"))
	if err != nil {
		return nil, err
	}
	return within(x, c, &x.server.trees, func(t Tree, _ string) (api.UnpackedArchive, error) {
		return x.server.Unpack(c.Writer, c.Request, t, name)
	})
}

var _ Tree = (*fsbridge.Bridge)(nil)
