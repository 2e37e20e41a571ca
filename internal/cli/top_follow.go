//go:build !sandbox_front && !sandbox_engine

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// Bounds of a log that is followed.
const (
	topLogLines = 2000                   // that are kept
	topLogLine  = 4 << 10                // bytes of a line; the rest is dropped
	topLogTail  = 64 << 10               // bytes of a file before its end that are shown first
	topLogEvery = 500 * time.Millisecond // between two looks at a file
)

// A topLogView is a log that is followed.
type topLogView struct {
	id     int // so that what an earlier one still sends is not taken for this one's
	title  string
	cancel context.CancelFunc
	lines  []string // safe to show
	part   string   // of a line that has no end yet
	back   int      // lines between the last one and the bottom of the screen
	over   string   // why nothing more comes, or empty
}

// A topChooser has the logs of a sandbox to choose from.
type topChooser struct {
	key   string
	logs  []TopLog
	place int
}

type (
	topLogsMsg struct {
		key  string
		logs []TopLog
		err  error
	}
	topLogMsg struct {
		id   int
		data []byte
		over bool
		err  error
	}
)

// logs asks which logs there are.
func (m *topModel) logs(b *topBox) tea.Cmd {
	if b.row.Kind != sandbox.KindSandbox {
		m.say(true, "%s is no sandbox for commands", rowName(b.row))
		return nil
	}
	k, row := rowKey(b.row), b.row
	m.wait(row)
	return m.guarded(func() tea.Msg {
		ctx, done := context.WithTimeout(m.ctx, topQueryWithin)
		defer done()
		logs, err := m.source.Logs(ctx, row)
		return topLogsMsg{k, logs, err}
	})
}

// choose has a log chosen; where no process has one, a file named.
func (m *topModel) choose(msg topLogsMsg) tea.Cmd {
	if m.mode != topWaits {
		return nil // it was left
	}
	m.mode, m.note = topBrowsing, ""
	switch {
	case m.boxes[msg.key] == nil:
		m.say(true, "the sandbox has gone meanwhile")
	case msg.err != nil:
		m.say(true, "%s", topSentence(msg.err))
	case len(msg.logs) == 0:
		m.askFile(msg.key)
	default:
		m.mode, m.choice = topChooses, topChooser{key: msg.key, logs: msg.logs, place: len(msg.logs) - 1}
	}
	return nil
}

func (m *topModel) askFile(k string) {
	m.ask("follow the file", "/workspace/", func(file string) tea.Cmd {
		b := m.boxes[k]
		if b == nil || !path.IsAbs(file) {
			m.say(true, "name a file by its path inside, such as /workspace/server.log")
			return nil
		}
		row := b.row
		return m.follow(file+" in "+rowName(row), func(ctx context.Context, w io.Writer) error { return m.followFile(ctx, row, file, w) })
	})
}

// pick acts on a key while a log is chosen.
func (m *topModel) pick(k tea.KeyPressMsg) tea.Cmd {
	c := &m.choice
	switch k.String() {
	case "up", "k":
		c.place = max(0, c.place-1)
	case "down", "j":
		c.place = min(len(c.logs), c.place+1)
	case "esc", "q":
		m.mode = topBrowsing
	case "enter", "l":
		m.mode = topBrowsing
		b := m.boxes[c.key]
		switch {
		case b == nil:
			m.say(true, "the sandbox has gone meanwhile")
		case c.place == len(c.logs):
			m.askFile(c.key)
		default:
			row, l := b.row, c.logs[c.place]
			return m.follow(l.Command, func(ctx context.Context, w io.Writer) error { return m.source.Follow(ctx, row, l.ID, w) })
		}
	}
	return nil
}

// follow shows what fn writes, until the log is left or the sandbox's end.
func (m *topModel) follow(title string, fn func(context.Context, io.Writer) error) tea.Cmd {
	id := 1
	if m.log != nil {
		id = m.log.id + 1
	}
	m.stopLog()
	ctx, cancel := context.WithCancel(m.ctx)
	l := &topLogView{id: id, title: termsafe.Line(title), cancel: cancel}
	m.log, m.mode = l, topFollows
	send := m.send
	return m.guarded(func() tea.Msg {
		err := fn(ctx, topLogWriter{ctx, id, send})
		if ctx.Err() != nil {
			err = nil // it was left
		}
		return topLogMsg{id: id, over: true, err: err}
	})
}

