package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// This file does what runners of continuous integration do with action.yml and with
// the examples in deploy/ci.

// An actionFile is what is heeded of an action.yml.
type actionFile struct {
	Inputs map[string]struct {
		Description string `json:"description"`
		Required    bool   `json:"required"`
		Default     string `json:"default"`
	} `json:"inputs"`
	Outputs map[string]struct {
		Value string `json:"value"`
	} `json:"outputs"`
	Runs struct {
		Using string       `json:"using"`
		Steps []actionStep `json:"steps"`
	} `json:"runs"`
}

type actionStep struct {
	ID    string            `json:"id"`
	If    string            `json:"if"`
	Shell string            `json:"shell"`
	Run   string            `json:"run"`
	Uses  string            `json:"uses"`
	Env   map[string]string `json:"env"`
	With  map[string]string `json:"with"`
}

// A runner runs steps of a job as a runner of GitHub does.
type runner struct {
	t         *testing.T
	workspace string
	temp      string
	env       []string // of the job
}

// A stepResult is how a use of an action ended.
type stepResult struct {
	log     string
	status  int
	outputs map[string]string
	summary string
	used    []actionStep // steps with uses, with their inputs
}

func newRunner(t *testing.T, provider string) *runner {
	t.Helper()
	base, err := os.MkdirTemp("", "sandbox-runner-")
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t, workspace: filepath.Join(base, "work"), temp: filepath.Join(base, "temp")}
	t.Cleanup(func() {
		r.sandbox("recreate", "--all", "--force")
		r.sandbox("prune", "--workspaces", "--idle", "0s")
		if left, _ := os.ReadDir(filepath.Join(base, "state/mapped")); len(left) > 0 {
			t.Errorf("mounts of workspaces are left: %v", left)
		}
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(r.workspace, 0o755), os.Mkdir(r.temp, 0o755)); err != nil {
		t.Fatal(err)
	}
	r.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + base, "SANDBOX_STATE_DIR=" + filepath.Join(base, "state"), "SANDBOX_GUEST=" + testenv.Guest(t),
		"GITHUB_ACTIONS=true", "GITHUB_WORKSPACE=" + r.workspace, "GITHUB_RUN_ID=42", "RUNNER_TEMP=" + r.temp, "SANDBOX_PROVIDER=" + provider,
	}
	return r
}

// sandbox runs the program for the job's state.
func (r *runner) sandbox(args ...string) string {
	cmd := exec.Command("sandbox", args...)
	cmd.Env, cmd.Dir = r.env, r.workspace
	out, _ := cmd.CombinedOutput()
	return string(out)
}

var expression = regexp.MustCompile(`\$\{\{\s*([A-Za-z0-9_.-]+)\s*\}\}`)

