package container_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
)

// A podman answers as a Podman does.
type podman struct {
	rootless    bool
	user        int
	cgroup      string // version
	controllers string // JSON
	change      func(inspect map[string]any)

	spec    map[string]any // what was created
	seccomp string         // the profile that lay in its file
	removed bool
}

func (p *podman) serve(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Libpod-API-Version", "4.3.1")
		w.Header().Set("API-Version", "1.41")
		path := r.URL.Path
		switch {
		case path == "/_ping":
		case path == "/v4.0.0/libpod/info":
			fmt.Fprintf(w, `{"host":{"cgroupVersion":%q,"cgroupControllers":%s,"cgroupManager":"cgroupfs","kernel":"6.1.0","idMappings":{"uidmap":[{"container_id":0,"host_id":%d,"size":1}]},
				"ociRuntime":{"name":"crun"},"security":{"rootless":%v,"seccompEnabled":true}},"store":{"graphDriverName":"overlay","graphRoot":"/storage"},"version":{"Version":"4.3.1"}}`,
				p.cgroup, p.controllers, p.user, p.rootless)
		case path == "/v4.0.0/libpod/containers/create":
			p.spec = map[string]any{}
			if err := json.NewDecoder(r.Body).Decode(&p.spec); err != nil {
				t.Error(err)
			}
			if at, ok := p.spec["seccomp_profile_path"].(string); ok {
				text, err := os.ReadFile(at)
				if err != nil {
					t.Error(err)
				}
				p.seccomp = string(text)
			}
			w.WriteHeader(201)
			fmt.Fprint(w, `{"Id":"c1","Warnings":["a warning"]}`)
		case path == "/v4.0.0/libpod/containers/c1/json":
			if err := json.NewEncoder(w).Encode(p.inspect()); err != nil {
				t.Error(err)
			}
		case strings.HasSuffix(path, "/containers/c1/json"):
			fmt.Fprint(w, `{"Id":"c1","Mounts":[]}`)
		case r.Method == http.MethodDelete && strings.HasSuffix(path, "/containers/c1"):
			p.removed = true
			w.WriteHeader(204)
		default:
			t.Errorf("asked for %s %s", r.Method, path)
			w.WriteHeader(404)
		}
	}
}

// inspect is what Podman says of the container that it was asked for.
func (p *podman) inspect() map[string]any {
	var mounts, ulimits []any
	tmpfs := map[string]any{}
	for _, m := range p.spec["mounts"].([]any) {
		m := m.(map[string]any)
		options := fmt.Sprint(m["options"])
		if m["type"] == "tmpfs" {
			tmpfs[m["destination"].(string)] = options
			continue
		}
		mounts = append(mounts, map[string]any{"Type": m["type"], "Destination": m["destination"], "RW": !strings.Contains(options, " ro")})
	}
	for _, u := range p.spec["r_limits"].([]any) {
		u := u.(map[string]any)
		ulimits = append(ulimits, map[string]any{"Name": "RLIMIT_" + strings.ToUpper(u["type"].(string)), "Soft": u["soft"], "Hard": u["hard"]})
	}
	host := map[string]any{"ReadonlyRootfs": p.spec["read_only_filesystem"], "NetworkMode": "none", "SecurityOpt": []string{"no-new-privileges"}, "Ulimits": ulimits, "Tmpfs": tmpfs}
	if limits, ok := p.spec["resource_limits"].(map[string]any); ok {
		host["Memory"], host["MemorySwap"] = limits["memory"].(map[string]any)["limit"], limits["memory"].(map[string]any)["swap"]
		host["PidsLimit"], host["CpuQuota"] = limits["pids"].(map[string]any)["limit"], limits["cpu"].(map[string]any)["quota"]
	}
	out := map[string]any{"Mounts": mounts, "HostConfig": host}
	if p.change != nil {
		p.change(out)
	}
	return out
}

const delegated = `["cpuset","cpu","memory","pids"]`

