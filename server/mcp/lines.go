package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
)

// Lines is a transport for one client that writes a message on each line, such as
// over standard input and output. A line that is no message is answered with an
// error of JSON-RPC, and the conversation goes on: it ends with In alone.
//
// Versions of the protocol before 2025-06-18 have batches; their calls are
// carried out like others, and answered in one list.
type Lines struct {
	In  io.ReadCloser
	Out io.WriteCloser
	Max int // bytes of a line
}

// firstWithoutBatches is the version of the protocol that has taken batches away.
const firstWithoutBatches = "2025-06-18"

// maxBatch is how many messages a batch has at most.
const maxBatch = 100

// Connect implements [mcp.Transport].
func (l *Lines) Connect(ctx context.Context) (mcp.Connection, error) {
	c := &lines{Lines: l, in: bufio.NewReaderSize(l.In, 64<<10), open: map[string]*batch{}}
	return (&mcp.IOTransport{Reader: c, Writer: answerer{c}, MaxLineLength: -1}).Connect(ctx) // lines are bounded here
}

// lines are the messages of a client, as far as they are some. It is read by one
// goroutine.
type lines struct {
	*Lines
	in   *bufio.Reader
	next []byte // of messages, what was not read yet

	mu      sync.Mutex
	version string            // of the protocol, once it is agreed on
	open    map[string]*batch // by the id of a call that is not answered yet
}

// A batch is one whose calls are not all answered yet.
type batch struct {
	left    int
	answers []json.RawMessage
}

// Read implements [io.Reader]. It answers what is no message.
func (c *lines) Read(p []byte) (int, error) {
	for len(c.next) == 0 {
		line, err := c.line()
		if err != nil {
			return 0, err
		}
		if err := c.take(line); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.next)
	c.next = c.next[n:]
	return n, nil
}

// Close implements [io.Closer].
func (c *lines) Close() error { return c.In.Close() }