// use runs the action with inputs. Like the runner it refuses an input that the
// action does not have.
func (r *runner) use(with map[string]string, env ...string) stepResult {
	r.t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		r.t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err != nil {
		r.t.Fatal(err)
	}
	var a actionFile
	if err := yaml.Unmarshal(data, &a); err != nil {
		r.t.Fatal(err)
	}
	if a.Runs.Using != "composite" {
		r.t.Fatalf("the action runs by %q", a.Runs.Using)
	}
	known := map[string]string{"github.action_path": root, "github.workspace": r.workspace}
	for name, in := range a.Inputs {
		v, given := with[name]
		if !given && in.Required {
			r.t.Fatalf("the input %s is required", name)
		}
		if !given {
			v = r.expand(in.Default, known)
		}
		known["inputs."+name] = v
	}
	for name := range with {
		if _, ok := a.Inputs[name]; !ok {
			r.t.Fatalf("the action has no input %s", name)
		}
	}
	res := stepResult{outputs: map[string]string{}}
	summary := r.file("summary")
	for _, s := range a.Runs.Steps {
		switch {
		case s.If == "" && res.status != 0:
			continue
		case s.If != "" && !r.holds(s.If, known):
			continue
		case s.Uses != "":
			s.With = maps.Clone(s.With)
			for k, v := range s.With {
				s.With[k] = r.expand(v, known)
			}
			res.used = append(res.used, s)
			continue
		}
		if s.Shell != "bash" {
			r.t.Fatalf("a step of a composite action needs a shell that is known, not %q", s.Shell)
		}
		output := r.file("output")
		script := r.file("script.sh")
		if err := os.WriteFile(script, []byte(r.expand(s.Run, known)), 0o755); err != nil {
			r.t.Fatal(err)
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", script)
		cmd.Dir, cmd.Env = r.workspace, append(slices.Clone(r.env), env...)
		cmd.Env = append(cmd.Env, "GITHUB_OUTPUT="+output, "GITHUB_STEP_SUMMARY="+summary, "GITHUB_ENV="+r.file("env"), "GITHUB_PATH="+r.file("path"))
		for k, v := range s.Env {
			cmd.Env = append(cmd.Env, k+"="+r.expand(v, known))
		}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			r.t.Fatal(err)
		}
		res.log += string(out)
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			res.status = code
		}
		text, err := os.ReadFile(output)
		if err != nil {
			r.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !ok {
				r.t.Errorf("the line %q of GITHUB_OUTPUT is no output", line)
			}
			known["steps."+s.ID+".outputs."+k] = v
		}
	}
	for name, o := range a.Outputs {
		res.outputs[name] = r.expand(o.Value, known)
	}
	text, err := os.ReadFile(summary)
	if err != nil {
		r.t.Fatal(err)
	}
	res.summary = string(text)
	return res
}

// file makes an empty file of the runner.
func (r *runner) file(name string) string {
	f, err := os.CreateTemp(r.temp, name+"-")
	if err != nil {
		r.t.Fatal(err)
	}
	f.Close()
	return f.Name()
}

// expand replaces expressions, which are names alone. An output that was not set is
// empty, and another unknown name is a fault of the action.
func (r *runner) expand(text string, known map[string]string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		name := expression.FindStringSubmatch(e)[1]
		v, ok := known[name]
		if !ok && !strings.Contains(name, ".outputs.") {
			r.t.Errorf("the action uses %s, which there is not", name)
		}
		return v
	})
}

// holds evaluates the one form of a condition that the action uses.
func (r *runner) holds(text string, known map[string]string) bool {
	name, ok := strings.CutPrefix(text, "always() && ")
	name, rest, two := strings.Cut(name, " != ")
	if !ok || !two || rest != "''" {
		r.t.Fatalf("the condition %q is not understood", text)
	}
	return known[name] != ""
}

// reported is what a test looks for in a report.
type reported struct {
	Status, Code int
	TimedOut     bool
	User         string
	Network      string
	Reached      []struct {
		Host        string
		Port        int
		Connections int
	}
	Blocked []struct{ Resource, Rule string }
	Changed []struct{ Path, How string }
	Notes   []string
	Error   *struct{ Code, Message string }
}

