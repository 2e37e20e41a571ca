//go:build linux

package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/running"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// A ran is what code came to.
type ran struct {
	stdout, stderr string
	order          []string // the kinds of events, with repetitions left out
	results        []sandbox.CodeDisplay
	failure        *sandbox.CodeFailure
	count, dropped int64
	outcome        manager.Outcome
}

func (r *rig) codeAs(session string, c running.Code) (ran, error) {
	var out ran
	var err error
	out.outcome, err = r.supervisor.RunCode(context.Background(), manager.Request{Who: someone(session)}, c, func(e sandbox.CodeEvent) error {
		if len(out.order) == 0 || out.order[len(out.order)-1] != e.Type {
			out.order = append(out.order, e.Type)
		}
		switch e.Type {
		case sandbox.CodeEventStdout:
			out.stdout += e.Text
		case sandbox.CodeEventStderr:
			out.stderr += e.Text
		case sandbox.CodeEventResult:
			out.results = append(out.results, *e.Result)
		case sandbox.CodeEventError:
			out.failure = e.Error
		case sandbox.CodeEventCount:
			out.count = e.ExecutionCount
		case sandbox.CodeEventTruncated:
			out.dropped = e.Dropped
		}
		return nil
	})
	return out, err
}

func (r *rig) code(t *testing.T, c running.Code) ran {
	t.Helper()
	out, err := r.codeAs("a", c)
	must(t, err)
	return out
}

// value is the text of the value of the last expression.
func (o ran) value() string {
	for _, v := range o.results {
		if v.Main {
			return v.Text
		}
	}
	return ""
}

