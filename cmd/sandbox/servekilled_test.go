//go:build !sandbox_front && !sandbox_engine

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A killing is a daemon under load that is killed again and again. Sandboxes a
// and b run commands, c is frozen, and one more comes and goes with each round.
type killing struct {
	*site
	t        *testing.T
	socket   string
	secret   string
	seed     uint64
	random   *rand.Rand
	before   map[string]api.Sandbox
	reported map[string]bool // what was reported to clients as a success, by request
}

// A round is the load between two starts of the daemon.
type round struct {
	*killing
	n         int
	began     time.Time
	d         *server
	in        *party // over the socket
	out       *party // over TCP
	shell     api.Shell
	mu        sync.Mutex
	wrong     []error
	cuts      int
	born      *api.Sandbox   // what the create of this round has answered, if it has
	body      *io.PipeReader // of the upload
	uploading *io.PipeWriter
}

// killWithin bounds the moment at which a daemon is killed, from when the load
// begins.
const killWithin = 1200 * time.Millisecond

// killRounds is how often a daemon is killed.
func killRounds() int {
	if testenv.All() {
		return 10
	}
	return 3
}

// A daemon that is killed at any moment leaves nothing that the next one does
// not take over, and has reported no success that is none.
func TestServeKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.settings(`, "evidence": {"commands": true}, "pool": {"size": 1}`, `, "tenants": {"list": [{"id": "acme", "sandboxes": 4}]}`)
	k := &killing{site: s, t: t, socket: filepath.Join(t.TempDir(), "d.sock"), secret: s.token("acme"), seed: rand.Uint64(), before: map[string]api.Sandbox{}, reported: map[string]bool{}}
	t.Logf("the seed is %d", k.seed)
	k.random = rand.New(rand.NewPCG(k.seed, 1))
	d := s.server(k.socket, tcp)
	in, out := d.own("acme"), d.guest(k.secret)
	for _, name := range []string{"a", "b", "c"} {
		k.before[name] = must[api.Sandbox](t, in, "POST", "/v1/sandboxes", api.CreateSandbox{Session: name}, api.HeaderIdempotency, "key-"+name)
	}
	if err := in.run(k.name("c"), "c", "echo kept > kept", false); err != nil {
		t.Fatal(err)
	}
	for n := range killRounds() {
		r := &round{killing: k, n: n, began: time.Now(), d: d, in: in, out: out}
		r.play()
		d = s.server(k.socket, tcp)
		in, out = d.own("acme"), d.guest(k.secret)
		r.d, r.in, r.out = d, in, out
		r.look()
		if t.Failed() {
			t.Fatalf("round %d; the log is\n%s", n, d.log.all())
		}
	}
}

func (k *killing) name(session string) string { return k.before[session].Name }

// play begins the load, kills the daemon in it, and waits until all know.
func (r *round) play() {
	r.prepare()
	var wg sync.WaitGroup
	for i := range 8 {
		p := r.in
		if i%2 == 0 {
			p = r.out
		}
		wg.Go(func() { r.loop(p, []string{"a", "b"}[i/2%2], i, i >= 4) })
	}
	wg.Go(r.create)
	wg.Go(r.upload)
	<-time.After(time.Duration(r.random.Int64N(int64(killWithin)))) // any moment will do
	if err := r.d.cmd.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	r.uploading.CloseWithError(errCut)
	wg.Wait()
	_ = r.d.cmd.Wait() // it was killed
	for _, err := range r.wrong {
		r.t.Errorf("a client heard %v", err)
	}
	if fi, err := os.Stat(r.socket); err != nil || fi.Mode().Type() != os.ModeSocket {
		r.t.Errorf("the socket that nobody took away is %v, %v", fi, err)
	}
	r.d.quiet()
}

// prepare begins what is to be there in any case.
func (r *round) prepare() {
	must[struct{}](r.t, r.in, "POST", r.path("c")+"/pause", nil)
	must[api.ToolAnswer](r.t, r.in, "POST", r.path("a")+"/tools/exec", map[string]any{"command": "sleep 7541", "background": true}, api.HeaderRequestID, r.id("background"))
	r.shell = must[api.Shell](r.t, r.in, "POST", r.path("b")+"/shells", api.OpenShell{})
	for _, id := range []string{r.shell.ID, "main"} {
		must[api.ExecResult](r.t, r.in, "POST", r.path("b")+"/shells/"+id+"/run", api.RunLine{Line: "kept=state; cd /tmp"}, api.HeaderRequestID, r.id("shell"))
	}
	res, err := r.in.ask("PUT", r.path("a")+"/files/workspace/upload", strings.NewReader(fmt.Sprint("old ", r.n)))
	if err != nil {
		r.t.Fatal(err)
	}
	res.Body.Close()
	r.body, r.uploading = io.Pipe()
	go func() {
		for { // as fast as it is taken, until the pipe is closed
			if _, err := r.uploading.Write(make([]byte, 16<<10)); err != nil {
				return
			}
		}
	}()
}

