package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

func settings(body string) string {
	return `{"agents":{"defaults":{"sandbox":{` + body + `}}}}`
}

func TestFirstRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	out, o := mustRun(t, m, "first", "echo hello > f; cat f; test $(id -u) -gt 1000 && pwd")
	if out != "hello\n/workspace" || !o.Created {
		t.Errorf("got %q, %+v", out, o)
	}
	out, o = mustRun(t, m, "first", "cat f")
	if out != "hello" || o.Created {
		t.Errorf("the second run got %q, %+v", out, o)
	}
	out, _ = mustRun(t, m, "second", "ls")
	if out != "" {
		t.Errorf("another session sees %q", out)
	}
}

// TestDrift changes settings of a hot and of a cold sandbox.
func TestDrift(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mustRun(t, r.manager(""), "s", "touch /tmp/mark")
	r.clock.advance(time.Minute)
	for name, tt := range map[string]struct {
		setting  string
		field    string
		tightens bool
	}{
		"memory down": {`"docker":{"memory":"1g"}`, "docker.memory", true},
		"memory up":   {`"docker":{"memory":"3g"}`, "docker.memory", false},
		"pids down":   {`"docker":{"pidsLimit":100}`, "docker.pidsLimit", true},
		"new env":     {`"docker":{"env":{"NEW":"1"}}`, "docker.env", false},
		"workdir":     {`"docker":{"workdir":"/tmp"}`, "docker.workdir", false},
		"shm":         {`"docker":{"shmSize":"32m"}`, "docker.shmSize", true},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(r.log.String())
			if out, _ := mustRun(t, r.manager(settings(tt.setting)), "s", "ls /tmp/mark"); out != "/tmp/mark" {
				t.Errorf("the hot sandbox was replaced: %q", out)
			}
			log := r.log.String()[before:]
			for _, want := range []string{"sandbox recreate --session s", tt.field} {
				if !strings.Contains(log, want) {
					t.Errorf("the hint lacks %q: %s", want, log)
				}
			}
			if got := strings.Contains(log, "tightens isolation"); got != tt.tightens {
				t.Errorf("named as tightening: %v, want %v: %s", got, tt.tightens, log)
			}
			_, _, err := run(r.manager(settings(tt.setting+`,"driftPolicy":"refuse"`)), "s", "true")
			if sandbox.CodeOf(err) != sandbox.CodeBusy || !strings.Contains(err.Error(), "sandbox recreate --session s") {
				t.Errorf("refuse says %v", err)
			}
		})
	}
	for _, setting := range []string{`"docker":{"memory":"3g"}`, `"docker":{"memory":"1g","env":{"NEW":"1"}}`} { // less isolation, and more
		r.clock.advance(6 * time.Minute)
		out, o, err := run(r.manager(settings(setting)), "s", "ls /tmp/mark; touch /tmp/mark")
		if err != nil || !o.Created || strings.TrimSpace(out) == "/tmp/mark" {
			t.Errorf("%s: the cold sandbox was not replaced: %q, %+v, %v", setting, out, o, err)
		}
	}
}

func TestDriftFromFlag(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	mustRun(t, m, "s", "true")
	other := t.TempDir()
	must(t, os.Chown(other, 1234, 1234))
	_, _, err := run(m, "s", "true", func(q *manager.Request) { q.Flags = config.Overrides{Workspace: other}.Layer() })
	if sandbox.CodeOf(err) != sandbox.CodeBusy || !strings.Contains(err.Error(), "flag of this call") {
		t.Errorf("a flag that differs says %v", err)
	}
}

// TestAFileIsNoFolder names a file as the workspace: to make a folder of that
// name, as where there is nothing, cannot help.
func TestAFileIsNoFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for dir, hint := range map[string]string{file: "name a folder", file + "/below": "name a folder", file + "2": "make it first: mkdir " + file + "2"} {
		_, _, err := run(m, "s", "true", func(q *manager.Request) { q.Flags = config.Overrides{Workspace: dir}.Layer() })
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != "--workspace" || e.Hint != hint {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestEnvOrderIsNoDrift(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mustRun(t, r.manager(settings(`"docker":{"env":{"A":"1","B":"2"}}`)), "s", "true")
	if out, _ := mustRun(t, r.manager(settings(`"docker":{"env":{"B":"2","A":"1"}}`)), "s", "echo $A$B"); out != "12" {
		t.Errorf("got %q", out)
	}
	if log := r.log.String(); strings.Contains(log, "recreate") {
		t.Errorf("key order counted: %s", log)
	}
}

// TestRebuiltImage moves a tag to another image.
func TestRebuiltImage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tag := "sandbox-test-" + r.state.Instance() + ":x"
	commit(t, tag, "one")
	defer exec.Command("docker", "rmi", tag).Run()
	m := r.manager(settings(fmt.Sprintf(`"docker":{"image":%q}`, tag)))
	mustRun(t, m, "s", "true")
	commit(t, tag, "two")
	mustRun(t, m, "s", "true")
	if log := r.log.String(); !strings.Contains(log, "docker.image") || !strings.Contains(log, "recreate") {
		t.Errorf("no word about the image: %s", log)
	}
	l, err := m.List(context.Background(), manager.ListOptions{})
	must(t, err)
	if row := l.Containers[0]; row.ImageMatch == nil || *row.ImageMatch || row.ConfigMatch == nil || *row.ConfigMatch {
		t.Errorf("list says image %v, config %v", row.ImageMatch, row.ConfigMatch)
	}
}

func commit(t *testing.T, tag, mark string) {
	t.Helper()
	cmd := exec.Command("docker", "build", "-q", "-t", tag, "-")
	cmd.Stdin = strings.NewReader("FROM sandbox:bookworm-slim\nLABEL dev.bulkhead.test=" + mark + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestSetupAndOnStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(settings(`"docker":{"setup":["cat /proc/sys/kernel/random/uuid > /opt/layer"],"onStart":["echo started >> /workspace/starts"]}`))
	made, _ := mustRun(t, m, "s", "cat /opt/layer")
	if out, _ := mustRun(t, m, "s", "cat /opt/layer; cat starts; touch /opt/x 2>/dev/null || echo read-only"); len(made) != 36 || out != made+"\nstarted\nread-only" {
		t.Errorf("got %q, the layer has %q", out, made)
	}
	l, err := m.List(context.Background(), manager.ListOptions{})
	must(t, err)
	must(t, r.engine.Kill(context.Background(), l.Containers[0].Name))
	if out, _ := mustRun(t, m, "s", "wc -l < starts"); out != "2" {
		t.Errorf("after a restart the start commands ran %s times in all", out)
	}
	if out, _ := mustRun(t, m, "t", "cat /opt/layer"); out != made {
		t.Errorf("the layer was made again: %q, it was %q", out, made)
	}
}

func TestNotSandboxedNeverRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mark := t.TempDir() + "/ran"
	for name, s := range map[string]string{
		"off":      `"mode":"off"`,
		"disabled": `"enabled":false`,
		"platform": `"enabledPlatforms":["darwin"]`,
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(r.manager(settings(s)), "s", "touch "+mark)
			if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
				t.Error("it ran on the host")
			}
		})
	}
	m := r.manager(settings(`"mode":"non-main"`))
	if _, _, err := run(m, "main", "true"); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("the main session says %v", err)
	}
	mustRun(t, m, "other", "true")
}