// line returns the next line that is not empty. One that is too long is answered
// and left out.
func (c *lines) line() ([]byte, error) {
	for {
		var line []byte
		long := false
		for {
			part, err := c.in.ReadSlice('\n')
			if long = long || len(line)+len(part) > c.Max; long {
				line = nil
			} else {
				line = append(line, part...)
			}
			if err == nil {
				break
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if len(line) == 0 || !errors.Is(err, io.EOF) {
				return nil, err
			}
			break // the last line has no end
		}
		if long {
			if err := c.refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has more than %d bytes", c.Max)); err != nil {
				return nil, err
			}
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// take has a line read next, or answers it.
func (c *lines) take(line []byte) error {
	if !utf8.Valid(line) || !json.Valid(line) {
		return c.refuse(nil, jsonrpc.CodeParseError, "a line is no JSON; each message is one line of JSON in UTF-8")
	}
	switch line[0] {
	case '{':
		if fault := faultOf(line); fault != "" {
			return c.refuse(idOf(line), jsonrpc.CodeInvalidRequest, fault)
		}
		c.next = append(line, '\n')
		return nil
	case '[':
		return c.takeBatch(line)
	}
	return c.refuse(nil, jsonrpc.CodeInvalidRequest, "a message is an object")
}

// takeBatch has the messages of a batch read next that are some, and answers the
// others.
func (c *lines) takeBatch(line []byte) error {
	var all []json.RawMessage
	if err := json.Unmarshal(line, &all); err != nil {
		return c.refuse(nil, jsonrpc.CodeParseError, "a batch is no list of messages")
	}
	c.mu.Lock()
	version := c.version
	c.mu.Unlock()
	switch {
	case version >= firstWithoutBatches:
		return c.refuse(nil, jsonrpc.CodeInvalidRequest, "the version "+version+" of the protocol has no batches; write one message on each line")
	case len(all) == 0:
		return c.refuse(nil, jsonrpc.CodeInvalidRequest, "a batch has no message")
	case len(all) > maxBatch:
		return c.refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a batch has more than %d messages", maxBatch))
	}
	b := &batch{}
	var next []byte
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range all {
		id, fault := idOf(m), faultOf(m)
		if fault == "" && id != nil && isCall(m) {
			if c.open[string(id)] != nil {
				fault = "a call that is not answered yet has this id"
			} else {
				c.open[string(id)] = b
				b.left++
			}
		}
		if fault != "" {
			b.answers = append(b.answers, rpcError(id, jsonrpc.CodeInvalidRequest, fault))
			continue
		}
		next = append(append(next, m...), '\n')
	}
	c.next = next
	return c.finish(b)
}

// finish writes the answers of a batch when there are all. mu is held.
func (c *lines) finish(b *batch) error {
	if b.left > 0 || len(b.answers) == 0 {
		return nil
	}
	data, err := json.Marshal(b.answers)
	if err != nil {
		return err
	}
	b.answers = nil
	_, err = c.Out.Write(append(data, '\n'))
	return err
}

// refuse answers a message with an error.
func (c *lines) refuse(id json.RawMessage, code int64, message string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.Out.Write(append(rpcError(id, code, message), '\n'))
	return err
}

// rpcError is an answer of JSON-RPC that is an error. Without an id it is about
// a message of which none is known.
func rpcError(id json.RawMessage, code int64, message string) json.RawMessage {
	if id == nil {
		id = json.RawMessage("null")
	}
	data, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{"2.0", id, struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}{code, message}})
	if err != nil {
		panic(err) // the id is JSON, and the rest always marshals
	}
	return data
}

// A head is what makes a message of JSON-RPC.
type head map[string]json.RawMessage

func headOf(message []byte) head {
	var h head
	if json.Unmarshal(message, &h) != nil {
		return nil
	}
	return h
}

func isCall(message []byte) bool { return headOf(message)["method"] != nil }

// faultOf says why JSON is no message, or nothing.
func faultOf(message []byte) string {
	h := headOf(message)
	id, hasID := h["id"]
	var method string
	switch {
	case h == nil:
		return "a message is an object"
	case jsonschema.HasHalf(message):
		return "the message has an escape that is half a character"
	case string(h["jsonrpc"]) != `"2.0"`:
		return `the member jsonrpc is not "2.0"`
	case hasID && idOf(message) == nil:
		return "the id is neither a text nor a whole number"
	case h["method"] == nil && h["result"] == nil && h["error"] == nil:
		return "the method is missing"
	case h["method"] != nil && (json.Unmarshal(h["method"], &method) != nil || string(h["method"]) == "null"):
		return "the method is no text"
	case h["method"] == nil && id == nil:
		return "an answer has no id"
	}
	if _, err := jsonrpc.DecodeMessage(message); err != nil {
		return "it cannot be read as a message"
	}
	return ""
}

// idOf is the id of a message, if it has one that can be answered with: a text,
// or a number that is whole.
func idOf(message []byte) json.RawMessage {
	id := headOf(message)["id"]
	var text string
	if len(id) > 0 && id[0] == '"' && json.Unmarshal(id, &text) == nil && !jsonschema.HasHalf(id) {
		plain, err := json.Marshal(text)
		if err != nil {
			return nil
		}
		return plain
	}
	// The SDK counts in float64.
	if n, err := strconv.ParseInt(string(id), 10, 64); err == nil && n > -1<<53 && n < 1<<53 {
		return json.RawMessage(strconv.FormatInt(n, 10))
	}
	return nil
}

// answerer is where answers are written. One of a call of a batch waits for the
// others.
type answerer struct{ *lines }

// Write implements [io.Writer] for the SDK, which writes one message at a time.
func (a answerer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) > 0 || a.version == "" {
		h := headOf(p)
		if h["method"] == nil {
			a.agree(h["result"])
			id := string(idOf(p))
			if b := a.open[id]; b != nil {
				delete(a.open, id)
				b.left--
				b.answers = append(b.answers, slices.Clone(bytes.TrimSpace(p)))
				return len(p), a.finish(b)
			}
		}
	}
	return a.Out.Write(p)
}

// Close implements [io.Closer].
func (a answerer) Close() error { return a.Out.Close() }

// agree notes the version of the protocol that an answer to initialize names.
// mu is held.
func (c *lines) agree(result json.RawMessage) {
	var r struct {
		Version string `json:"protocolVersion"`
	}
	if c.version == "" && json.Unmarshal(result, &r) == nil {
		c.version = r.Version
	}
}
