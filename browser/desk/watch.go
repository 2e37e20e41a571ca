package desk

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/watch"
)

// Watch brings the browser up and lets one person look at its display, and
// with control use it. A browser has one watch at a time: a later one ends the
// earlier, whose passwords are dead with it. The container is leased while it
// lives.
func (d *Desk) Watch(ctx context.Context, r Request, control bool) (Watched, error) {
	c, _, err := d.open(ctx, r, onUse)
	if err != nil {
		return Watched{}, err
	}
	s := c.Settings()
	if err := watchable(c); err != nil {
		c.Close()
		return Watched{}, err
	}
	d.supersede(c.Name(), nil)
	seen := &viewing{name: c.Name(), done: make(chan struct{})}
	w, err := watch.Open(ctx, watch.Options{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return c.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.NoVNCPort)))
		},
		WritePasswords:  func(ctx context.Context, b []byte) error { return inside(ctx, c, b, writePasswords) },
		RemovePasswords: func(ctx context.Context, b []byte) error { return inside(ctx, c, b, removePasswords) },
		Gone: func(ctx context.Context) error {
			err := d.gone(ctx, r)
			seen.gone.Store(err == nil)
			return err
		},
		Control: control, For: r.For, Sources: s.Sources, Log: d.log.WithField("sandbox", c.Name()),
	})
	if err != nil {
		c.Close()
		return Watched{}, err
	}
	stop := keepWay(c, d.log)
	seen.Watch = w
	d.supersede(c.Name(), seen)
	go func() {
		<-w.Done()
		stop()
		c.Close()
		close(seen.done)
	}()
	return Watched{Life: seen, Name: c.Name(), URL: w.URL(), Password: w.Password(), ViewOnly: !control, Expires: w.LinkExpires()}, nil
}

// watchable refuses a browser without a display to look at.
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

// What is run inside to exchange the passwords and to take them away again,
// unless they are those of a later watch. In their place comes one that nobody
// knows: without the file the VNC server ends with the next who connects, and
// the browser with it. The server reads the file again when its time differs in
// seconds, so each file is a second younger than the one before.
const (
	replacePasswords = `touch -d "@$(($(stat -c %Y "$1" 2>/dev/null || date +%s) + 1))" "$1.new" && mv -f "$1.new" "$1"`
	writePasswords   = `umask 077; cat >"$1.new" && ` + replacePasswords
	removePasswords  = `if cmp -s - "$1"; then umask 077; head -c 64 /dev/urandom | base64 -w 0 | head -c 8 >"$1.new" && ` + replacePasswords + `; fi`
)

// inside runs a line of the shell with input, about the file of passwords.
func inside(ctx context.Context, c browser.Container, input []byte, line string) error {
	p, err := c.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line, "sh", browser.VNCPasswords}, Stdin: bytes.NewReader(input)})
	if err != nil {
		return err
	}
	exit, err := p.Wait()
	if err == nil && exit.Code != 0 {
		err = sandbox.Errorf(sandbox.CodeExecution, "watch browser", "the password file inside cannot be changed: status %d", exit.Code)
	}
	return err
}

// supersede ends the watch of a browser, and has next in its place.
func (d *Desk) supersede(name string, next *viewing) {
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
	*watch.Watch
	name string
	done chan struct{} // closed when nothing is left

	gone atomic.Bool // the container was removed
}

// Done implements [order.Life].
func (v *viewing) Done() <-chan struct{} { return v.done }

// Err implements [order.Life].
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

// Close implements [order.Life].
func (v *viewing) Close() error {
	v.Watch.Close()
	<-v.done
	return nil
}
