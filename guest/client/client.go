// Package client is the outside half of the guest: it speaks with the guest of
// one sandbox over one connection, and runs commands there.
//
// The guest lives among untrusted code, and what it says is treated so:
// sizes are bounded by package wire, text is quoted before it enters a
// message, and anything against the protocol ends the connection. When a
// connection ends, for whatever reason, every call that waits for it
// returns an error of code sandbox.CodeUnavailable.
package client

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// writeWithin bounds one write. The guest always reads, so one that
	// takes nothing for that long is stopped or gone.
	writeWithin = 10 * time.Second
	// frameWithin bounds the writes of one frame. On a busy machine a guest
	// needs more than writeWithin for a request of megabytes; one that takes
	// it in small parts for longer than this only pretends to read.
	frameWithin = time.Minute
	// closeWithin bounds how long Close waits for the guest to end what
	// was started over the connection.
	closeWithin = 5 * time.Second
	// settleWithin bounds how long a command that was cancelled, or whose
	// connection was lost, waits for writers that do not take its output.
	settleWithin = 2 * time.Second
	// signWithin bounds how long a guest that owes the end of a killed
	// command may give no sign of life, after swift, in which most end. Time
	// in which we ourselves stood still does not count.
	signWithin = 4 * time.Second
	swift      = time.Second
	// endWithin bounds how long one that does give signs may owe it. The
	// guest's own attempts to end a tree add up to less.
	endWithin = 30 * time.Second
	// answerWithin bounds how long an answer may take that waits for
	// nothing but the guest itself.
	answerWithin = 30 * time.Second
	// startWithin bounds the answer to a Start. The guest itself gives up
	// after a minute, which a program on a slow disk may need.
	startWithin = 90 * time.Second
)

// Options are what every command of a client starts from.
type Options struct {
	Env    map[string]string // laid over the environment of the sandbox, and a Command's Env over it
	Dir    string            // working directory of commands that name none; empty is the guest's own
	Limits sandbox.Limits    // for limits that a command leaves at zero; Timeout and MaxOutputBytes are the caller's business
	// Name of the sandbox, for errors.
	Name string
	// Descriptors is our end of the channel for descriptors to a guest that
	// was started with --fds, a SOCK_SEQPACKET Unix socket; nil is none. New
	// takes it over. Shells of the client are StateKeepers then.
	Descriptors *os.File
	// Offer has New offer such a channel to a guest that was started without
	// one, for what OpenShell does not need. The connection has to be a
	// *net.UnixConn to the guest's socket, and the guest has to have a network
	// of its own: see Listen. A guest that does not take it goes without. It
	// is of no effect beside Descriptors.
	Offer bool
}

// A Client is one connection to a guest. It is safe for concurrent use.
type Client struct {
	o     Options
	conn  io.ReadWriteCloser
	side  *side // nil where no channel for descriptors was given, or taken
	hello wire.Hello

	writing chan struct{} // holds one token: the right to write
	buf     []byte        // of put; guarded by the token

	delivering sync.Mutex // held while a stream is called; before mu
	retired    retired    // guarded by delivering

	mu      sync.Mutex
	streams map[uint32]stream
	last    uint32
	links   int             // dialled connections that have not ended
	inbound inbound         // connections of sockets that were handed over
	dialled share           // of inbound
	pings   []chan struct{} // waiting for a Pong, oldest first
	ending  bool            // Close was called

	shelf shelf // of the states of shells that have ended

	done chan struct{} // closed when the connection has ended
	err  error         // why; readable once done is closed
	once sync.Once
}

// A stream takes the frames of one request.
type stream interface {
	// frame takes a frame; last says that it ends the stream. It must not
	// wait, nor end the connection. Payloads are valid during the call only.
	frame(f wire.Frame) (last bool, err error)
	// lost is called when the connection ends before the stream did, after
	// the last call of frame. It must not wait either.
	lost(err error)
}

// New speaks the handshake on conn within ctx and returns a Client that
// owns conn. On an error conn is closed.
func New(ctx context.Context, conn io.ReadWriteCloser, o Options) (*Client, error) {
	c := &Client{
		o: o, conn: conn, writing: make(chan struct{}, 1), dialled: share{most: maxDialled},
		streams: map[uint32]stream{}, done: make(chan struct{}),
	}
	c.writing <- struct{}{}
	beside, err := openSide(o.Descriptors)
	if err != nil {
		conn.Close()
		return nil, c.named(invalid("descriptors", err.Error()))
	}
	c.side = beside
	r := wire.NewReader(conn, wire.MaxData)
	greeted := make(chan error, 1)
	go func() { greeted <- c.greet(r) }()
	select {
	case err = <-greeted:
	case <-ctx.Done():
		conn.Close() // ends the greeting
		<-greeted
		err = contextError(ctx, "connect to the guest")
	}
	if err != nil {
		conn.Close()
		c.side.close()
		return nil, c.named(err)
	}
	go c.read(r)
	if c.side != nil {
		go c.side.read(c.end)
	}
	return c, nil
}

