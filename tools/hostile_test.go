package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// paths lead nowhere that a tool may go.
func paths() []string {
	return []string{
		"", "..", "../x", "/", "//", "/etc/passwd", "/etc/shadow", "/proc/self/environ", "/proc/1/root/etc/passwd", "/sys/kernel", "/dev/sda", "/.sandbox/run", "/.sandbox/bin/guest",
		"a/../../x", "/workspace/../etc/passwd", "./../../x", "x\x00y", strings.Repeat("a", 300), strings.Repeat("a/", 2500), `C:\x`, `\\server\share`, "~/.ssh/id_rsa", "$HOME/x", "%2e%2e/x", "file:///etc/passwd",
		"/proc/self/fd/0", "/workspace/../../", "\x1b]0;x\a", "\u202ex", "-rf", "a\nb", "/var/run/docker.sock", "/home/../root/.ssh",
	}
}

// inputs of each tool that are wrong, or ask for what is not to be had.
func inputs() map[string][]obj {
	out := map[string][]obj{
		"exec": {
			{}, {"command": ""}, {"command": "x\x00y"}, {"command": "a\rb"}, {"command": "echo \u200b"}, {"command": strings.Repeat("(", 100_000)}, {"command": "cat <<E"}, {"command": `echo "`}, {"command": "true", "timeout": -1},
			{"command": "true", "timeout": 1 << 40}, {"command": "true", "env": obj{"A": "b"}}, {"command": "true", "background": true, "env": obj{"": "x"}}, {"command": "true", "background": true, "env": obj{"A=B": "x"}}, {"command": "true", "background": true, "env": obj{"A\nB": "x"}},
			{"command": "true", "background": true, "env": obj{"A": "x\x00"}}, {"command": "true", "tty": true, "env": obj{"LD_PRELOAD": "/x.so"}}, {"command": "true", "tty": true, "dir": "relative"}, {"command": "true", "tty": true, "dir": "/none"},
			{"command": "true", "tty": true, "dir": "x\x00"}, {"command": "true", "tty": true, "rows": 0}, {"command": "true", "tty": true, "cols": 1001}, {"command": []string{"true"}}, {"command": "rm -rf /"}, {"command": "true", "restart": true, "background": true},
		},
		"process": {
			{}, {"action": "x"}, {"action": "poll"}, {"action": "poll", "id": ""}, {"action": "poll", "id": "../x"}, {"action": "poll", "id": "*"}, {"action": "kill", "id": "1"}, {"action": "kill", "id": "x", "signal": "9"}, {"action": "kill", "id": "-1"},
			{"action": "write", "id": "x", "data": "y"}, {"action": "write", "id": "x", "eof": true}, {"action": "list", "id": "x"}, {"action": "poll", "id": strings.Repeat("a", 128)}, {"action": "poll", "id": "\x00"}, {"action": "poll", "id": "x", "wait": 301},
			{"action": "poll", "id": nil}, {"action": "kill", "id": "x", "signal": "CHLD"}, {"action": "write", "id": "x", "data": 5}, {"action": "list", "wait": 1}, {"action": "poll", "id": obj{}}, {"action": "poll", "id": "x", "from": 0},
		},
		"apply_patch": {
			{}, {"patch": ""}, {"patch": "x"}, {"patch": "*** Begin Patch"}, {"patch": "*** Begin Patch\n*** End Patch"}, {"patch": "--- a/x\n+++ b/x\n@@ -1,99999999 +1 @@\n"}, {"patch": "rename from a\nrename to b"}, {"patch": strings.Repeat("*** Add File: a\n+x\n", 600)},
			{"patch": "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n"},
		},
		"grep":    {{}, {"pattern": ""}, {"pattern": "("}, {"pattern": `\1`}, {"pattern": "a{1001}"}, {"pattern": "x", "mode": "x"}, {"pattern": "x", "glob": "["}, {"pattern": "x", "glob": "{{{{{{{{{{"}, {"pattern": "x", "glob": strings.Repeat("{"+strings.Repeat("*,", 50)+"*}", 4) + "c"}, {"pattern": "x", "glob": "../*"}, {"pattern": "x", "context": 21}, {"pattern": "x", "limit": 0}, {"pattern": "x\x00"}, {"pattern": "(?P<a>x)(?P<a>y)"}},
		"glob":    {{}, {"pattern": ""}, {"pattern": "["}, {"pattern": "../*"}, {"pattern": "/etc/*"}, {"pattern": "/*"}, {"pattern": "**/../*"}, {"pattern": strings.Repeat("{a,b}", 9)}, {"pattern": "x\x00*"}, {"pattern": "*", "limit": -1}, {"pattern": strings.Repeat("**/", 300) + "x"}, {"pattern": strings.Repeat("**/*/", 100) + "x"}, {"pattern": strings.Repeat("{"+strings.Repeat("*,", 50)+"*}", 4) + "c"}, {"pattern": "/proc/**"}},
		"browser": {{}, {"action": "navigate"}, {"action": "close"}, {"action": "evaluate", "text": "1"}, {"action": "extract", "parts": []string{"html"}}},
	}
	for _, p := range paths() {
		out["read"] = append(out["read"], obj{"path": p})
		out["image"] = append(out["image"], obj{"path": p})
		out["ls"] = append(out["ls"], obj{"path": p})
		out["write"] = append(out["write"], obj{"path": p, "content": "x"})
		out["edit"] = append(out["edit"], obj{"path": p, "old": "a", "new": "b"})
		out["glob"] = append(out["glob"], obj{"pattern": "*", "path": p})
		out["grep"] = append(out["grep"], obj{"pattern": "root", "path": p})
		out["apply_patch"] = append(out["apply_patch"], obj{"patch": "*** Begin Patch\n*** Delete File: " + p + "\n*** End Patch\n"}, obj{"patch": "*** Begin Patch\n*** Update File: " + p + "\n@@\n-a\n+b\n*** End Patch\n"})
	}
	return out
}