func (k *killing) path(session string) string { return "/v1/sandboxes/" + k.name(session) }

func (r *round) id(what string) string { return fmt.Sprintf("%d-%s", r.n, what) }

// loop runs commands that leave a mark each, until the daemon no longer
// answers.
func (r *round) loop(p *party, session string, client int, events bool) {
	for n := 0; ; n++ {
		id := r.id(fmt.Sprintf("%s-%d-%d", session, client, n))
		err := p.run(r.name(session), id, "echo "+id+" >> /workspace/marks", events)
		r.mu.Lock()
		switch {
		case err == nil:
			r.reported[id] = true
		case errors.Is(err, errCut):
			r.cuts++
		default:
			r.wrong = append(r.wrong, err)
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// create asks for one sandbox more, whose making the kill may meet.
func (r *round) create() {
	made, _, err := asked[api.Sandbox](r.out, "POST", "/v1/sandboxes", api.CreateSandbox{Session: "more"}, api.HeaderIdempotency, r.id("more"))
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.born = &made
	} else if !errors.Is(err, errCut) {
		r.wrong = append(r.wrong, err)
	}
}

// upload sends a file that never comes to its end.
func (r *round) upload() {
	res, err := r.in.ask("PUT", r.path("a")+"/files/workspace/upload", r.body)
	if err == nil {
		res.Body.Close()
		err = errors.New("an upload without an end has one")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.Is(err, errCut) {
		r.wrong = append(r.wrong, err)
	}
}

// look holds what the next daemon finds against what was.
func (r *round) look() {
	r.adopted()
	r.marked()
	r.quotas()
	r.recorded()
	if out, err := r.command("serve", "--listen", "unix:"+r.socket+"2").CombinedOutput(); err == nil || !strings.Contains(string(out), string(sandbox.CodeBusy)) {
		r.t.Errorf("a second daemon: %v\n%s", err, out)
	}
	r.d.quiet()
}

// adopted looks at the sandboxes and what is in them.
func (r *round) adopted() {
	page := must[api.SandboxPage](r.t, r.in, "GET", "/v1/sandboxes", nil)
	for session, want := range map[string]sandbox.Status{"a": sandbox.StatusRunning, "b": sandbox.StatusRunning, "c": sandbox.StatusPaused} {
		found := false
		for _, got := range page.Items {
			if got.Session == session {
				found = got.ID == r.before[session].ID && got.Status == want
			}
		}
		if !found {
			r.t.Errorf("%s is not as it was: %+v", session, page.Items)
		}
		again, replayed, err := asked[api.Sandbox](r.in, "POST", "/v1/sandboxes", api.CreateSandbox{Session: session}, api.HeaderIdempotency, "key-"+session)
		if err != nil || !replayed || again.ID != r.before[session].ID || !again.CreatedAt.Equal(r.before[session].CreatedAt) {
			r.t.Errorf("the key of %s answers %+v, %v, %v", session, again, replayed, err)
		}
	}
	if out, err := r.out.output(r.name("c"), r.id("thaw"), "cat kept", true); err != nil || out != "kept\n" {
		r.t.Errorf("in the frozen one there is %q, %v", out, err)
	}
	tries := 0
	eventually(r.t, "what ran when the daemon was killed runs on", func() bool {
		tries++
		out, err := r.out.output(r.name("a"), r.id(fmt.Sprintf("rest-%d", tries)), "pgrep -x sleep; true", false)
		if err != nil {
			r.t.Fatal(err)
		}
		return out == ""
	})
	want := fmt.Sprintf("old %d\nmarks\nupload\n", r.n)
	if out, err := r.out.output(r.name("a"), r.id("files"), "cat upload; echo; ls -A", false); err != nil || out != want && out != strings.Replace(want, "marks\n", "", 1) {
		r.t.Errorf("in a there is %q, %v", out, err)
	}
	var refused *refusal
	_, _, err := asked[api.ExecResult](r.in, "POST", r.path("b")+"/shells/"+r.shell.ID+"/run", api.RunLine{Line: "echo $kept"})
	if !errors.As(err, &refused) || refused.status != http.StatusNotFound {
		r.t.Errorf("the shell that has ended says %v", err)
	}
	if got := must[api.ExecResult](r.t, r.in, "POST", r.path("b")+"/shells/main/run", api.RunLine{Line: "echo ${kept-none} $PWD"}); got.Stdout != "none /workspace\n" {
		r.t.Errorf("the shell that was begun anew has %q", got.Stdout)
	}
}

// marked compares the answers that clients received with what was done.
func (r *round) marked() {
	marks := map[string]int{}
	for _, session := range []string{"a", "b"} {
		out, err := r.out.output(r.name(session), r.id("marks"), "cat /workspace/marks 2>/dev/null; true", false)
		if err != nil {
			r.t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			marks[strings.TrimSpace(line)]++
		}
	}
	for id := range r.reported {
		if marks[id] != 1 {
			r.t.Errorf("%s was told to be a success, and was done %d times", id, marks[id])
		}
	}
	for id, n := range marks {
		if n != 1 {
			r.t.Errorf("%s was done %d times", id, n)
		}
	}
	r.t.Logf("round %d: %d told, %d done, %d cut, the new sandbox %v", r.n, len(r.reported), len(marks), r.cuts, r.born != nil)
}

// quotas asks for the sandbox again that may have come up or not, and for one
// more than there may be.
func (r *round) quotas() {
	more, replayed, err := asked[api.Sandbox](r.out, "POST", "/v1/sandboxes", api.CreateSandbox{Session: "more"}, api.HeaderIdempotency, r.id("more"))
	if err != nil || r.born != nil && (!replayed || more.ID != r.born.ID) {
		r.t.Errorf("the key answers %+v, %v, %v after %+v", more, replayed, err, r.born)
		return
	}
	if err := r.out.run(more.Name, r.id("more-run"), "true", false); err != nil {
		r.t.Error(err)
	}
	_, _, err = asked[api.Sandbox](r.out, "POST", "/v1/sandboxes", api.CreateSandbox{Session: "toomany"})
	var refused *refusal
	if !errors.As(err, &refused) || refused.status != http.StatusTooManyRequests {
		r.t.Errorf("one sandbox more than there may be: %v", err)
	}
	must[struct{}](r.t, r.in, "DELETE", "/v1/sandboxes/"+more.Name+"?force=true&workspace=true", nil)
}

// recorded looks for the begin and the end of everything.
func (r *round) recorded() {
	ended := map[string]string{}
	for _, session := range []string{"a", "b"} {
		q := url.Values{"limit": {"1000"}, "sandbox": {r.name(session)}, "since": {r.began.UTC().Format(time.RFC3339)}}
		list := must[api.OperationList](r.t, r.in, "GET", "/v1/evidence/operations?"+q.Encode(), nil)
		if list.Damaged != 0 || list.More {
			r.t.Errorf("of the evidence %d places are damaged; there is more: %v", list.Damaged, list.More)
		}
		for _, o := range list.Operations {
			ended[requestOf(r.t, o)] = o.Status
			if o.Status == "open" || o.Begin == nil || o.End == nil {
				r.t.Errorf("an operation that cannot go on is %s: %s %s", o.Status, o.Begin, o.End)
			}
		}
	}
	for id := range r.reported {
		if strings.HasPrefix(id, fmt.Sprint(r.n, "-")) && ended[id] != "ok" {
			r.t.Errorf("%s was told to be a success, and is recorded as %q", id, ended[id])
		}
	}
	if got := ended[r.id("background")]; got != "aborted" {
		r.t.Errorf("the command in the background is recorded as %q", got)
	}
	if v := must[api.EvidenceReport](r.t, r.in, "GET", "/v1/evidence/verify", nil); !v.OK || len(v.Chains) == 0 {
		r.t.Errorf("the evidence is not as it was written: %+v", v)
	}
}

// requestOf is the request that an operation was begun for.
func requestOf(t *testing.T, o api.OperationRecord) string {
	t.Helper()
	var b struct {
		RequestID string `json:"requestId"`
	}
	if err := json.Unmarshal(o.Begin, &b); err != nil {
		t.Fatalf("%v: %s", err, o.Begin)
	}
	return b.RequestID
}
