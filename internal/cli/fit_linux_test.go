package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// on80 carries a call out on a terminal of 80 columns and returns what it
// shows there.
func on80(t *testing.T, f *fake, args ...string) string {
	t.Helper()
	host, caller := openPTY(t)
	if err := pty.Setsize(host, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(host) // ends with an error when the other end is closed
		shown <- string(b)
	}()
	p := Program{Args: append([]string{"sandbox"}, args...), Stdin: os.Stdin, Stdout: caller, Stderr: caller, Backend: f, Exit: func(int) {}}
	p.Run(context.Background())
	caller.Close()
	return strings.ReplaceAll(<-shown, "\r\n", "\n")
}

// TestFitsTheTerminal holds that what people look at has no line that a
// terminal of 80 columns would break.
func TestFitsTheTerminal(t *testing.T) {
	calls := []string{
		"list", "ps", "list --foreign", "stats", "violations list", "violations list --all", "evidence list", "evidence list --type operation", "evidence verify",
		"token list", "images list", "explain", "explain --all", "doctor", "doctor --attack", "--help",
	}
	for _, c := range (&app{globals: newGlobals(), Program: Program{Args: []string{"sandbox", completionName}}}).cli().Commands {
		calls = append(calls, c.Name+" --help")
		for _, sub := range c.Subcommands {
			calls = append(calls, c.Name+" "+sub.Name+" --help")
		}
	}
	for _, args := range calls {
		t.Run(args, func(t *testing.T) {
			f := filled()
			f.listing.Containers[0].Image = "registry.example.com:5000/team/sandbox-of-a-long-name:bookworm-slim@sha256:0123456789abcdef0123"
			f.diagnosis.Checks[0].Detail = strings.Repeat("a long detail ", 20)
			text := on80(t, f, strings.Fields(args)...)
			if text == "" {
				t.Error("it shows nothing")
			}
			for line := range strings.Lines(text) {
				if n := termsafe.Width(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

// TestNarrowListKeepsWhatMatters holds which columns of a list stay, and how
// images are named.
func TestNarrowListKeepsWhatMatters(t *testing.T) {
	f := filled()
	f.listing.Containers = f.listing.Containers[:1]
	f.listing.Containers[0].Image = "registry.example.com/team/sandbox:bookworm-slim"
	text := on80(t, f, "list")
	for _, want := range []string{"sbx-default-0123456789abcdef", "running", "default", "changed", "59s"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
	for _, no := range []string{"TENANT", "registry.example.com"} {
		if strings.Contains(text, no) {
			t.Errorf("it has %q", no)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	for ref, want := range map[string]string{
		"sandbox:bookworm-slim": "sandbox:bookworm-slim", "a.example:5000/b/c:1": "c:1", "c": "c", "": "",
		"a.example/c@sha256:0123456789abcdef": "c@0123456789ab",
	} {
		if got := shortImage(ref); got != want {
			t.Errorf("%s is shown as %q, want %q", ref, got, want)
		}
	}
}

// TestListNamesProvidersThatDiffer checks that the list distinguishes the two
// sandboxes of a session under two providers, which have the same name.
func TestListNamesProvidersThatDiffer(t *testing.T) {
	f := filled()
	row := f.listing.Containers[0]
	row.Provider = "docker"
	f.listing.Browsers, f.listing.Containers = nil, []manager.Row{row, row}
	if text := on80(t, f, "list"); strings.Contains(text, "PROVIDER") {
		t.Errorf("one provider is named:\n%s", text)
	}
	f.listing.Containers[1].Provider = "local"
	if text := on80(t, f, "list"); !regexp.MustCompile(`(?s)PROVIDER.* docker .*\n.* local `).MatchString(text) {
		t.Errorf("providers are not named:\n%s", text)
	}
}

// TestExplainFitsAScreen holds that a session with the defaults takes no more
// than the 24 lines of a terminal, and that the verdict comes last.
func TestExplainFitsAScreen(t *testing.T) {
	f := filled()
	e := &f.explained
	e.Session, e.Problems, e.Notes, e.Drift, e.Layers, e.Wall, e.Verdicts = "default", nil, nil, nil, nil, nil, nil
	e.Network, e.Browser, e.Media = manager.NetworkPlan{Mode: "none", Only: true}, manager.BrowserPlan{}, manager.MediaPlan{}
	e.Settings = e.Settings[:1]
	text := on80(t, f, "explain")
	if n := strings.Count(text, "\n"); n > 24 {
		t.Errorf("it has %d lines", n)
	}
	last := text[strings.LastIndex(text, "\n\n")+1:]
	if !strings.Contains(last, "Verdict") || !strings.Contains(last, "next use") {
		t.Errorf("it ends with\n%s", last)
	}
	if strings.Contains(text, "docker.memory") {
		t.Errorf("it shows a default:\n%s", text)
	}
	e.Verdicts = []manager.Verdict{{Kind: "path", Operation: "read", Subject: "/x", Verdict: "deny", Reason: "why"}}
	if text := on80(t, f, "explain", "--path", "/x"); !strings.HasSuffix(text, "  path read  /x  deny  why\n") {
		t.Errorf("the answer is not last:\n%s", text)
	}
}

// TestSuggestions holds what is proposed for a command or a flag that does not
// exist.
func TestSuggestions(t *testing.T) {
	for args, want := range map[string]string{
		"lst":                         "did you mean: sandbox list\n",
		"exlpain":                     "did you mean: sandbox explain\n",
		"images bild":                 "did you mean: sandbox images build\n",
		"browser screen":              "did you mean: sandbox browser screenshot\n",
		"run --imgae x -- true":       "did you mean: --image\n",
		"--sesion x list":             "did you mean: --session\n",
		"fs raed x":                   "did you mean: sandbox fs read\n",
		"rm":                          "sandbox recreate --session KEY",
		"create":                      "sandbox run",
		"logs":                        "sandbox evidence list",
		"zzzzzz":                      "see sandbox --help\n",
		"list --zzzzzz":               "see sandbox list --help\n",
		"images rm":                   "see sandbox images --help\n",
		"violations lsit --type file": "did you mean: sandbox violations list\n",
	} {
		r := call(t, &fake{}, strings.Fields(args)...)
		if r.status != 2 || !strings.Contains(r.stderr, "sandbox: hint: "+strings.TrimPrefix(want, "sandbox: hint: ")) && !strings.Contains(r.stderr, want) {
			t.Errorf("%s: status %d, it says %q, want %q", args, r.status, r.stderr, want)
		}
	}
}

// TestErrorsAsJSON holds that errors are one JSON problem with -o json,
// wherever the flag stands, and that a command's own arguments are no flags.
func TestErrorsAsJSON(t *testing.T) {
	for args, code := range map[string]string{
		"-o json lst":                        "SCHEMA.VALIDATION_FAILED",
		"list --format=json --nope":          "SCHEMA.VALIDATION_FAILED",
		"list --nope -o json":                "SCHEMA.VALIDATION_FAILED",
		"-o json run -- true":                "PROVIDER.UNAVAILABLE",
		"recreate --all --force -o json":     "PROVIDER.UNAVAILABLE",
		"browser list -o json":               "PROVIDER.UNAVAILABLE",
		"violations list -o json":            "PROVIDER.UNAVAILABLE",
		"fs read --format json x":            "PROVIDER.UNAVAILABLE",
		"run -- true -o json":                "",
		"browser screenshot x.html -o x.png": "",
	} {
		f := &fake{err: unavailable()}
		r := call(t, f, strings.Fields(args)...)
		var p problem
		err := json.Unmarshal([]byte(r.stderr), &p)
		switch {
		case code == "" && err == nil:
			t.Errorf("%s: it says %s, want plain text", args, r.stderr)
		case code != "" && (err != nil || string(p.Code) != code || p.Detail == "" || p.Type != problemType+code || p.Status == 0):
			t.Errorf("%s: it says %q (%v), want a problem with %s", args, r.stderr, err, code)
		case r.stdout != "":
			t.Errorf("%s: standard output has %q", args, r.stdout)
		}
	}
}

// TestCompletesSessions holds which names are offered, and that nothing which a
// shell acts on is.
func TestCompletesSessions(t *testing.T) {
	f := filled()
	f.listing.Containers = []manager.Row{
		{Session: "chat-42", Agent: "main"}, {Session: "chat-7", Agent: "main"}, {Session: "chat-42", Agent: "researcher"},
		{Session: "$(touch x)", Agent: "a b"}, {Session: "x;y"}, {Session: "a\nb"}, {},
	}
	if r := call(t, f, "completion", "sessions"); r.status != 0 || r.stdout != "chat-42\nchat-7\n" {
		t.Errorf("sessions: %+v", r)
	}
	f.listErr = unavailable()
	if r := call(t, f, "completion", "agents"); r.status != 0 || r.stdout != "main\nresearcher\n" {
		t.Errorf("agents without an engine: %+v", r)
	}
}
