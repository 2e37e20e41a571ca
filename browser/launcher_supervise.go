// This file holds the launcher: it makes sure that a browser runs in its
// container. It asks whether a browser answers, starts the supervisor inside
// if none does, and waits.

package browser

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

const (
	probeTime = 2 * time.Second       // for one answer of the browser when the question is repeated
	askTime   = 30 * time.Second      // for the answer of the browser when it is asked once
	logTime   = 30 * time.Second      // to read the log
	probeGap  = 15 * time.Millisecond // between two questions
	maxAnswer = 64 << 10              // bytes of an answer
	maxSaid   = 8 << 10               // bytes kept of a supervisor's output
	logLines  = 20                    // of the log, in an error
	taken     = 75                    // exit code of a supervisor that finds another one running
	least     = time.Second           // lower bound of the time for a start
)

// A Version is what a browser reports of itself. It is untrusted text.
type Version struct {
	Browser  string // such as Chrome/156.0.8078.79
	Protocol string
	Path     string // of the browser's own WebSocket
}

// Launch returns the version of the browser in c, and starts the browser first
// if none answers. It waits as long as the settings allow. Its error holds the
// last lines of the browser's log: it is [sandbox.CodeUnavailable] if the
// browser ended, and [sandbox.CodeTimeout] if it never answered. Any number of
// programs may launch the same browser at once: one browser is started.
func Launch(ctx context.Context, c Container) (v Version, started bool, err error) {
	if v, err = probe(ctx, c, probeTime); err == nil {
		return v, false, nil
	}
	limit := max(c.Settings().StartTimeout, least)
	ctx, done := context.WithTimeout(ctx, limit)
	defer done()
	for {
		run, err := start(ctx, c)
		if err != nil {
			return v, true, err
		}
		v, err = run.await(ctx, c)
		if !errors.Is(err, errAgain) {
			return v, true, err
		}
	}
}

// errAgain reports that the supervisor of another program, whose browser was
// waited for, has ended.
var errAgain = errors.New("the browser of another start ended")

// Probe asks the browser in c for its version, once. It returns an error if no
// browser answers: at once if nothing listens, and after half a minute if the
// listener does not respond.
func Probe(ctx context.Context, c Container) (Version, error) { return probe(ctx, c, askTime) }

// probe is Probe with a time limit.
func probe(ctx context.Context, c Container, within time.Duration) (Version, error) {
	ctx, done := context.WithTimeout(ctx, within)
	defer done()
	host := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Settings().CDPPort))
	client := http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx, "tcp", host) }, DisableKeepAlives: true,
			DisableCompression: true, MaxResponseHeaderBytes: maxAnswer, Proxy: nil,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/json/version", nil)
	if err != nil {
		return Version{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return Version{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Version{}, err
	}
	var said struct {
		Browser  string `json:"Browser"`
		Protocol string `json:"Protocol-Version"`
		URL      string `json:"webSocketDebuggerUrl"`
	}
	if err := json.Unmarshal(body, &said); err != nil || resp.StatusCode != http.StatusOK {
		return Version{}, errors.New("what answers is no browser")
	}
	at := strings.Index(said.URL, "/devtools/browser/")
	if at < 0 {
		return Version{}, errors.New("what answers is no browser")
	}
	return Version{Browser: word(said.Browser), Protocol: word(said.Protocol), Path: said.URL[at:]}, nil
}

// word returns a name that a browser gives itself in a form that is safe to
// show.
func word(text string) string {
	const most = 100
	return termsafe.Line(strings.ToValidUTF8(text[:min(len(text), most)], ""))
}

// A run is a started supervisor.
type run struct {
	said  *tail
	ended chan struct{}
	exit  sandbox.Exit // valid once ended is closed
	err   error
}

// start starts a supervisor that outlives c.
func start(ctx context.Context, c Container) (*run, error) {
	r := &run{said: &tail{}, ended: make(chan struct{})}
	// The end of the context would end the browser.
	p, err := c.Start(context.WithoutCancel(ctx), sandbox.Command{Args: []string{Program}, Env: c.Settings().Environment(), Dir: sandbox.HomeDir, Stdout: r.said, Stderr: r.said, Detach: true})
	if err != nil {
		e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start browser", Resource: c.Name(), Message: "the supervisor cannot be started", Err: err}
		if errors.Is(err, fs.ErrNotExist) { // otherwise err itself says what to do
			e.Hint = "is the image one of a browser? sandbox images build --browser makes the default one"
		}
		return nil, e
	}
	go func() {
		defer close(r.ended)
		r.exit, r.err = p.Wait()
	}()
	return r, nil
}

// await waits until the browser answers.
func (r *run) await(ctx context.Context, c Container) (Version, error) {
	ended, other := r.ended, false
	for {
		v, err := probe(ctx, c, probeTime)
		if err == nil {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, r.failed(ctx, c, sandbox.CodeTimeout, "the browser did not answer in time", context.Cause(ctx))
		case <-ended:
			if r.err != nil || r.exit.Code != taken {
				return v, r.failed(ctx, c, sandbox.CodeUnavailable, "the browser ended before it answered", r.err)
			}
			if other {
				return v, errAgain
			}
			other, ended = true, nil
			if launcherGone(ctx, c) {
				return v, errAgain
			}
		case <-time.After(probeGap):
		}
	}
}

// launcherGone waits until another program's supervisor has ended or its
// browser answers, and reports whether the supervisor has ended.
func launcherGone(ctx context.Context, c Container) bool {
	for ctx.Err() == nil {
		if _, err := probe(ctx, c, probeTime); err == nil {
			return false
		}
		// The supervisor holds this lock as long as it lives.
		p, err := c.Start(ctx, sandbox.Command{Args: []string{"flock", "--nonblock", RunDir + "/lock", "true"}})
		if err != nil {
			return false
		}
		if exit, err := p.Wait(); err == nil && exit.Code == 0 {
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * probeGap):
		}
	}
	return false
}

