package display

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// wayAgain is the delay before opening an egress listener is tried again while
// another program has its port.
const wayAgain = 300 * time.Millisecond

// stays are the containers used by clients of CDP proxies. Each container is
// opened once for all its clients: while there are any, it is leased, and the
// browser's egress listener is open.
type stays struct {
	mu   sync.Mutex
	open map[string]*stay // by the name of the container
}

// A stay is one container with its user count.
type stay struct {
	all   *stays
	name  string
	users int // guarded by all.mu

	mu   sync.Mutex // serializes opening and closing
	c    browser.Container
	stop func() // closes the egress listener, and waits
}

// enter adds the caller as a user of the container name and returns when its
// browser answers. It calls open if the container is not open or no longer
// usable.
func (s *stays) enter(ctx context.Context, name string, log logrus.FieldLogger, open func(context.Context) (Opened, error)) (*stay, error) {
	s.mu.Lock()
	if s.open == nil {
		s.open = map[string]*stay{}
	}
	t := s.open[name]
	if t == nil {
		t = &stay{all: s, name: name}
		s.open[name] = t
	}
	t.users++
	s.mu.Unlock()
	if err := t.ready(ctx, log, open); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// ready makes sure that the browser answers. It restarts a crashed browser,
// and opens a missing container once more.
func (t *stay) ready(ctx context.Context, log logrus.FieldLogger, open func(context.Context) (Opened, error)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c != nil {
		_, _, err := browser.Launch(ctx, t.c)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err // an ended ctx says nothing about the browser of the other users
		}
		t.end()
	}
	c, err := open(ctx)
	if err != nil {
		return err
	}
	t.c, t.stop = c, keepWay(ctx, c, log)
	return nil
}

// end releases the container; t.mu is held.
func (t *stay) end() {
	if t.c == nil {
		return
	}
	t.stop()
	t.c.Close()
	t.c, t.stop = nil, nil
}

// Dial connects to the DevTools protocol inside.
func (t *stay) Dial(ctx context.Context) (net.Conn, error) {
	t.mu.Lock()
	c := t.c
	t.mu.Unlock()
	if c == nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "reach browser", Resource: t.name, Message: "the browser was let go of", Retryable: true}
	}
	return c.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Settings().CDPPort)))
}

// Close removes one user. The last one releases the container.
func (t *stay) Close() error {
	t.all.mu.Lock()
	t.users--
	last := t.users == 0
	if last {
		delete(t.all.open, t.name)
	}
	t.all.mu.Unlock()
	if last {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.end()
	}
	return nil
}

// keepWay keeps the egress listener open at the port where browsers expect it.
// While another program has the port, keepWay retries and logs that: until
// then hosts are reached by that program's rules, if it is another sandbox
// process. It returns when the listener is open or opening has ended. stop
// closes the listener and waits.
func keepWay(opening context.Context, c browser.Container, log logrus.FieldLogger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	first := make(chan struct{})
	go func() {
		defer close(done)
		var busy sync.Once
		reported := sync.OnceFunc(func() { close(first) })
		defer reported()
		for {
			_, end, ok, err := c.OpenEgress(ctx, browser.ProxyPort)
			reported()
			switch {
			case err == nil && !ok:
				return
			case err == nil:
				<-ctx.Done()
				end()
				return
			case ctx.Err() != nil:
				return
			case sandbox.CodeOf(err) != sandbox.CodeBusy:
				log.WithError(err).WithField("sandbox", c.Name()).Warn("the browser has no way out")
				return
			}
			busy.Do(func() {
				log.WithField("sandbox", c.Name()).Info("another program has the browser's way out: until it ends, clients reach what that one lets")
			})
			select {
			case <-ctx.Done():
				return
			case <-time.After(wayAgain):
			}
		}
	}()
	select {
	case <-first: // the listener is open before clients connect
	case <-opening.Done():
	}
	return func() { cancel(); <-done }
}
