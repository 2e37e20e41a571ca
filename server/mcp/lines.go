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

// Lines is a transport for one client that writes one message per line, such as
// over standard input and output. It answers an invalid line with a JSON-RPC
// error and goes on: only the end of In ends the conversation.
//
// Versions of the protocol before 2025-06-18 have batches; their calls are
// carried out like others, and answered in one list.
type Lines struct {
	In  io.ReadCloser
	Out io.WriteCloser
	Max int // bytes of a line
}

// firstWithoutBatches is the version of the protocol that has removed batches.
const firstWithoutBatches = "2025-06-18"

// maxBatch is the most messages of a batch.
const maxBatch = 100

// Connect implements [mcp.Transport].
func (l *Lines) Connect(ctx context.Context) (mcp.Connection, error) {
	c := &lines{Lines: l, in: bufio.NewReaderSize(l.In, 64<<10), open: map[string]*batch{}}
	return (&mcp.IOTransport{Reader: c, Writer: answerer{c}, MaxLineLength: -1}).Connect(ctx) // lines are bounded here
}

// lines reads the valid messages of a client. Only one goroutine may read it.
type lines struct {
	*Lines
	in   *bufio.Reader
	next []byte // messages that were not read yet

	mu      sync.Mutex
	version string            // of the protocol, once it is negotiated
	open    map[string]*batch // by the id of an unanswered call
}

// A batch is a batch with unanswered calls.
type batch struct {
	left    int
	answers []json.RawMessage
}

// Read implements [io.Reader]. It answers invalid messages itself.
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

// line returns the next line that is not empty. It answers and skips a line that
// is too long.
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

// take queues a line to be read next, or answers it.
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

// takeBatch queues the valid messages of a batch to be read next, and answers
// the others.
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

// finish writes the answers of a batch when it has all of them. mu is held.
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

// rpcError returns a JSON-RPC error. Without an id it answers a message whose id
// is unknown.
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

// A head holds the members of a JSON-RPC message.
type head map[string]json.RawMessage

func headOf(message []byte) head {
	var h head
	if json.Unmarshal(message, &h) != nil {
		return nil
	}
	return h
}

func isCall(message []byte) bool { return headOf(message)["method"] != nil }

// faultOf returns why JSON is not a valid message, or "".
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

// idOf returns the id of a message, if it has a valid one: a string or an
// integer.
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
	// The SDK stores numbers as float64.
	if n, err := strconv.ParseInt(string(id), 10, 64); err == nil && n > -1<<53 && n < 1<<53 {
		return json.RawMessage(strconv.FormatInt(n, 10))
	}
	return nil
}

// answerer writes answers. It holds back the answer to a call of a batch until
// the batch is complete.
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

// agree stores the version of the protocol in the answer to initialize. mu is
// held.
func (c *lines) agree(result json.RawMessage) {
	var r struct {
		Version string `json:"protocolVersion"`
	}
	if c.version == "" && json.Unmarshal(result, &r) == nil {
		c.version = r.Version
	}
}