// create creates the container of fullSpec at p.
func (p *podman) create(t *testing.T, unlimited bool) (warnings []string, err error) {
	t.Helper()
	plan, err := container.NewPlan(fullSpec(), "hash-of-it", time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	plan.Unlimited = unlimited
	_, warnings, err = engineAt(t, p.serve(t), container.Deadlines{}).Create(t.Context(), plan)
	return warnings, err
}

// TestPodmanAsked holds what Podman is asked to create, with root and without.
func TestPodmanAsked(t *testing.T) {
	for name, p := range map[string]*podman{
		"rootful":  {cgroup: "v1", controllers: `["cpu","memory","pids"]`},
		"rootless": {rootless: true, user: os.Geteuid(), cgroup: "v2", controllers: delegated},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := p.create(t, false)
			if err != nil || len(warnings) != 1 {
				t.Fatalf("%v, %v", warnings, err)
			}
			if p.seccomp != fullSpec().Security.Seccomp {
				t.Errorf("the seccomp profile is %q", p.seccomp)
			}
			file := p.spec["seccomp_profile_path"].(string)
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s is left", file)
			}
			p.spec["seccomp_profile_path"] = "FILE"
			got, err := json.MarshalIndent(p.spec, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "libpod-"+name+".json")
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)+"\n"); d != "" {
				t.Errorf("asked otherwise (-want +got):\n%s", d)
			}
		})
	}
}

// TestPodmanMissingLimits holds that nothing is created whose limits would not hold,
// unless the settings allow it, and that processes are bounded even then.
func TestPodmanMissingLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		cgroup, controllers string
		field               string
	}{
		"version 1":                {"v1", `[]`, "docker.cpus"},
		"version 1, names some":    {"v1", delegated, "docker.cpus"},
		"nothing delegated":        {"v2", `[]`, "docker.cpus"},
		"memory not delegated":     {"v2", `["cpu","pids"]`, "docker.memory"},
		"processors not delegated": {"v2", `["memory","pids"]`, "docker.cpus"},
		"says nothing":             {"v2", `null`, "docker.cpus"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &podman{rootless: true, user: os.Geteuid(), cgroup: tt.cgroup, controllers: tt.controllers}
			_, err := p.create(t, false)
			wantUnsupported(t, err, tt.field)
			if p.spec != nil {
				t.Error("the container was made")
			}
		})
	}
	p := &podman{rootless: true, user: os.Geteuid(), cgroup: "v1", controllers: `[]`}
	warnings, err := p.create(t, true)
	if err != nil || !strings.Contains(strings.Join(warnings, "\n"), "no limit by docker.cpus, docker.memory") {
		t.Errorf("%q, %v", warnings, err)
	}
	if p.spec["resource_limits"] != nil {
		t.Errorf("limits %v, which the runtime cannot set", p.spec["resource_limits"])
	}
	if got := fmt.Sprint(p.spec["r_limits"]); !strings.Contains(got, "hard:512 soft:512 type:nproc") {
		t.Errorf("processes are not bounded: %s", got)
	}
}

func wantUnsupported(t *testing.T, err error, field string) {
	t.Helper()
	var e *sandbox.Error
	if sandbox.CodeOf(err) != sandbox.CodeUnsupported || !asError(err, &e) || e.Field != field || e.Hint == "" {
		t.Errorf("got %v, want %s of %s", err, sandbox.CodeUnsupported, field)
	}
}

// TestPodmanOfAnotherUser holds that the engine of one user makes no sandbox for
// another, root among them.
func TestPodmanOfAnotherUser(t *testing.T) {
	p := &podman{rootless: true, user: os.Geteuid() + 1, cgroup: "v2", controllers: delegated}
	_, err := p.create(t, true)
	wantUnsupported(t, err, "DOCKER_HOST")
}

