package manager_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry"
)

// TestRecordOfNewerVersion holds that a sandbox whose record a newer version has
// written is neither used nor swept, and that the record stays.
func TestRecordOfNewerVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	_, o := mustRun(t, m, "s", "true")
	file := filepath.Join(r.state.Registry(), "containers", o.Name+".json")
	data, err := os.ReadFile(file)
	must(t, err)
	newer := bytes.Replace(data, []byte(`"format": 1`), []byte(`"format": 2`), 1)
	must(t, os.WriteFile(file, newer, 0o600))

	if _, _, err := run(m, "s", "true"); !errors.Is(err, registry.ErrNewer) || !strings.Contains(err.Error(), "use the version of sandbox that wrote it") {
		t.Errorf("run says %v", err)
	}
	r.clock.ahead = 30 * 24 * time.Hour
	p, err := m.Prune(t.Context(), manager.PruneOptions{Workspaces: true})
	if err != nil || len(p.Removed)+len(p.Failed) != 0 || p.Kept != 1 {
		t.Errorf("prune did %+v, %v", p, err)
	}
	if _, err := r.engine.Inspect(t.Context(), o.Name); err != nil {
		t.Errorf("the container: %v", err)
	}
	if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, newer) {
		t.Errorf("the record is %s, %v", have, err)
	}
}

// TestContainerOfNewerVersion holds the same of a container whose labels have a later
// format, and that a person can remove it.
func TestContainerOfNewerVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	_, o := mustRun(t, m, "s", "echo kept >file")

	// No engine changes labels: a container with the same and a later format takes the place.
	api := r.dial()
	made, err := api.ContainerInspect(t.Context(), o.Name)
	must(t, err)
	args := []string{"create", "--name", o.Name}
	for name, value := range made.Config.Labels {
		if strings.HasSuffix(name, ".format") {
			value = "9"
		}
		args = append(args, "--label", name+"="+value)
	}
	must(t, api.ContainerRemove(t.Context(), o.Name, container.RemoveOptions{Force: true}))
	out, err := exec.Command("docker", append(args, made.Image, "true")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m = r.manager("")
	_, _, err = run(m, "s", "true")
	if sandbox.CodeOf(err) != sandbox.CodeUnsupported || !strings.Contains(err.Error(), `format "9"`) || !strings.Contains(err.Error(), "up to "+sandbox.InfoFormat) || !strings.Contains(err.Error(), "sandbox recreate --force") {
		t.Errorf("run says %v", err)
	}
	r.clock.ahead = 30 * 24 * time.Hour
	p, err := m.Prune(t.Context(), manager.PruneOptions{})
	if err != nil || len(p.Removed)+len(p.Failed) != 0 {
		t.Errorf("prune did %+v, %v", p, err)
	}
	l, err := m.List(t.Context(), manager.ListOptions{})
	if err != nil || len(l.Containers) != 1 || l.Containers[0].Name != o.Name {
		t.Fatalf("list shows %+v, %v", l.Containers, err)
	}
	if done := m.Recreate(context.Background(), l.Containers); len(done.Failed) != 0 || len(done.Removed) != 1 {
		t.Fatalf("recreate did %+v", done)
	}
	r.clock.ahead = 0
	if out, _ := mustRun(t, m, "s", "cat file"); out != "kept" {
		t.Errorf("the workspace has %q", out)
	}
}

// TestGuestOfAnotherVersion holds what happens to a sandbox whose guest has no version
// of the protocol in common with this program: while it is in use it is refused with the
// command that helps, and once it is idle it is made anew.
func TestGuestOfAnotherVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mustRun(t, r.manager(""), "s", "echo kept >file")

	// A guest as a version with another protocol would have it.
	const frame = "../guest/wire/frame.go"
	source, err := os.ReadFile(frame)
	must(t, err)
	changed := regexp.MustCompile(`(?m)^(\t(?:Min)?Version +)= \d+$`).ReplaceAll(source, []byte("$1= 900"))
	if n := bytes.Count(changed, []byte("= 900")); n != 2 {
		t.Fatalf("%d versions were replaced in %s", n, frame)
	}
	dir := t.TempDir()
	abs, err := filepath.Abs(frame)
	must(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{abs: filepath.Join(dir, "frame.go")}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "frame.go"), changed, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	other := filepath.Join(dir, "sandbox-guest")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", other, "../cmd/sandbox-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// The container of the session gets that guest: what it mounts of the state folder is replaced.
	row := row(t, r.manager(""), "s")
	record, err := registry.Open(r.state.Registry())
	must(t, err)
	rec, err := record.Get(row.Kind, row.Name)
	must(t, err)
	binary := filepath.Join(rec.Spec.Guest.Dir, "sandbox-guest")
	data, err := os.ReadFile(other)
	must(t, err)
	must(t, r.engine.Kill(t.Context(), row.Name))
	must(t, os.Remove(binary))
	must(t, os.WriteFile(binary, data, 0o755))
	if out, err := exec.Command("docker", "start", row.Name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// The program has another guest as well, so that the settings differ from the sandbox's.
	r.change = func(o *manager.Options) {
		o.Host.Guest = func() (sandbox.GuestRef, error) {
			own, err := os.ReadFile(testenv.Guest(t))
			if err != nil {
				return sandbox.GuestRef{}, err
			}
			p := filepath.Join(t.TempDir(), "sandbox-guest")
			if err := os.WriteFile(p, append(own, 0), 0o755); err != nil {
				return sandbox.GuestRef{}, err
			}
			return r.state.InstallGuest(p)
		}
	}
	m := r.manager("")
	_, _, err = run(m, "s", "true")
	if sandbox.CodeOf(err) != sandbox.CodeBusy || !errors.Is(err, client.ErrVersions) || !strings.Contains(err.Error(), "speaks protocol versions 900 to 900") ||
		!strings.Contains(err.Error(), "sandbox recreate --session s") {
		t.Errorf("while it is in use, run says %v", err)
	}
	r.clock.ahead = time.Hour
	if out, _ := mustRun(t, m, "s", "cat file"); out != "kept" {
		t.Errorf("once it is idle, the workspace has %q", out)
	}
}