// harmless are paths that are mere names: what is made there stays inside.
func harmless(v obj) bool {
	p, _ := v["path"].(string)
	switch p {
	case "~/.ssh/id_rsa", "$HOME/x", "%2e%2e/x", "file:///etc/passwd", "\x1b]0;x\a", "\u202ex", "-rf", "a\nb":
		return true
	}
	return false
}

// TestHostileInputs holds that each is refused with a code that says why, and
// that nothing from outside of the sandbox is in any answer.
func TestHostileInputs(t *testing.T) {
	hostile(t, newRig(t, plain))
}

func hostile(t *testing.T, r *rig) {
	t.Helper()
	for tool, list := range inputs() {
		if len(list) < 20 && tool != "browser" {
			t.Errorf("only %d inputs of %s", len(list), tool)
		}
		for _, v := range list {
			began := time.Now()
			a, err := r.Call(deadline(t), tool, in(t, v), nil)
			checked(t, fmt.Sprintf("%s %.200q", tool, fmt.Sprint(v)), tool, a.Text, a.Data, err)
			if strings.Contains(a.Text, "root:") || strings.Contains(a.Text, "PATH=") {
				t.Errorf("%s %v shows what is outside: %.300q", tool, v, a.Text)
			}
			if d, ok := a.Data.(schema.LsResult); ok && len(d.Entries) > 0 && !harmless(v) {
				for _, e := range d.Entries {
					if e.Name == "etc" || e.Name == "proc" {
						t.Errorf("%s %v lists what is outside: %s", tool, v, a.Text)
					}
				}
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("%s %.200s took %s", tool, fmt.Sprint(v), took)
			}
		}
	}
}

// checked checks what holds for every call: it returns an error that has a
// code and is safe to show, or an answer that its schema allows.
func checked(t testing.TB, what, tool, text string, answer any, err error) {
	t.Helper()
	if err == nil {
		fits(t, what, tool, answer)
		return
	}
	var e *sandbox.Error
	if !errors.As(err, &e) || err != error(e) {
		t.Errorf("%s: %T %v", what, err, err)
		return
	}
	if e.Code == sandbox.CodeInternal || e.Code == "" || e.Message == "" || strings.ContainsAny(e.Message, "\x1b\x00") || len(e.Message) > 4<<10 {
		t.Errorf("%s: %q", what, err)
	}
	if text != "" || answer != nil {
		t.Errorf("%s: an answer beside the error", what)
	}
}

// fits holds an answer against the schema of the tool.
func fits(t testing.TB, what, tool string, answer any) {
	t.Helper()
	s, ok := schema.Find(tool)
	if !ok {
		t.Fatal(tool)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.OutputSchema()))
	must(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must(t, c.AddResource("urn:x", doc))
	compiled, err := c.Compile("urn:x")
	must(t, err)
	b, err := json.Marshal(answer)
	must(t, err)
	got, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	must(t, err)
	if err := compiled.Validate(got); err != nil {
		t.Errorf("%s: %s: %v", what, b, err)
	}
}

// FuzzCall holds that no input whatever ends otherwise than with an answer or a
// code.
func FuzzCall(f *testing.F) {
	for i, t := range schema.All() {
		for _, e := range t.Examples {
			f.Add(uint8(i), []byte(e))
		}
	}
	for i, t := range schema.All() {
		for _, v := range inputs()[t.Name] {
			b, err := json.Marshal(v)
			must(f, err)
			f.Add(uint8(i), b)
		}
	}
	r := newRig(f, sandboxed("local", `, "limits": {"timeout": "1s"}`))
	all := schema.All()
	f.Fuzz(func(t *testing.T, i uint8, data []byte) {
		tool := all[int(i)%len(all)].Name
		a, err := r.Call(deadline(t), tool, data, nil)
		checked(t, fmt.Sprintf("%s %q", tool, data), tool, a.Text, a.Data, err)
	})
}
