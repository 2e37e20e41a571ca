package resource

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

const (
	// maxHandles is how many sandboxes may have a handle open at one time.
	maxHandles = 1024
	// maxHandlesTo is the same bound for one tenant, so that it leaves some to
	// others.
	maxHandlesTo = 128
	// maxHandleLooks is how many requests list folders of one sandbox at a time; others
	// wait. Names of odd bytes are six times as long in JSON, so that one folder
	// can take 200 MB.
	maxHandleLooks = 2
)

// A handle is a sandbox whose files a client may use.
type handle struct {
	name  string // of the sandbox
	files sandbox.Files
	ctx   context.Context // ends with the socket
	owner owner
}

// An owner is the caller that may use a handle.
type owner struct {
	who   config.Who
	token string // id; empty is a user of this machine
}

func ownerOf(c *Call) owner {
	o := owner{who: c.Who}
	if c.Caller.Token != nil {
		o.token = c.Caller.Token.ID
	}
	return o
}

// Handles returns the handler for the files of open handles, to be mounted at [api.HandlesPath] and
// below.
func (s *Sessions) Handles() http.Handler { return s.mux }

func (s *Sessions) handlesMux() *http.ServeMux {
	mux := http.NewServeMux()
	Mount(mux, api.HandlesPath+"/{ticket}/files", s.find, func(r *http.Request, err error) error {
		return reportedTo(CallOf(r.Context()), err)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		api.Write(w, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "serve", Message: "there is no such route"})
	})
	return mux
}

// find returns the files that a request is about, after waiting for its turn.
// Handles of other owners look as if they did not exist.
func (s *Sessions) find(r *http.Request) (sandbox.Files, context.Context, func(), error) {
	c := CallOf(r.Context())
	s.mu.Lock()
	l := s.handle[r.PathValue("ticket")]
	s.mu.Unlock()
	if c == nil || l == nil || l.owner != ownerOf(c) {
		return nil, nil, nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "files", Message: "these files are not lent, or not any more"}
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(l.ctx, cancel)
	done := func() { stop(); cancel() }
	if !Lists(r) {
		return l.files, ctx, done, nil
	}
	leave, err := s.looks.Enter(ctx, l.name)
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	return l.files, ctx, func() { leave(); done() }, nil
}

// openHandle opens a handle of the files of the session's sandbox until the
// client closes the connection.
func (s *Sessions) openHandle(c *Call) (any, error) {
	conn, err := websocket.Accept(c.Writer, c.Request, nil)
	if err != nil {
		return Sent{}, nil // it has answered
	}
	t := stream.NewTalk(conn, s.o)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	var ask api.HandleRequest
	if err = t.Receive(ctx, &ask); err == nil {
		go func() { // the client sends nothing further; Read returns when it disconnects
			defer cancel()
			var none struct{}
			_ = t.Receive(context.Background(), &none)
		}()
		err = s.keep(ctx, c, t, ask)
	}
	heard := false
	if err != nil {
		d := api.Of(reportedTo(c, err))
		heard = t.Send(api.Handle{Error: &d}) == nil
	}
	t.End(heard)
	return Sent{}, nil
}

func (s *Sessions) keep(ctx context.Context, c *Call, t *stream.Talk, ask api.HandleRequest) error {
	flags, err := Layer(c, ask.Flags)
	if err != nil {
		return err
	}
	if _, err := s.inside(c.Who, flags); err != nil {
		return err
	}
	return s.m.Files(ctx, manager.Request{Who: c.Who, Flags: flags, MustExist: ask.MustExist, Tool: c.Tool("write")}, func(share manager.Share) error {
		ticket, err := s.register(&handle{name: share.Name, files: share.Bridge, ctx: ctx, owner: ownerOf(c)})
		if err != nil {
			return err
		}
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.handle, ticket)
		}()
		m := api.Handle{Ticket: ticket, Name: share.Name, Transport: share.Transport()}
		for _, r := range share.Roots() {
			m.Roots = append(m.Roots, api.Root{Target: r.Target, ReadOnly: r.ReadOnly})
		}
		if c.Admin() {
			m.Exposed = share.Exposed
		}
		if t.Send(m) == nil {
			<-ctx.Done()
		}
		return nil
	})
}

func (s *Sessions) register(l *handle) (string, error) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // does not fail
	ticket := hex.EncodeToString(b[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	same := 0
	for _, other := range s.handle {
		if other.owner.who.Tenant == l.owner.who.Tenant {
			same++
		}
	}
	if len(s.handle) >= maxHandles || same >= maxHandlesTo {
		return "", &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "files", Message: "the files of too many sandboxes are lent", Retryable: true}
	}
	s.handle[ticket] = l
	return ticket, nil
}
