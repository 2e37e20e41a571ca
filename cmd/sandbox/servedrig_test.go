//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// reportedLines keeps what a program says, for as long as it says something.
type reportedLines struct {
	mu   sync.Mutex
	text bytes.Buffer
	read int           // of text, by next
	more chan struct{} // closed when there is more
}

func newReportedLines() *reportedLines { return &reportedLines{more: make(chan struct{})} }

func (l *reportedLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	close(l.more)
	l.more = make(chan struct{})
	return len(p), nil
}

func (l *reportedLines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// next returns the next whole line with that text; those before it are passed.
func (l *reportedLines) next(text string, within time.Duration) (string, bool) {
	over := time.After(within)
	for {
		l.mu.Lock()
		for {
			line, _, whole := strings.Cut(l.text.String()[l.read:], "\n")
			if !whole {
				break
			}
			l.read += len(line) + 1
			if strings.Contains(line, text) {
				l.mu.Unlock()
				return line, true
			}
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-over:
			return "", false
		}
	}
}

// A party sends requests of one tenant to a daemon, from many goroutines at
// once. Its methods return errCut where it is not known how the request ended.
type party struct {
	http    *http.Client
	base    string
	headers map[string]string
}

var errCut = errors.New("cut off")

// A refusal is a whole answer that is no success.
type refusal struct {
	status int
	retry  string
	text   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%d (Retry-After %q): %s", r.status, r.retry, r.text)
}

// own returns the party that speaks over the socket as an admin for a tenant.
func (d *server) own(tenant string) *party {
	return &party{d.Client, "http://sandbox", map[string]string{api.HeaderTenant: tenant}}
}

// tcp makes the daemon listen at a port of this machine too.
func tcp(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--listen", "tcp:127.0.0.1:0") }

// guest returns the party that speaks over TCP with a token.
func (d *server) guest(secret string) *party {
	d.t.Helper()
	_, at, _ := strings.Cut(d.says("listening at tcp:"), "listening at tcp:")
	return &party{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: 2 * time.Minute}, "http://" + strings.TrimSpace(at), map[string]string{"Authorization": "Bearer " + secret}}
}

// token makes a bearer token of a tenant.
func (s *site) token(tenant string) string {
	s.t.Helper()
	out, err := s.command("token", "create", "--tenant", tenant).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// ask sends a request and hands back its answer as soon as it begins.
func (p *party) ask(method, path string, body io.Reader, header ...string) (*http.Response, error) {
	r, err := http.NewRequest(method, p.base+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", api.ContentJSON)
	for k, v := range p.headers {
		r.Header.Set(k, v)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := p.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errCut, err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errCut, err)
	}
	return nil, &refusal{res.StatusCode, res.Header.Get("Retry-After"), string(text)}
}

// asked sends a request with a JSON body and reads the answer into a value.
func asked[T any](p *party, method, path string, body any, header ...string) (v T, replayed bool, err error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return v, false, err
		}
		in = bytes.NewReader(data)
	}
	res, err := p.ask(method, path, in, header...)
	if err != nil {
		return v, false, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		err = fmt.Errorf("%w: %v", errCut, err)
	}
	return v, res.Header.Get(api.HeaderReplayed) == "true", err
}

// must is a request that has to succeed.
func must[T any](t *testing.T, p *party, method, path string, body any, header ...string) T {
	t.Helper()
	v, _, err := asked[T](p, method, path, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return v
}

// run runs a line and returns an error unless the daemon reported its success;
// id is that of the request.
func (p *party) run(box, id, line string, events bool) error {
	_, err := p.output(box, id, line, events)
	return err
}

func (p *party) output(box, id, line string, events bool) (string, error) {
	path, body := "/v1/sandboxes/"+box+"/exec", api.Exec{Line: line}
	if !events {
		r, _, err := asked[api.ExecResult](p, "POST", path, body, api.HeaderRequestID, id)
		if err == nil && (r.ExitCode != 0 || r.Signal != "") {
			err = &refusal{200, "", fmt.Sprintf("%+v", r)}
		}
		return r.Stdout, err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	res, err := p.ask("POST", path, bytes.NewReader(data), api.HeaderRequestID, id, "Accept", api.ContentEvents)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	return readEvents(bufio.NewReader(res.Body))
}

// readEvents reads the stream of a command to its end.
func readEvents(in *bufio.Reader) (string, error) {
	var out strings.Builder
	event, data := "", ""
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return out.String(), fmt.Errorf("%w: %v", errCut, err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case name == "event":
			event = value
		case name == "data":
			data = value
		case line != "\n":
		case event == api.EventStdout:
			var o api.Output
			_ = json.Unmarshal([]byte(data), &o) // what is none adds nothing, and is missed
			out.WriteString(o.Text)
		case event == api.EventError:
			return out.String(), &refusal{200, "", data}
		case event == api.EventExit:
			var e api.Exit
			if err := json.Unmarshal([]byte(data), &e); err != nil || e.ExitCode != 0 || e.Signal != "" {
				return out.String(), &refusal{200, "", data}
			}
			return out.String(), nil
		}
	}
}

// settings writes a settings file for the site's programs and returns its name.
// agents is what stands in the defaults of sandboxes, more beside "agents".
func (s *site) settings(agents, more string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "settings.json")
	s.env = append(s.env, "SANDBOX_CONFIG="+file)
	writeSettings(s.t, file, agents, more)
	return file
}

func writeSettings(t *testing.T, file, agents, more string) {
	t.Helper()
	text := `{"agents": {"defaults": {"sandbox": {"provider": "docker", "prune": {"every": "0s"}` + agents + `}}}` + more + `}`
	err := os.WriteFile(file+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// quiet fails if the daemon has logged something unexplained, and shows it with what
// follows it.
func (d *server) quiet() {
	d.t.Helper()
	log := d.log.all()
	for _, bad := range []string{"UNKNOWN.INTERNAL", "panic", "DATA RACE"} {
		if i := strings.Index(log, bad); i >= 0 {
			d.t.Errorf("the log has %s:\n%.6000s", bad, log[i:])
		}
	}
}