// TestPodmanTakesLess holds that a container is removed again which Podman has made
// otherwise than asked.
func TestPodmanTakesLess(t *testing.T) {
	host := func(m map[string]any) map[string]any { return m["HostConfig"].(map[string]any) }
	for field, change := range map[string]func(map[string]any){
		"docker.privileged":   func(m map[string]any) { host(m)["Privileged"] = true },
		"docker.readOnlyRoot": func(m map[string]any) { host(m)["ReadonlyRootfs"] = false },
		"docker.network":      func(m map[string]any) { host(m)["NetworkMode"] = "slirp4netns" },
		"docker":              func(m map[string]any) { host(m)["SecurityOpt"] = []string{} },
		"docker.capDrop":      func(m map[string]any) { m["BoundingCaps"] = []string{"CAP_CHOWN"} },
		"docker.memory":       func(m map[string]any) { host(m)["Memory"] = 0 },
		"docker.memorySwap":   func(m map[string]any) { host(m)["MemorySwap"] = -1 },
		"docker.cpus":         func(m map[string]any) { host(m)["CpuQuota"] = 0 },
		"docker.pidsLimit":    func(m map[string]any) { host(m)["PidsLimit"] = 2048 },
		"docker.ulimits.nofile": func(m map[string]any) {
			host(m)["Ulimits"] = []any{map[string]any{"Name": "RLIMIT_CORE", "Soft": 0, "Hard": 0}}
		},
		"docker.binds": func(m map[string]any) { m["Mounts"].([]any)[0].(map[string]any)["RW"] = true },
		"docker.tmpfs": func(m map[string]any) { host(m)["Tmpfs"].(map[string]any)["/var/tmp"] = "rw" },
	} {
		t.Run(field, func(t *testing.T) {
			p := &podman{rootless: true, user: os.Geteuid(), cgroup: "v2", controllers: delegated, change: change}
			_, err := p.create(t, false)
			var e *sandbox.Error
			if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !asError(err, &e) || e.Field != field {
				t.Errorf("got %v, want %s", err, field)
			}
			if !p.removed {
				t.Error("the container is left")
			}
		})
	}
}

// TestDockerMissingLimits holds the same for a Docker, which would make the container
// without the limits and warn.
func TestDockerMissingLimits(t *testing.T) {
	plan, err := container.NewPlan(fullSpec(), "h", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	made := false
	e := engineAt(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/info"):
			fmt.Fprint(w, `{"MemoryLimit":false,"SwapLimit":false,"PidsLimit":true,"CpuCfsQuota":true,"SecurityOptions":["name=seccomp"]}`)
		case strings.HasSuffix(r.URL.Path, "/create"):
			made = true
		}
	}, container.Deadlines{})
	_, _, err = e.Create(t.Context(), plan)
	wantUnsupported(t, err, "docker.memory")
	if made {
		t.Error("the container was made")
	}
}

func asError(err error, e **sandbox.Error) bool { return errors.As(err, e) }

// TestImageFoldersWhole holds that a folder of which the engine gives a part is an
// error, and not taken for all that the image has there.
func TestImageFoldersWhole(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"./a", "./b"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: 3}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "abc"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for size, ok := range map[int]bool{archive.Len(): true, 1024: false, 2048: false, 0: false} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			e := engineAt(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/archive"):
					w.Header().Set("X-Docker-Container-Path-Stat", "e30=")
					w.Write(archive.Bytes()[:size])
				case strings.HasSuffix(r.URL.Path, "/create"):
					fmt.Fprint(w, `{"Id":"c1"}`)
				case strings.HasSuffix(r.URL.Path, "/json"):
					fmt.Fprint(w, `[]`)
				case strings.HasSuffix(r.URL.Path, "/info"):
					fmt.Fprint(w, `{}`)
				}
			}, container.Deadlines{})
			_, err := e.ImageFolders(t.Context(), "image", []container.Folder{{Path: "/data", Size: 1 << 20}}, io.Discard)
			if (err == nil) != ok {
				t.Errorf("of %d bytes: %v", archive.Len(), err)
			}
		})
	}
}

// TestRootlessDocker holds that a Docker without root is refused: of the ids inside,
// root alone is its user, to whom the folders of a sandbox belong.
func TestRootlessDocker(t *testing.T) {
	plan, err := container.NewPlan(fullSpec(), "h", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	plan.Unlimited = true
	e := engineAt(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/create") {
			t.Error("a container was made")
		}
		fmt.Fprint(w, `{"MemoryLimit":true,"SwapLimit":true,"PidsLimit":true,"CpuCfsQuota":true,"CgroupVersion":"2","CgroupDriver":"systemd","SecurityOptions":["name=seccomp","name=rootless"]}`)
	}, container.Deadlines{})
	_, _, err = e.Create(t.Context(), plan)
	wantUnsupported(t, err, "DOCKER_HOST")
}
