package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/term"

	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/copy"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// drawEvery is the time between two pictures of a progress bar.
const drawEvery = 100 * time.Millisecond

// A meter shows the progress of a copy on a terminal. On anything else, and
// when it is to be quiet, it does nothing.
type meter struct {
	out   *os.File // nil shows nothing
	tally *copy.Tally
	begin time.Time
	quit  chan struct{}
	ended sync.WaitGroup

	mu    sync.Mutex
	total int64 // bytes in all; under mu; negative when not known
}

func (a *app) newMeter(ctx context.Context, t *copy.Tally, quiet bool) *meter {
	m := &meter{tally: t, begin: time.Now(), quit: make(chan struct{})}
	if quiet || !isTerminal(a.Stderr) {
		return m
	}
	m.out = a.Stderr
	m.ended.Go(func() { m.draw(ctx) })
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

// draw shows picture after picture until stop or the end of ctx.
func (m *meter) draw(ctx context.Context) {
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.quit:
			return
		case <-tick.C:
		}
		width, _, err := term.GetSize(int(m.out.Fd()))
		if err != nil || width <= 0 {
			width = 80
		}
		m.mu.Lock()
		total := m.total
		m.mu.Unlock()
		fmt.Fprintf(m.out, "\r%s\x1b[K", progressLine(m.tally.Count(), total, time.Since(m.begin), width-1))
	}
}

// stop takes the bar away and says what was copied.
func (m *meter) stop(err error) {
	if m.out == nil {
		return
	}
	close(m.quit)
	m.ended.Wait()
	fmt.Fprint(m.out, "\r\x1b[K")
	if err != nil {
		return
	}
	c, took := m.tally.Count(), time.Since(m.begin)
	fmt.Fprintf(m.out, "copied %s, %s in %s (%s)\n", count(int(c.Files), "file", "files"), bytesOf(c.Bytes), took.Round(time.Millisecond), rate(c.Bytes, took))
}

// barWidth is that of the bar itself, in columns.
const barWidth = 24

// progressLine is one picture, at most width columns. Without a total, which
// is negative then, there is no bar.
func progressLine(c copy.Count, total int64, took time.Duration, width int) string {
	line := fmt.Sprintf("%s  %s  %s", bytesOf(c.Bytes), rate(c.Bytes, took), count(int(c.Files), "file", "files"))
	if total > 0 {
		done := min(float64(c.Bytes)/float64(total), 1)
		filled := int(done * barWidth)
		bar := strings.Repeat("#", filled) + strings.Repeat(".", barWidth-filled)
		line = fmt.Sprintf("[%s] %3d%%  %s/%s  %s  %s", bar, int(done*100), bytesOf(c.Bytes), bytesOf(total), rate(c.Bytes, took), count(int(c.Files), "file", "files"))
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