// A topLogWriter sends what is written to the view, which takes one piece after the
// other.
type topLogWriter struct {
	ctx  context.Context
	id   int
	send func(tea.Msg)
}

// Write implements [io.Writer].
func (w topLogWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	w.send(topLogMsg{id: w.id, data: append([]byte(nil), p...)})
	return len(p), nil
}

func (m *topModel) stopLog() {
	if m.log != nil {
		m.log.cancel()
	}
}

// logged takes a piece of the log.
func (m *topModel) logged(msg topLogMsg) {
	l := m.log
	if l == nil || l.id != msg.id {
		return
	}
	text := l.part + string(msg.data)
	for {
		one, rest, whole := strings.Cut(text, "\n")
		if !whole {
			l.part = one[:min(len(one), topLogLine)]
			break
		}
		l.add(one)
		text = rest
	}
	if msg.over {
		if l.part != "" {
			l.add(l.part)
			l.part = ""
		}
		l.over = "it has ended"
		if msg.err != nil {
			l.over = topSentence(msg.err)
		}
	}
}

func (l *topLogView) add(one string) {
	one = strings.ReplaceAll(strings.TrimSuffix(one, "\r"), "\t", "    ")
	l.lines = append(l.lines, termsafe.Line(one[:min(len(one), topLogLine)]))
	if over := len(l.lines) - topLogLines; over > 0 {
		l.lines = append(l.lines[:0], l.lines[over:]...)
	}
	if l.back > 0 { // what is on the screen stays there
		l.back = min(l.back+1, len(l.lines))
	}
}

// leaf acts on a key while a log is followed.
func (m *topModel) leaf(k tea.KeyPressMsg) tea.Cmd {
	l, page := m.log, max(1, m.height-3)
	switch k.String() {
	case "q", "esc", "l":
		m.stopLog()
		m.mode = topBrowsing
		return m.refresh()
	case "up", "k":
		l.back++
	case "down", "j":
		l.back--
	case "pgup", "ctrl+b":
		l.back += page
	case "pgdown", "ctrl+f", "space":
		l.back -= page
	case "home", "g":
		l.back = len(l.lines)
	case "end", "G":
		l.back = 0
	}
	l.back = max(0, min(l.back, len(l.lines)-page))
	return nil
}

// followFile writes the end of a file in the sandbox of row, and what is added to
// it. A file that becomes shorter, as with rotation, is read from its beginning.
func (m *topModel) followFile(ctx context.Context, row manager.Row, file string, w io.Writer) error {
	req := manager.Request{Who: row.Who(), Flags: layerOfRow(row), MustExist: true}
	return m.source.Files(ctx, req, func(s manager.Share) error {
		offset := int64(-1)
		tick := time.NewTicker(topLogEvery)
		defer tick.Stop()
		for {
			info, err := s.Stat(ctx, file)
			if err != nil {
				return err
			}
			if info.IsDir() {
				return &sandbox.Error{Code: sandbox.CodeValidation, Op: "follow", Resource: file, Message: "it is a folder", Hint: "name a file"}
			}
			switch {
			case offset < 0:
				offset = max(0, info.Size()-topLogTail)
			case info.Size() < offset:
				offset = 0
				fmt.Fprintln(w, "(the file has become shorter)")
			}
			for offset < info.Size() {
				n, err := copyPiece(ctx, s, file, offset, w)
				if err != nil {
					return err
				}
				if n == 0 {
					break
				}
				offset += n
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	})
}

func copyPiece(ctx context.Context, s manager.Share, file string, offset int64, w io.Writer) (int64, error) {
	r, err := s.Read(ctx, file, offset, topLogTail)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(w, r)
	return n, errors.Join(err, r.Close())
}
