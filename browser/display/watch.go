package display

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// Watch starts the browser and serves its display to one person, who can use
// it if control is set. A browser has one watch at a time: a later one ends
// the earlier one and revokes its passwords. The container is leased until the
// watch ends.
func (d *Display) Watch(ctx context.Context, r Request, control bool) (Watched, error) {
	w, _, err := d.watch(ctx, r, control)
	if err != nil {
		return Watched{}, err
	}
	return Watched{Life: w, Name: w.name, URL: w.URL(), Password: w.Password(), ViewOnly: !control, Expires: w.LinkExpires()}, nil
}

// View does what Watch does without control, for a viewer that speaks the protocol of
// VNC itself. The caller closes the connection and the Life.
func (d *Display) View(ctx context.Context, r Request) (Viewed, error) {
	w, c, err := d.watch(ctx, r, false)
	if err != nil {
		return Viewed{}, err
	}
	w.CloseLink()
	conn, err := c.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Settings().VNCPort)))
	if err != nil {
		_ = w.Close()
		return Viewed{}, err
	}
	return Viewed{Life: w, Conn: conn, Password: w.Password()}, nil
}

// watch opens the watch, which owns the container.
func (d *Display) watch(ctx context.Context, r Request, control bool) (*viewing, Opened, error) {
	c, _, err := d.open(ctx, r, always)
	if err != nil {
		return nil, nil, err
	}
	s := c.Settings()
	if err := watchable(c); err != nil {
		c.Close()
		return nil, nil, err
	}
	d.supersede(c.Name(), nil)
	seen := &viewing{name: c.Name(), done: make(chan struct{})}
	w, err := browser.OpenWatch(ctx, browser.WatchOptions{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return c.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.NoVNCPort)))
		},
		File: func(ctx context.Context, path string, limit int64) ([]byte, error) {
			return fileOf(ctx, c, path, limit)
		},
		SetPasswords: func(ctx context.Context, old, content []byte) error { return setPasswords(ctx, c, old, content) },
		Gone: func(ctx context.Context) error {
			err := d.gone(ctx, r)
			seen.gone.Store(err == nil)
			return err
		},
		Control: control, For: r.For, Sources: s.Sources, Log: d.log.WithField("sandbox", c.Name()),
	})
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	stop := keepWay(ctx, c, d.log)
	seen.Watch = w
	d.supersede(c.Name(), seen)
	go func() {
		<-w.Done()
		stop()
		c.Close()
		close(seen.done)
	}()
	return seen, c, nil
}

// watchable returns an error for a browser without a display.
func watchable(c browser.Container) error {
	if _, host := c.(*hostBrowser); host {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "watch browser", Field: "browser.hostCdpUrl", Message: "a browser of the host is looked at on the host"}
	}
	if s := c.Settings(); s.Headless || !s.VNC {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "watch browser", Field: "browser.enableNoVnc", Resource: c.Name(), Message: "this browser has no display that can be looked at",
			Hint: "set browser.headless to false and browser.enableNoVnc to true"}
	}
	return nil
}

// exchange is run inside to replace the passwords. It reads the old passwords,
// whose length is an argument, and then the new ones. If old passwords are
// given and are not the current ones, a later watch has set its own, and these
// stay. The file is never missing: without it the VNC server ends. The server
// reads the file again when its time differs in seconds, so each file is a
// second younger than the one before.
const exchange = `umask 077
head -c "$2" >"$1.old" && cat >"$1.new" || exit 1
if [ "$2" -gt 0 ] && ! cmp -s "$1.old" "$1"; then rm -f "$1.old" "$1.new"; exit 0; fi
rm -f "$1.old"
touch -d "@$(($(stat -c %Y "$1" 2>/dev/null || date +%s) + 1))" "$1.new" && mv -f "$1.new" "$1"`

// setPasswords exchanges the passwords of the display in c.
func setPasswords(ctx context.Context, c browser.Container, old, content []byte) error {
	input := io.MultiReader(bytes.NewReader(old), bytes.NewReader(content))
	p, err := c.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", exchange, "sh", browser.VNCPasswords, strconv.Itoa(len(old))}, Stdin: input})
	if err != nil {
		return err
	}
	exit, err := p.Wait()
	if err == nil && exit.Code != 0 {
		err = sandbox.Errorf(sandbox.CodeExecution, "watch browser", "the password file inside cannot be changed: status %d", exit.Code)
	}
	return err
}

// pages is the folder of noVNC in the image. No program inside can write
// there.
const pages = "/usr/share/novnc"

// fileOf reads a file of noVNC of at most limit bytes. The guest starts the
// program that reads it; programs of the browser cannot act on it.
func fileOf(ctx context.Context, c browser.Container, path string, limit int64) ([]byte, error) {
	var out bytes.Buffer
	room := &room{to: &out, left: limit}
	p, err := c.Start(ctx, sandbox.Command{Args: []string{"cat", "--", pages + path}, Dir: "/", Stdout: room})
	if err != nil {
		return nil, err
	}
	exit, err := p.Wait()
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case room.left < 0:
		return nil, sandbox.Errorf(sandbox.CodeBudgetExceeded, "watch browser", "a file of noVNC is longer than %d bytes", limit)
	case exit.Code != 0:
		return nil, sandbox.Errorf(sandbox.CodeNotFound, "watch browser", "the image has no such file of noVNC")
	}
	return out.Bytes(), nil
}

// A room writes at most left bytes and drops the rest; left is negative then.
type room struct {
	to   *bytes.Buffer
	left int64
}

// Write implements io.Writer.
func (r *room) Write(p []byte) (int, error) {
	if r.left -= int64(len(p)); r.left >= 0 {
		r.to.Write(p)
	}
	return len(p), nil
}

// supersede ends the current watch of a browser and registers next.
func (d *Display) supersede(name string, next *viewing) {
	d.mu.Lock()
	last := d.watches[name]
	if next != nil {
		d.watches[name] = next
	} else {
		delete(d.watches, name)
	}
	d.mu.Unlock()
	if last != nil {
		last.Close()
	}
}

// A viewing is a watch with its container.
type viewing struct {
	*browser.Watch
	name string
	done chan struct{} // closed when everything has ended

	gone atomic.Bool // the container was removed
}

// Done implements [Life].
func (v *viewing) Done() <-chan struct{} { return v.done }

// Err implements [Life].
func (v *viewing) Err() error {
	select {
	case <-v.done:
		if v.gone.Load() {
			return removed(v.name)
		}
	default:
	}
	return nil
}

// Close implements [Life].
func (v *viewing) Close() error {
	v.Watch.Close()
	<-v.done
	return nil
}