// noRoom is the message of a program that cannot create another process or
// thread, see fork(2).
const noRoom = "Resource temporarily unavailable"

// failed returns the error for a browser that did not start. It contains the
// browser's own output.
func (r *run) failed(ctx context.Context, c Container, code sandbox.Code, message string, cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = nil // the message says it
	}
	if words := together(r.said.String(), logLauncher(context.WithoutCancel(ctx), c, logLines)); words != "" {
		message += "; it said:\n" + words
	}
	return &sandbox.Error{Code: code, Op: "start browser", Field: "browser.autoStartTimeout", Resource: c.Name(), Message: message, Err: cause, Retryable: code == sandbox.CodeTimeout,
		Hint: advice(message)}
}

// advice returns a hint for a browser that failed with the output said.
func advice(said string) string {
	const look = "sandbox doctor looks at what a browser needs"
	if strings.Contains(said, noRoom) {
		return "there was no room for one more process: raise the limits of the container, docker.pidsLimit first; " + look
	}
	return look
}

// together joins a supervisor's output and the log. If the supervisor has
// already printed a part of the log, that part appears once.
func together(said, log string) string {
	logged := strings.Split(log, "\n")
	var lines []string
	for line := range strings.SplitSeq(said, "\n") {
		if !slices.Contains(logged, line) {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(append(lines, logged...), "\n"))
}

// logLauncher returns the last lines of the log of the browser in c, safe to
// show, or "". It leaves out complaints about D-Bus, which is never there, and
// of the crash reporter.
func logLauncher(ctx context.Context, c Container, lines int) string {
	ctx, done := context.WithTimeout(ctx, logTime)
	defer done()
	out := &tail{}
	p, err := c.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", `grep -v -e ERROR:dbus/ -e ERROR:third_party/crashpad/ "$1" | tail -n "$2"`, "sh", LogFile, strconv.Itoa(lines)}, Stdout: out})
	if err != nil {
		return ""
	}
	if _, err := p.Wait(); err != nil {
		return ""
	}
	return out.String()
}

// A tail keeps the end of the data written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - maxSaid; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

// String returns the kept text line by line, without control characters.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.buf)), "\n")
	for i, l := range lines {
		lines[i] = termsafe.Line(l)
	}
	return strings.Join(lines, "\n")
}