// greet exchanges Hellos.
func (c *Client) greet(r *wire.Reader) error {
	hello := wire.ClientHello{Min: wire.MinVersion, Max: wire.Version}
	frame := wire.AppendFrame(nil, wire.Frame{Type: wire.TypeHello, Payload: hello.Encode()})
	if err := c.introduce(frame); err != nil {
		return lostError(err)
	}
	f, err := r.Next()
	if err != nil {
		return lostError(err)
	}
	switch f.Type {
	case wire.TypeHello:
		if c.hello, err = wire.DecodeHello(f.Payload); err == nil && (c.hello.Version < hello.Min || c.hello.Version > hello.Max) {
			err = wire.Violation("the guest chose a version that was not offered")
		}
		c.settleOffer()
	case wire.TypeGoAway:
		err = goAway(f.Payload)
	default:
		err = wire.Violation("the first frame is not a Hello")
	}
	return lostError(err)
}

// Hello returns what the guest said of itself when the connection began.
// Its strings are as the guest sent them: quote them before printing.
func (c *Client) Hello() wire.Hello { return c.hello }

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns nil while the connection stands, and then why it ended.
func (c *Client) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// lost is Err, also while Close is under way.
func (c *Client) lost() error {
	c.mu.Lock()
	ending := c.ending
	c.mu.Unlock()
	if err := c.Err(); err != nil || !ending {
		return err
	}
	return c.named(closedError())
}

// Close ends the connection and every command started over it that is not
// detached. It returns when they are gone, or after a few seconds.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.ending
	c.ending = true
	c.mu.Unlock()
	c.inbound.endOf(&c.dialled) // before the programs end that they lead to: that is another end of a connection
	if first {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		stuck := time.AfterFunc(closeWithin, func() { c.end(errStuck) })
		defer stuck.Stop()
		if c.send(ctx, wire.Frame{Type: wire.TypeBye}) == nil {
			select {
			case <-c.done:
			case <-ctx.Done():
			}
		}
	}
	c.end(errors.New("the connection was closed"))
	return nil
}

// Cut ends the connection at once, and waits for nothing. The guest ends every
// command started over it that is not detached when it finds that out: for one
// that is frozen, when it is thawed.
func (c *Client) Cut() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	c.end(errors.New("the connection was cut"))
}

// Ping asks the guest for a sign of life. One that gives none for half a
// minute, whatever ctx allows, is given up: the connection ends.
func (c *Client) Ping(ctx context.Context) error {
	silent := time.AfterFunc(answerWithin, func() { c.end(silentError()) })
	defer silent.Stop()
	pong := make(chan struct{})
	if err := c.ping(ctx, pong); err != nil {
		return c.named(err)
	}
	select {
	case <-pong:
		return nil
	case <-c.done:
		return c.named(c.err)
	case <-ctx.Done():
		return c.named(contextError(ctx, "ping the guest"))
	}
}

// ping sends a ping whose answer closes pong. It is noted under the right to
// write, so that what is noted is what was sent, in its order: otherwise the
// Pong of one could be taken for that of another which is given up unsent.
func (c *Client) ping(ctx context.Context, pong chan struct{}) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	c.mu.Lock()
	c.pings = append(c.pings, pong)
	c.mu.Unlock()
	return c.write(wire.Frame{Type: wire.TypePing})
}

// SetReady leaves a tag of at most 256 bytes with the guest, which every
// later Hello carries until the guest ends. It marks that what has to be
// done once after each start has been done.
func (c *Client) SetReady(ctx context.Context, tag string) error {
	silent := time.AfterFunc(answerWithin, func() { c.end(silentError()) })
	defer silent.Stop()
	a := answer{result: make(chan error, 1)}
	if _, err := c.open(ctx, wire.TypeSetReady, wire.SetReady{Tag: tag}.Encode(), a); err != nil {
		return c.named(err)
	}
	select {
	case err := <-a.result:
		return c.named(err)
	case <-ctx.Done():
		return c.named(contextError(ctx, "mark the guest as ready"))
	}
}

// Proof returns what the guest, held as commands are, has found not to hold of
// the checks that it was given in its configuration; there are as many of them
// as checks says. A guest that was given none is an error, and so is one that
// could not try them.
func (c *Client) Proof(ctx context.Context, checks int) ([]wire.Miss, error) {
	silent := time.AfterFunc(answerWithin, func() { c.end(silentError()) })
	defer silent.Stop()
	a := proof{answer: answer{result: make(chan error, 1)}, checks: checks, misses: new([]wire.Miss)}
	if _, err := c.open(ctx, wire.TypeProof, nil, a); err != nil {
		return nil, c.named(err)
	}
	select {
	case err := <-a.result:
		return *a.misses, c.named(err)
	case <-ctx.Done():
		return nil, c.named(contextError(ctx, "try the sandbox"))
	}
}

// A proof is the stream of a Proof request.
type proof struct {
	answer
	checks int
	misses *[]wire.Miss // readable once there is a result
}

func (p proof) frame(f wire.Frame) (bool, error) {
	switch f.Type {
	case wire.TypeProven:
		var err error
		if *p.misses, err = wire.DecodeMisses(f.Payload, p.checks); err != nil {
			return false, err
		}
		p.result <- nil
		return true, nil
	case wire.TypeFailed:
		return p.answer.frame(f)
	}
	return false, wire.Violation("unexpected answer")
}

// An answer is the stream of a request with one answer.
type answer struct{ result chan error }

func (a answer) frame(f wire.Frame) (bool, error) {
	switch f.Type {
	case wire.TypeDone:
		a.result <- nil
	case wire.TypeFailed:
		m, err := wire.DecodeFailed(f.Payload)
		if err != nil {
			return false, err
		}
		a.result <- requestError(m)
	default:
		return false, wire.Violation("unexpected answer")
	}
	return true, nil
}

func (a answer) lost(err error) { a.result <- err }
