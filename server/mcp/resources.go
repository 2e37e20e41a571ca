package mcp

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/manager"
)

const (
	workspaceURI = "sandbox:///workspace/"

	maxResource = 4 << 20 // bytes of a file that is read as a resource
	maxListed   = 500     // files that are listed
	maxLooked   = 5000    // entries that are looked at for that
	maxDeep     = 8       // folders below one another
)

// template returns the URI template of the files that can be read beside those
// that are listed.
func (x *session) template() *mcp.ResourceTemplate {
	return &mcp.ResourceTemplate{
		Name: "workspace", Title: "Files of the workspace", URITemplate: workspaceURI + "{+path}",
		Description: "A file of the sandbox's workspace, of at most 4 MiB; the tool read has larger ones in parts.",
	}
}

// files calls fn with the files of the sandbox, as the tool read sees them.
func (x *session) files(ctx context.Context, fn func(context.Context, manager.Share) error) error {
	ctx, leave, err := x.admit(ctx)
	if err != nil {
		return err
	}
	defer leave()
	r := x.request(x.bound.Who)
	r.Tool, r.MustExist = "read", true
	return x.o.Manager.Files(ctx, r, func(s manager.Share) error { return fn(ctx, s) })
}

// listResources lists files of the workspace, up to a bound. It makes no
// sandbox: without one, and where the session may not read, the list is empty.
func (x *session) listResources(ctx context.Context) (*mcp.ListResourcesResult, error) {
	out := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}}
	w := walk{left: maxLooked}
	err := x.files(ctx, func(ctx context.Context, s manager.Share) error {
		release, err := x.o.Tools.Look(ctx, s.Name)
		if err != nil {
			return err
		}
		defer release()
		w.ctx = ctx
		return fsbridge.Walk(ctx, s, sandbox.WorkspaceDir, w.visit)
	})
	switch sandbox.CodeOf(err) {
	case "":
		out.Resources = append(out.Resources, w.found...)
		if w.more {
			out.Meta = mcp.Meta{"truncated": true}
		}
	case sandbox.CodeNotFound, sandbox.CodeDenyTool, sandbox.CodeCapabilityBlocked, sandbox.CodeUnsupported:
	default:
		return nil, x.protocolError(err)
	}
	return out, nil
}

// A walk collects files.
type walk struct {
	ctx   context.Context
	found []*mcp.Resource
	left  int  // entries that may still be looked at
	more  bool // not all was looked at
}

// visit is called for the workspace and for each entry in it, folder by folder.
func (w *walk) visit(at string, d fs.DirEntry, err error) error {
	rest, below := strings.CutPrefix(at, sandbox.WorkspaceDir+"/")
	switch {
	case sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded:
		w.more = true // more entries than a walk holds; the others are still listed
		return nil
	case err != nil && below && w.ctx.Err() == nil:
		return nil // gone meanwhile, or closed
	case err != nil || !below:
		return err
	}
	if w.left--; w.left < 0 || len(w.found) >= maxListed {
		w.more = true
		return fs.SkipAll
	}
	switch {
	case d.IsDir() && strings.Count(rest, "/")+1 >= maxDeep:
		w.more = true
		return fs.SkipDir
	case d.Type().IsRegular():
		w.add(at, d)
	}
	return nil
}

func (w *walk) add(at string, e fs.DirEntry) {
	name := strings.TrimPrefix(at, sandbox.WorkspaceDir+"/")
	if !utf8.ValidString(name) {
		w.more = true // no URI spells it
		return
	}
	r := &mcp.Resource{Name: name, URI: uriOf(name)}
	if info, err := e.Info(); err == nil {
		r.Size = info.Size()
	}
	w.found = append(w.found, r)
}

// uriOf returns the URI of a file of the workspace.
func uriOf(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return workspaceURI + strings.Join(parts, "/")
}

// pathOf returns the path in the sandbox that a URI names.
func pathOf(uri string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, workspaceURI)
	if !ok {
		return "", false
	}
	name, err := url.PathUnescape(rest)
	if err != nil || name == "" || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return "", false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return "", false
		}
	}
	return sandbox.WorkspaceDir + "/" + name, true
}

// readResource reads a file through the sandbox.
func (x *session) readResource(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	at, ok := pathOf(r.Params.URI)
	if !ok {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	var data []byte
	err := x.files(ctx, func(ctx context.Context, s manager.Share) error {
		f, err := s.Read(ctx, at, 0, maxResource+1)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, maxResource+1))
		return err
	})
	switch {
	case sandbox.IsNotFound(err) || errors.Is(err, fs.ErrNotExist):
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	case err != nil:
		return nil, x.protocolError(err)
	case len(data) > maxResource:
		return nil, x.protocolError(&sandbox.Error{Code: sandbox.CodeValidation, Op: "read", Field: "uri", Message: "the file is larger than 4 MiB", Hint: "the tool read has it in parts"})
	}
	c := &mcp.ResourceContents{URI: r.Params.URI, MIMEType: http.DetectContentType(data)}
	if utf8.Valid(data) {
		c.Text = string(data)
	} else {
		c.Blob = data
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
}

// protocolError returns err for requests other than tool calls.
func (s *Server) protocolError(err error) error {
	p := s.problem(err)
	text := string(p.Code) + ": " + p.Message
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	code := int64(jsonrpc.CodeInternalError)
	if p.Code == sandbox.CodeValidation {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: text}
}