func (r *runner) report(path string) (out reported) {
	r.t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (x reported) how(path string) string {
	for _, c := range x.Changed {
		if c.Path == path {
			return c.How
		}
	}
	return ""
}

func TestActionLocal(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	testAction(t, "local")
}

func TestActionDocker(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	testAction(t, "docker")
}

// testAction uses the action in a workspace that belongs to the user of the tests,
// which is root in most runs.
func testAction(t *testing.T, provider string) {
	r := newRunner(t, provider)
	write := func(name, content string) {
		path := filepath.Join(r.workspace, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("kept.txt", "as it was\n")
	write("changed.txt", "before\n")
	write("removed.txt", "before\n")
	t.Run("files", func(t *testing.T) {
		res := r.use(map[string]string{
			"provider": provider, "env": "GREETING=hello world\nTAKEN", "artifacts": "out/*.txt\nleak",
			"run": "echo \"$GREETING $TAKEN\"\ncat kept.txt\necho after >changed.txt\nrm removed.txt\nmkdir out; echo made >out/one.txt\nln -s /etc/passwd out/two.txt\nln -s /etc/passwd leak\n" +
				"echo 'a|b' >'a|b`<img src=x>'\nenv | grep -c '^GITHUB_' || true\necho '::set-env name=PATH::/evil'\nexit 7",
		}, "TAKEN=from-step", "NOT_TAKEN=secret")
		if res.status != 7 || res.outputs["exit-code"] != "7" {
			t.Fatalf("status %d, outputs %v\n%s", res.status, res.outputs, res.log)
		}
		for _, want := range []string{"hello world from-step\n", "as it was\n", "\n0\n"} {
			if !strings.Contains(res.log, want) {
				t.Errorf("the log lacks %q:\n%s", want, res.log)
			}
		}
		if begin, end := strings.Index(res.log, "::stop-commands::"), strings.Index(res.log, "::set-env"); begin < 0 || end < begin {
			t.Errorf("the runner would read commands of the sandboxed program:\n%s", res.log)
		}
		rep := r.report(res.outputs["report"])
		for path, how := range map[string]string{"kept.txt": "", "changed.txt": "changed", "removed.txt": "removed", "out/one.txt": "added"} {
			if got := rep.how(path); got != how {
				t.Errorf("%s is %q in the report, want %q", path, got, how)
			}
		}
		if rep.Code != 7 || rep.Network != "none" || strings.HasPrefix(rep.User, "0:") {
			t.Errorf("%+v", rep)
		}
		if strings.Contains(res.summary, "<img") || strings.Contains(res.summary, "a|b") || !strings.Contains(res.summary, "exit status 7") || !strings.Contains(res.summary, "changed&#46;txt") {
			t.Errorf("the summary:\n%s", res.summary)
		}
		// The runner's user owns what the sandbox made.
		fi, err := os.Stat(filepath.Join(r.workspace, "out/one.txt"))
		if err != nil || ownerOfFile(fi) != os.Getuid() {
			t.Errorf("the new file belongs to %v, %v", ownerOfFile(fi), err)
		}
		if len(res.used) != 1 || !strings.HasPrefix(res.used[0].Uses, "actions/upload-artifact@") || res.used[0].With["path"] != res.outputs["artifacts"] {
			t.Fatalf("artifacts: %+v", res.used)
		}
		if b, err := os.ReadFile(filepath.Join(res.outputs["artifacts"], "out/one.txt")); string(b) != "made\n" {
			t.Errorf("artifact: %q, %v", b, err)
		}
		for _, leak := range []string{"leak", "out/two.txt"} {
			if b, err := os.ReadFile(filepath.Join(res.outputs["artifacts"], leak)); err == nil {
				t.Errorf("a link to a file of the runner became the artifact %s: %.40q", leak, b)
			}
		}
	})
	t.Run("network", func(t *testing.T) {
		res := r.use(map[string]string{"provider": provider, "shell": "sh", "allow-domains": "allowed.invalid\n", "run": "curl -sS -m 20 http://allowed.invalid/ || true; curl -sS -m 20 http://other.invalid/ || true"})
		if res.status != 0 {
			t.Fatalf("status %d\n%s", res.status, res.log)
		}
		rep := r.report(res.outputs["report"])
		if !slices.ContainsFunc(rep.Blocked, func(b struct{ Resource, Rule string }) bool { return strings.HasPrefix(b.Resource, "other.invalid") }) {
			t.Errorf("blocked: %+v\n%s", rep.Blocked, res.log)
		}
		if !strings.Contains(res.summary, "other&#46;invalid") {
			t.Errorf("the summary:\n%s", res.summary)
		}
	})
	t.Run("private", func(t *testing.T) {
		res := r.use(map[string]string{"provider": provider, "workspace-access": "private", "run": "echo no >kept.txt; echo x >new.txt"})
		b, err := os.ReadFile(filepath.Join(r.workspace, "kept.txt"))
		if res.status != 0 || string(b) != "as it was\n" {
			t.Errorf("status %d, %q, %v\n%s", res.status, b, err, res.log)
		}
		if rep := r.report(res.outputs["report"]); rep.how("kept.txt") != "changed" || rep.how("new.txt") != "added" {
			t.Errorf("%+v", rep.Changed)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, tt := range []struct {
			name, text string
			with       map[string]string
			status     int
		}{
			{"no lines", "the input run is empty", map[string]string{"run": ""}, 125},
			{"shell", "bash or sh", map[string]string{"run": "true", "shell": "zsh"}, 125},
			{"access", "rw or private", map[string]string{"run": "true", "workspace-access": "all"}, 125},
			{"service", "must begin with NAME=IMAGE", map[string]string{"run": "true", "services": "db"}, 2},
			{"a folder that is not there", "there is no such folder", map[string]string{"run": "true", "workspace": r.temp + "/none"}, 2},
		} {
			tt.with["provider"] = provider
			if res := r.use(tt.with); res.status != tt.status || !strings.Contains(res.log, tt.text) {
				t.Errorf("%s: status %d\n%s", tt.name, res.status, res.log)
			}
		}
	})
	if list := r.sandbox("--provider", provider, "list"); strings.Contains(list, "sbx-") {
		t.Errorf("sandboxes are left:\n%s", list)
	}
}

// TestExamplesOfCI runs the command lines of the examples for GitHub, GitLab and
// Buildkite.
func TestExamplesOfCI(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	read := func(name string, into any) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("../../deploy/ci", name))
		if err == nil {
			err = yaml.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	project := func(t *testing.T) *runner {
		r := newRunner(t, "local")
		if err := os.WriteFile(filepath.Join(r.workspace, "test_sum.py"), []byte("import unittest\n\nclass Sum(unittest.TestCase):\n    def test(self):\n        self.assertEqual(1 + 1, 2)\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return r
	}
	// lines runs command lines as those systems do, by sh with the variables of a job.
	lines := func(t *testing.T, r *runner, dir string, list []string) string {
		t.Helper()
		cmd := exec.Command("sh", "-e", "-c", strings.Join(list, "\n"))
		cmd.Dir, cmd.Env = r.workspace, append(slices.Clone(r.env), dir+"="+r.workspace)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	t.Run("github", func(t *testing.T) {
		var w struct {
			Jobs map[string]struct {
				Steps []actionStep `json:"steps"`
			} `json:"jobs"`
		}
		read("github.yml", &w)
		r, uses := project(t), 0
		for _, job := range w.Jobs {
			for _, s := range job.Steps {
				if !strings.Contains(s.Uses, "/sandbox@") {
					continue
				}
				uses++
				s.With["provider"] = "local"
				delete(s.With, "cache") // which need a registry
				delete(s.With, "allow")
				if s.With["services"] != "" {
					s.With["provider"] = "docker"
					continue // its services are tested where an engine has such an image
				}
				if res := r.use(s.With); res.status != 0 {
					t.Errorf("status %d\n%s", res.status, res.log)
				}
			}
		}
		if uses < 2 {
			t.Errorf("the workflow has %d steps with the action", uses)
		}
	})
	t.Run("gitlab", func(t *testing.T) {
		var w map[string]struct {
			Script    []string `json:"script"`
			Artifacts struct {
				Paths []string `json:"paths"`
			} `json:"artifacts"`
		}
		read("gitlab-ci.yml", &w)
		r := project(t)
		lines(t, r, "CI_PROJECT_DIR", w["test"].Script)
		for _, p := range w["test"].Artifacts.Paths {
			if _, err := os.Stat(filepath.Join(r.workspace, p)); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("buildkite", func(t *testing.T) {
		var w struct {
			Steps []struct {
				Command   string `json:"command"`
				Artifacts string `json:"artifact_paths"`
			} `json:"steps"`
		}
		read("buildkite.yml", &w)
		r := project(t)
		for _, s := range w.Steps {
			// Buildkite replaces $NAME itself, and $$ by $.
			lines(t, r, "BUILDKITE_BUILD_CHECKOUT_PATH", []string{strings.ReplaceAll(s.Command, "$$", "$")})
			if _, err := os.Stat(filepath.Join(r.workspace, s.Artifacts)); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestServiceLocal reaches a program beside the command, of the host's programs.
func TestServiceLocal(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	r := newRunner(t, "local")
	server := `web=,port=8081:8080,command=mkdir -p site; echo "from $TEXT" >site/index.html; exec python3 -m http.server --bind 127.0.0.1 -d site 8080,env=TEXT=the service`
	out := r.sandbox("--provider", "local", "run", "--service", server, "--", "sh", "-c",
		"curl -sS http://web:8081/; curl -sS http://127.0.0.1:8081/; curl -sS -m 5 http://127.0.0.1:8080/ || echo closed; ls; ps ax | grep -c '[h]ttp.server' || true")
	if want := "from the service\nfrom the service\n"; !strings.HasPrefix(out, want) || !strings.Contains(out, "closed\n") || strings.Contains(out, "site") {
		t.Errorf("%s", out)
	}
	if list := r.sandbox("--provider", "local", "list", "-o", "json"); strings.Contains(list, "service web") {
		t.Errorf("the service is left:\n%s", list)
	}
	for name, args := range map[string][]string{
		"has ended with status 3": {"--service", "web=,port=1,command=echo why >&2; exit 3"},
		"is not ready after 2s":   {"--service", "web=,port=8080,within=2s,command=sleep 100"},
		"both reached at port":    {"--service", server, "--service", strings.Replace(server, "web=", "two=", 1)},
		"two services have":       {"--service", server, "--service", server},
		"has no command":          {"--service", "web=,port=8080"},
		"has no images":           {"--service", "web=some/image,port=8080,command=true"},
		"no host name":            {"--service", "We_b=,port=8080,command=true"},
	} {
		out := r.sandbox(append(append([]string{"--provider", "local", "run"}, args...), "--", "echo", "the command ran")...)
		if !strings.Contains(out, name) || strings.Contains(out, "the command ran\n") {
			t.Errorf("%v: want %q\n%s", args, name, out)
		}
	}
}

// TestServiceDocker uses a database in an image of its own, beside a command.
func TestServiceDocker(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	r := newRunner(t, "docker")
	image := redisImage(t)
	out := r.sandbox("--provider", "docker", "run", "--service", "db="+image+",port=6379,ready=redis-cli ping | grep PONG", "--image", image, "--", "sh", "-c",
		"redis-cli -h db set key value; redis-cli -h 127.0.0.1 get key; ls /sys/class/net; cat /proc/net/route | wc -l; redis-cli -h db config get dir; redis-cli -h db config set dir /etc")
	for _, want := range []string{"OK\n", "value\n", "lo\n1\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if left := r.sandbox("--provider", "docker", "list"); strings.Contains(left, "service") {
		t.Errorf("the service is left:\n%s", left)
	}
}

// redisImage makes an image with a database that the engine may have already.
func redisImage(t *testing.T) string {
	t.Helper()
	const image = "sandbox-test-redis:bookworm"
	if exec.Command("docker", "image", "inspect", image).Run() == nil {
		return image
	}
	cmd := exec.Command("docker", "build", "-q", "--label", "dev.bulkhead.sandbox.test=1", "-t", image, "-")
	cmd.Stdin = strings.NewReader(`FROM sandbox:bookworm-slim
USER root
RUN apt-get update && apt-get install -y --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/*
VOLUME /var/lib/redis
EXPOSE 6379
WORKDIR /var/lib/redis
CMD ["redis-server", "--save", "", "--bind", "127.0.0.1", "--dir", "/var/lib/redis"]
`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("%w: %s", err, out))
	}
	return image
}

// ownerOfFile returns the user of a file, or -1.
func ownerOfFile(fi os.FileInfo) int {
	if fi == nil {
		return -1
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}