// TestCode runs code in real kernels.
func TestCode(t *testing.T) {
	testenv.Require(t, "code")
	r := newDocker(t, `, "docker": {"image": "sandbox-code:bookworm-slim"}`)
	ctx, req := context.Background(), manager.Request{Who: someone("a")}

	t.Run("value and text", func(t *testing.T) {
		o := r.code(t, running.Code{Text: "x = 6\nprint('hello')\nx * 7"})
		if o.value() != "42" || o.stdout != "hello\n" || o.count == 0 || o.failure != nil {
			t.Errorf("%+v", o)
		}
		if next := r.code(t, running.Code{Text: "x"}); next.value() != "6" || next.count != o.count+1 {
			t.Errorf("the next run: %+v", next)
		}
	})
	t.Run("order of output", func(t *testing.T) {
		o := r.code(t, running.Code{Text: "import sys\nprint('one', flush=True)\nprint('two', file=sys.stderr, flush=True)\nprint('three', flush=True)\ndisplay('four')"})
		if got := strings.Join(o.order, " "); got != "count stdout stderr stdout result" || o.stdout != "one\nthree\n" || o.stderr != "two\n" {
			t.Errorf("%s: %+v", got, o)
		}
	})
	t.Run("error", func(t *testing.T) {
		o := r.code(t, running.Code{Text: "def f():\n    raise ValueError('no ä')\nf()"})
		if o.failure == nil || o.failure.Name != "ValueError" || o.failure.Value != "no ä" || !strings.Contains(o.failure.Traceback, "ValueError") {
			t.Errorf("%+v", o.failure)
		}
	})
	t.Run("table", func(t *testing.T) {
		o := r.code(t, running.Code{Text: "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]})"})
		if len(o.results) != 1 || !strings.Contains(o.results[0].HTML, "<table") {
			t.Fatalf("%+v", o)
		}
		var d struct{ Data map[string][]any }
		must(t, json.Unmarshal(o.results[0].Data, &d))
		if len(d.Data["a"]) != 2 || d.Data["a"][1] != 2.0 || d.Data["b"][1] != nil {
			t.Errorf("%s", o.results[0].Data)
		}
	})
	for kind, tt := range map[string]struct{ draw, want string }{
		"line":            {"plt.plot([1, 2, 3], [2, 4, 8], label='p'); plt.title('T'); plt.xlabel('t (s)'); plt.ylabel('y')", `"points":[[1,2],[2,4],[3,8]]`},
		"scatter":         {"plt.scatter([1, 2], [3, 4])", `"points":[[1.0,3.0],[2.0,4.0]]`},
		"bar":             {"plt.bar(['u', 'v'], [5, 6])", `"label":"u"`},
		"pie":             {"plt.pie([1, 3], labels=['u', 'v'])", `"label":"v"`},
		"box_and_whisker": {"plt.boxplot([1, 2, 3, 4, 100])", `"outliers":[100]`},
		"superchart":      {"f, (p, q) = plt.subplots(1, 2); p.plot([1]); q.bar(['u'], [2])", `"type":"bar"`},
	} {
		t.Run("chart "+kind, func(t *testing.T) {
			o := r.code(t, running.Code{Text: "import matplotlib.pyplot as plt\n" + tt.draw + "\nplt.show()"})
			if len(o.results) != 1 {
				t.Fatalf("%+v", o)
			}
			if _, err := png.Decode(bytes.NewReader(o.results[0].PNG)); err != nil {
				t.Errorf("no picture: %v", err)
			}
			var c struct{ Type, Title string }
			must(t, json.Unmarshal(o.results[0].Chart, &c))
			if got := strings.ReplaceAll(string(o.results[0].Chart), ", ", ","); c.Type != kind || !strings.Contains(strings.ReplaceAll(got, ": ", ":"), tt.want) || kind == "line" && (c.Title != "T" || !strings.Contains(got, `"s"`)) {
				t.Errorf("%s", o.results[0].Chart)
			}
		})
	}
	t.Run("forms", func(t *testing.T) {
		o := r.code(t, running.Code{Text: "from IPython.display import *\ndisplay(Markdown('*m*'), Latex('$l$'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'), JSON({'j': 1}), HTML('<b>h</b>'))"})
		var all string
		for _, v := range o.results {
			all += v.Markdown + v.LaTeX + v.SVG + string(v.JSON) + v.HTML
		}
		for _, want := range []string{"*m*", "$l$", "<svg", `"j"`, "<b>h</b>"} {
			if !strings.Contains(all, want) {
				t.Errorf("%s is not in %+v", want, o.results)
			}
		}
	})
	t.Run("variables of one run", func(t *testing.T) {
		for language, code := range map[string]string{"python": "import os\nos.environ.get('FOR_ONE')", "javascript": "process.env.FOR_ONE", "bash": "echo \"[$FOR_ONE]\""} {
			with := r.code(t, running.Code{Text: code, Language: language, Env: map[string]string{"FOR_ONE": "a'b"}})
			if got := with.value() + with.stdout; !strings.Contains(got, "a'b") {
				t.Errorf("%s: %+v", language, with)
			}
			if without := r.code(t, running.Code{Text: code, Language: language}); strings.Contains(without.value()+without.stdout, "a'b") {
				t.Errorf("%s: it stays: %+v", language, without)
			}
		}
	})
	t.Run("javascript", func(t *testing.T) {
		js := func(text string) ran { return r.code(t, running.Code{Text: text, Language: "javascript"}) }
		if o := js("const a = [1, 2]\nconsole.log('out'); console.error('err')\na.map(x => x * 2)"); o.value() != "[ 2, 4 ]" || o.stdout != "out\n" || o.stderr != "err\n" {
			t.Errorf("%+v", o)
		}
		if o := js("await Promise.resolve(a.length)"); o.value() != "2" {
			t.Errorf("await: %+v", o)
		}
		if o := js("null.x"); o.failure == nil || o.failure.Name != "TypeError" || !strings.Contains(o.failure.Traceback, "cell") {
			t.Errorf("%+v", o)
		}
		if o := js("process.exit(3)"); o.failure == nil || o.failure.Name != "KernelDied" {
			t.Errorf("exit: %+v", o)
		}
		if o := js("typeof a"); o.value() != "'undefined'" {
			t.Errorf("after the exit: %+v", o)
		}
	})
	t.Run("bash", func(t *testing.T) {
		sh := func(text string) ran { return r.code(t, running.Code{Text: text, Language: "bash"}) }
		if o := sh("n=5; cd /tmp; echo out; echo err >&2"); o.stdout != "out\n" || o.stderr != "err\n" || o.failure != nil {
			t.Errorf("%+v", o)
		}
		if o := sh("echo $n; pwd"); o.stdout != "5\n/tmp\n" {
			t.Errorf("%+v", o)
		}
		if o := sh("false"); o.failure == nil || o.failure.Value != "exit status 1" {
			t.Errorf("%+v", o)
		}
		if o := sh("exit 3"); o.failure == nil || o.failure.Name != "KernelDied" {
			t.Errorf("exit: %+v", o)
		}
		if o := sh("echo \"[$n]\""); o.stdout != "[]\n" {
			t.Errorf("after the exit: %+v", o)
		}
	})
	for language, endless := range map[string]string{"python": "while True: pass", "javascript": "while (true);", "bash": "while true; do :; done"} {
		t.Run("interrupt "+language, func(t *testing.T) {
			keep := map[string]string{"python": "kept = 1", "javascript": "var kept = 1", "bash": "kept=1"}[language]
			r.code(t, running.Code{Text: keep, Language: language})
			o := r.code(t, running.Code{Text: endless, Language: language, Timeout: time.Second})
			if !o.outcome.TimedOut || o.failure == nil || o.failure.Name != "KeyboardInterrupt" {
				t.Errorf("%+v %+v", o, o.failure)
			}
			show := map[string]string{"python": "kept", "javascript": "kept", "bash": "echo $kept"}[language]
			if o := r.code(t, running.Code{Text: show, Language: language}); !strings.Contains(o.value()+o.stdout, "1") {
				t.Errorf("after it: %+v %+v", o, o.failure)
			}
		})
	}
	for name, endless := range map[string]string{
		"catches": "import time\nwhile True:\n    try:\n        while True: time.sleep(0.01)\n    except BaseException: pass",
		"masks":   "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
	} {
		t.Run("code that "+name+" interrupts", func(t *testing.T) {
			o := r.code(t, running.Code{Text: endless, Timeout: time.Second})
			if !o.outcome.TimedOut || o.failure == nil || o.failure.Name != "KernelDied" {
				t.Errorf("%+v %+v", o, o.failure)
			}
		})
	}
	t.Run("caller gives up", func(t *testing.T) {
		short, done := context.WithTimeout(ctx, 3*time.Second)
		defer done()
		if _, err := r.supervisor.RunCode(short, req, running.Code{Text: "gone = 1\nwhile True: pass"}, func(sandbox.CodeEvent) error { return nil }); err == nil {
			t.Error("no error")
		}
		if o := r.code(t, running.Code{Text: "1 + 1"}); o.value() != "2" {
			t.Errorf("after it: %+v", o)
		}
	})
	t.Run("dead kernel", func(t *testing.T) {
		o := r.code(t, running.Code{Text: "lost = 1\nimport os\nos._exit(1)"})
		if o.failure == nil || o.failure.Name != "KernelDied" || !strings.Contains(o.failure.Value, "exit status 1") {
			t.Errorf("%+v", o.failure)
		}
		if o := r.code(t, running.Code{Text: "lost"}); o.failure == nil || o.failure.Name != "NameError" {
			t.Errorf("after it: %+v", o)
		}
	})
	t.Run("huge output", func(t *testing.T) {
		o := r.code(t, running.Code{Text: "print('x' * 50_000_000)", Output: 100_000})
		if len(o.stdout) > 100_000 || len(o.stdout) == 0 || o.dropped < 49_000_000 {
			t.Errorf("%d characters, %d dropped", len(o.stdout), o.dropped)
		}
		o = r.code(t, running.Code{Text: "from IPython.display import HTML\nHTML('x' * 20_000_000)"})
		if len(o.results) != 1 || o.results[0].HTML != "" || strings.Join(o.results[0].Omitted, " ") != "text/html" {
			t.Errorf("%d results", len(o.results))
		}
	})
	t.Run("contexts", func(t *testing.T) {
		one, err := r.supervisor.CreateCodeContext(ctx, req, "", "/tmp")
		must(t, err)
		two, err := r.supervisor.CreateCodeContext(ctx, req, "python", "")
		must(t, err)
		r.code(t, running.Code{Text: "mine = 1", Context: one.ID})
		if o := r.code(t, running.Code{Text: "import os\nos.getcwd(), 'mine' in globals()", Context: one.ID}); o.value() != "('/tmp', True)" {
			t.Errorf("%+v", o)
		}
		if o := r.code(t, running.Code{Text: "import os\nos.getcwd(), 'mine' in globals()", Context: two.ID}); o.value() != "('/workspace', False)" {
			t.Errorf("%+v", o)
		}
		list, err := r.supervisor.CodeContexts(ctx, req)
		must(t, err)
		found := 0
		for _, c := range list {
			if c == one || c == two {
				found++
			}
		}
		if found != 2 {
			t.Errorf("%+v", list)
		}
		_, err = r.supervisor.RestartCodeContext(ctx, req, one.ID)
		must(t, err)
		if o := r.code(t, running.Code{Text: "'mine' in globals()", Context: one.ID}); o.value() != "False" {
			t.Errorf("after the restart: %+v", o)
		}
		must(t, r.supervisor.DeleteCodeContext(ctx, req, one.ID))
		for name, err := range map[string]error{
			"run": func() error { _, err := r.codeAs("a", running.Code{Text: "1", Context: one.ID}); return err }(), "delete": r.supervisor.DeleteCodeContext(ctx, req, one.ID),
			"restart": func() error { _, err := r.supervisor.RestartCodeContext(ctx, req, one.ID); return err }(),
			"another session": func() error {
				_, err := r.codeAs("b", running.Code{Text: "1", Context: two.ID})
				return err
			}(),
		} {
			if sandbox.CodeOf(err) != sandbox.CodeNotFound {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("forged lines", func(t *testing.T) {
		// Code can listen in the place of its kernel host.
		o, err := r.codeAs("forger", running.Code{Text: "import os, socket, threading\n" +
			"d = '/tmp/sandbox-code-%d/' % os.getuid()\nos.unlink(d + 'socket')\ns = socket.socket(socket.AF_UNIX)\ns.bind(d + 'socket')\ns.listen()\n" +
			"def lie():\n    while True:\n        c = s.accept()[0]\n        c.sendall(b'{\"type\":\"exit\",\"code\":0}\\n')\n        c.close()\n" +
			"threading.Thread(target=lie, daemon=True).start()"})
		must(t, err)
		if o.failure != nil {
			t.Fatalf("%+v", o.failure)
		}
		if _, err := r.codeAs("forger", running.Code{Text: "1"}); sandbox.CodeOf(err) != sandbox.CodeExecution {
			t.Errorf("%v", err)
		}
		if o := r.code(t, running.Code{Text: "1"}); o.value() != "1" {
			t.Errorf("another session: %+v", o)
		}
	})
	t.Run("tool", func(t *testing.T) {
		a := r.call("run_code", obj{"code": "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('seen')\n40 + 2"})
		d := data[schema.RunCodeResult](t, a)
		if len(a.Pictures) != 1 || len(d.Results) != 2 || d.Results[1].Text != "42" || !strings.Contains(a.Text, "seen") || !strings.Contains(a.Text, "42") || a.Failed {
			t.Errorf("%s %+v", a.Text, d)
		}
		a = r.call("run_code", obj{"code": "1/0"})
		if d := data[schema.RunCodeResult](t, a); !a.Failed || d.Error == nil || d.Error.Name != "ZeroDivisionError" || strings.Contains(a.Text, "\x1b") {
			t.Errorf("%s", a.Text)
		}
		if a := r.call("run_code", obj{"code": "'x' in globals()", "restart": true}); !strings.Contains(a.Text, "False") {
			t.Errorf("%s", a.Text)
		}
	})
}

// TestCodeNeedsItsImage holds what is said where the image has no kernel host.
func TestCodeNeedsItsImage(t *testing.T) {
	r := newDocker(t, "")
	_, err := r.codeAs("a", running.Code{Text: "1"})
	if sandbox.CodeOf(err) != sandbox.CodeUnsupported || !strings.Contains(err.Error(), "sandbox-code") {
		t.Errorf("%v", err)
	}
}

// TestCodeIsJudged holds that code is refused as a command is, by its text and as
// the tool that it is.
func TestCodeIsJudged(t *testing.T) {
	r := newRig(t, `{"agents": {"defaults": {"sandbox": {"provider": "local", "tools": {"deny": ["exec"]}}}}}`)
	req := manager.Request{Who: someone("a"), Tool: "run_code"}
	if got := names(r.Kit); strings.Contains(got, "run_code") {
		t.Errorf("the tools are %s", got)
	}
	if _, err := r.supervisor.RunCode(context.Background(), req, running.Code{Text: "1"}, nil); sandbox.CodeOf(err) != sandbox.CodeDenyTool {
		t.Errorf("%v", err)
	}
}

// TestCodeValues holds that an answer is bounded, and names what it leaves out.
func TestCodeValues(t *testing.T) {
	var picture bytes.Buffer
	must(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 1, 1))))
	v := &codeValues{}
	v.add(&sandbox.CodeDisplay{Text: "t", HTML: strings.Repeat("h", maxCodeValue+1), JSON: json.RawMessage(`1`), SVG: "<svg/>", PNG: picture.Bytes(), JPEG: picture.Bytes(), Omitted: []string{"a/b"}, Main: true})
	v.add(&sandbox.CodeDisplay{PNG: []byte("no picture")})
	for range maxCodeValues + 3 {
		v.add(&sandbox.CodeDisplay{Text: strings.Repeat("x", maxCodeValue), PNG: picture.Bytes()})
	}
	got := v.list()
	if one := got[0]; one.Text != "t" || one.HTML != "" || string(one.JSON) != "1" || one.Picture != 1 || !one.Main || strings.Join(one.Omitted, " ") != "a/b html svg" {
		t.Errorf("%+v", one)
	}
	if two := got[1]; two.Picture != 0 || strings.Join(two.Omitted, " ") != "image/png" {
		t.Errorf("%+v", two)
	}
	if len(got) != maxCodeValues || v.left != 5 || len(v.pictures) != maxCodePictures {
		t.Errorf("%d values, %d left out, %d pictures", len(got), v.left, len(v.pictures))
	}
	if size, last := v.size, got[len(got)-1]; size > maxCodeValueAll || strings.Join(last.Omitted, " ") != "text image/png" {
		t.Errorf("%d bytes, %+v", size, last)
	}
}

// TestCodeFromPool holds that a sandbox which was claimed from the pool has a kernel
// that was started before, with the environment and the bounds of the session's
// commands, and that the command which it belongs to ends it.
func TestCodeFromPool(t *testing.T) {
	testenv.Require(t, "code")
	r := newDocker(t, `, "docker": {"image": "sandbox-code:bookworm-slim", "env": {"FROM_SETTINGS": "ä b", "PYTHONPATH": "/workspace/lib"}}, "limits": {"openFiles": 300}, "pool": {"size": 1}`)
	ctx := context.Background()
	r.refill(t)
	const early = `import os, resource, sys
with open("/proc/%d/cmdline" % os.getppid()) as f: host = f.read().split("\0")
print(host[-2], os.environ["FROM_SETTINGS"], os.getcwd(), resource.getrlimit(resource.RLIMIT_NOFILE)[0], "/workspace/lib" in sys.path)`
	began := time.Now()
	o := r.code(t, running.Code{Text: early})
	t.Logf("the first result of a sandbox of the pool after %v", time.Since(began))
	if !o.outcome.Claimed && o.stdout == "" || o.stdout != "--standby ä b /workspace 300 True\n" {
		t.Errorf("%+v %+v", o, o.failure)
	}
	// Another agent's sandbox could have been made of the slot.
	if o := r.code(t, running.Code{Text: `[p for p in (os.getpid(), os.getppid()) if "FROM_SETTINGS" in open("/proc/%d/environ" % p).read()]`}); o.value() != "[]" {
		t.Errorf("what the settings say was there before the claim: %+v %+v", o, o.failure)
	}
	python := r.code(t, running.Code{Text: "for k in sorted(os.environ): print(k, os.environ[k])"})
	bash := r.code(t, running.Code{Text: "env | sort | sed 's/=/ /'", Language: "bash"})
	vary := func(s string) string {
		var out []string
		for l := range strings.SplitSeq(s, "\n") {
			switch name, _, _ := strings.Cut(l, " "); name {
			case "_", "SHLVL", "OLDPWD", "PWD", "PS0", "PS1", "PS2", "TERM", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "PAGER", "GIT_PAGER", "MPLBACKEND", "JPY_PARENT_PID", "JPY_SESSION_NAME", "HISTFILE", "PROMPT_COMMAND", "":
			default:
				out = append(out, l)
			}
		}
		slices.Sort(out)
		return strings.Join(out, "\n")
	}
	if a, b := vary(python.stdout), vary(bash.stdout); a != b {
		t.Errorf("the kernel that was there before has another environment:\n%s\n\n%s", a, b)
	}
	// The next sandbox is none of the pool's.
	if o, err := r.codeAs("b", running.Code{Text: early}); err != nil || strings.Contains(o.stdout, "--standby") || !strings.HasSuffix(o.stdout, "ä b /workspace 300 True\n") {
		t.Errorf("%+v %v", o, err)
	}
	// The command that keeps the host is the session's: its end ends the kernels.
	list := r.supervisor.List(someone("a"))
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	_, err := r.supervisor.Kill(ctx, someone("a"), list[0].ID)
	must(t, err)
	var left strings.Builder
	_, err = r.manager.Run(ctx, manager.Request{Who: someone("a"), Command: sandbox.Command{Args: []string{"sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"}, Stdout: &left}})
	must(t, err)
	if strings.Contains(left.String(), "ipykernel") || strings.Contains(left.String(), "--standby") {
		t.Errorf("what is left is %s", left.String())
	}
	if o := r.code(t, running.Code{Text: "1"}); o.value() != "1" {
		t.Errorf("%+v", o)
	}
}

// BenchmarkFirstCode is the time from a request to the first result of code of a new
// session: whose sandbox is made for it, and whose sandbox the pool has.
func BenchmarkFirstCode(b *testing.B) {
	testenv.Require(b, "code")
	for name, more := range map[string]string{"made": "", "pool": `, "pool": {"size": 1}`} {
		b.Run(name, func(b *testing.B) {
			r := newDocker(b, `, "docker": {"image": "sandbox-code:bookworm-slim"}`+more)
			n := 0
			for b.Loop() {
				b.StopTimer()
				if more != "" {
					r.refill(b)
				}
				n++
				session := fmt.Sprintf("s%d", n)
				b.StartTimer()
				if o, err := r.codeAs(session, running.Code{Text: "6 * 7"}); err != nil || o.value() != "42" {
					b.Fatalf("%+v %v", o, err)
				}
			}
		})
	}
}

// refill returns when a slot of the pool was made.
func (r *rig) refill(t testing.TB) {
	t.Helper()
	for {
		n, next, err := r.manager.Refill(context.Background())
		must(t, err)
		if n > 0 {
			return
		}
		select {
		case <-r.manager.RefillDue():
		case <-time.After(next):
		}
	}
}
