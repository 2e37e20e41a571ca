package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/go-units"
	ucli "github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/copy"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// drawEvery is the time between two pictures of a progress bar.
const drawEvery = 100 * time.Millisecond

// reportEvery is the time between two lines about work where there is no terminal.
const reportEvery = 10 * time.Second

// A bar shows the progress of long work on standard error: on a terminal one line
// that is drawn anew and taken away at the end, elsewhere a plain line every
// reportEvery, so that short work says nothing there.
type bar struct {
	out   *os.File // nil shows nothing
	begin time.Time
	line  func(took time.Duration, width int) string // made for each picture
	quit  chan struct{}
	ended sync.WaitGroup
}

// newBar shows what line returns until stop or the end of ctx. It shows nothing
// when it is to be quiet, and with -o json.
func (a *app) newBar(ctx context.Context, quiet bool, line func(took time.Duration, width int) string) *bar {
	b := &bar{begin: time.Now(), line: line, quit: make(chan struct{})}
	if quiet || a.globals.json() {
		return b
	}
	b.out = a.Stderr
	if isTerminal(a.Stderr) {
		b.ended.Go(func() { b.each(ctx, drawEvery, b.draw) })
	} else {
		b.ended.Go(func() { b.each(ctx, reportEvery, b.report) })
	}
	return b
}

// each calls show once an interval, until the bar is taken away or ctx ends.
func (b *bar) each(ctx context.Context, every time.Duration, show func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.quit:
			return
		case <-tick.C:
			show()
		}
	}
}

// draw shows a picture in the place of the one before.
func (b *bar) draw() {
	width, _, err := term.GetSize(int(b.out.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	fmt.Fprintf(b.out, "\r%s\x1b[K", b.line(time.Since(b.begin), width-1))
}

// report writes a line.
func (b *bar) report() {
	fmt.Fprintf(b.out, "sandbox: %s\n", b.line(time.Since(b.begin), plainWidth))
}

// plainWidth is how many columns a line has at most where there is no terminal.
const plainWidth = 200

// stop takes the bar away. It may be called many times.
func (b *bar) stop() {
	if b.out == nil {
		return
	}
	close(b.quit)
	b.ended.Wait()
	if isTerminal(b.out) {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
	b.out = nil
}

// A work is how far long work is. Its methods are safe for concurrent use.
type work struct {
	what        string       // safe to show, such as "exporting checkpoint cp-0002"
	done, total atomic.Int64 // total is 0 while it is not known
	one, many   string       // what done counts; empty is bytes
	besides     atomic.Int64 // bytes beside items that are counted
}

// line shows how far the work is: a bar where the total is known, else a sign that
// moves, with the count and the rate.
func (w *work) line(took time.Duration, width int) string {
	done, total := w.done.Load(), w.total.Load()
	counted, speed := "", ""
	switch {
	case w.many == "" && total > 0:
		counted = bytesOf(done) + "/" + bytesOf(total)
	case w.many == "":
		counted = bytesOf(done)
	case total > 0:
		counted = fmt.Sprintf("%d/%s", done, count(int(total), w.one, w.many))
	default:
		counted = count(int(done), w.one, w.many)
	}
	bytes := done
	if w.many != "" {
		bytes = w.besides.Load()
		if bytes > 0 {
			counted += "  " + bytesOf(bytes)
		}
	}
	if bytes > 0 {
		speed = "  " + rate(bytes, took)
	}
	if total > 0 {
		return termsafe.Truncate(fmt.Sprintf("%s  %s%s  %s", gauge(done, total), counted, speed, w.what), width)
	}
	if done == 0 && bytes == 0 {
		counted = took.Round(time.Second).String()
	}
	sign := `|/-\`[int(took/drawEvery)%4]
	return termsafe.Truncate(fmt.Sprintf("%c %s  %s%s", sign, w.what, counted, speed), width)
}

// gauge is a bar with the share of a total that is done.
func gauge(n, total int64) string {
	done := min(float64(n)/float64(total), 1)
	filled := int(done * barWidth)
	return fmt.Sprintf("[%s] %3d%%", strings.Repeat("#", filled)+strings.Repeat(".", barWidth-filled), int(done*100))
}

// A countedReader counts what is read through it.
type countedReader struct {
	io.Reader
	n *atomic.Int64
}

// Read implements [io.Reader].
func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// A countedWriter counts what is written through it.
type countedWriter struct {
	io.Writer
	n *atomic.Int64
}

// Write implements [io.Writer].
func (c countedWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// quietFlag is the flag of commands with a bar.
func quietFlag(quiet *bool) ucli.Flag {
	return &ucli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress", Destination: quiet}
}

// A meter shows the progress of a copy on a terminal. On anything else, and
// when it is to be quiet, it does nothing.
type meter struct {
	*bar
	tally *copy.Tally

	mu    sync.Mutex
	total int64 // bytes in all; under mu; negative when not known
}

func (a *app) newMeter(ctx context.Context, t *copy.Tally, quiet bool) *meter {
	m := &meter{tally: t}
	m.bar = a.newBar(ctx, quiet, func(took time.Duration, width int) string {
		m.mu.Lock()
		defer m.mu.Unlock()
		return progressLine(m.tally.Count(), m.total, took, width)
	})
	return m
}

// expect adds what can be known of the size of a source at little cost: a
// folder inside would have to be walked there.
func (m *meter) expect(ctx context.Context, from end) error {
	if m.out == nil {
		return nil
	}
	size, err := sizeOf(ctx, from)
	m.mu.Lock()
	defer m.mu.Unlock()
	if size < 0 || m.total < 0 {
		m.total = -1
	} else {
		m.total += size
	}
	return err
}

func sizeOf(ctx context.Context, from end) (int64, error) {
	info, err := from.files.Stat(ctx, from.path)
	switch {
	case err != nil:
		return 0, err
	case !info.IsDir():
		return info.Size(), nil
	}
	if _, ok := from.files.(*fsbridge.Files); !ok {
		return -1, nil
	}
	total := int64(0)
	err = fsbridge.Walk(ctx, from.files, from.path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name != from.path:
			return nil // the copy itself tells what it cannot read
		case err != nil || !d.Type().IsRegular():
			return err
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total, err
}

// stop takes the bar away and says on a terminal what was copied.
func (m *meter) stop(err error) {
	out := m.out
	m.bar.stop()
	if out == nil || err != nil || !isTerminal(out) {
		return
	}
	c, took := m.tally.Count(), time.Since(m.begin)
	fmt.Fprintf(out, "copied %s, %s in %s (%s)\n", count(int(c.Files), "file", "files"), bytesOf(c.Bytes), took.Round(time.Millisecond), rate(c.Bytes, took))
}

// barWidth is that of the bar itself, in columns.
const barWidth = 24

// progressLine is one picture, at most width columns. Without a total, which
// is negative then, there is no bar.
func progressLine(c copy.Count, total int64, took time.Duration, width int) string {
	line := fmt.Sprintf("%s  %s  %s", bytesOf(c.Bytes), rate(c.Bytes, took), count(int(c.Files), "file", "files"))
	if total > 0 {
		line = fmt.Sprintf("%s  %s/%s  %s  %s", gauge(c.Bytes, total), bytesOf(c.Bytes), bytesOf(total), rate(c.Bytes, took), count(int(c.Files), "file", "files"))
	}
	return termsafe.Truncate(line, width)
}

// rate writes bytes per second.
func rate(n int64, took time.Duration) string {
	if took < time.Millisecond {
		took = time.Millisecond
	}
	return units.BytesSize(float64(n)/took.Seconds()) + "/s"
}
