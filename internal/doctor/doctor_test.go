package doctor_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/doctor"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A world is everything that the checks ask, healthy until a test makes it ill.
type world struct {
	posture  container.Posture
	postErr  error
	image    images.Image
	imageErr error
	settings doctor.Settings
	setErr   error
	left     doctor.Leftovers
	leftErr  error
	kept     doctor.Evidence
	keptErr  error
	guest    string
	guestErr error
	files    fstest.MapFS
	disk     doctor.Disk
	uid      int
	owner    int
	noWrite  bool
	wall     doctor.Status // of the local provider's check
	company  string        // file of docker.caFile
	trusted  []byte        // certificates in it
	trustErr error
	address  string
}

func healthy() *world {
	return &world{
		wall: doctor.OK,
		posture: container.Posture{Host: "unix:///var/run/docker.sock", Version: "28.1.0", APIVersion: "1.49", Storage: "overlay2", RootDir: "/var/lib/docker",
			CgroupVersion: "2", CgroupDriver: "systemd", Seccomp: true, AppArmor: true, Runtimes: []string{"runc", "runsc"}, Default: "runc",
			Time: noon.Format(time.RFC3339Nano)},
		image:    images.Image{ID: "sha256:0123456789abcdef", Created: noon.Add(-48 * time.Hour), Origin: images.OriginSandbox, Labels: map[string]string{"org.opencontainers.image.base.name": "debian:bookworm-slim"}},
		settings: doctor.Settings{Path: "/etc/sandbox.json", Provider: "docker", WorkspaceQuota: 1 << 30},
		files: fstest.MapFS{
			"state":                             {Mode: fs.ModeDir | 0o700},
			"proc/sys/kernel":                   {Mode: fs.ModeDir | 0o755},
			"proc/sys/user/max_user_namespaces": {Data: []byte("15000\n"), Mode: 0o644},
		},
		disk:    doctor.Disk{Type: "ext4", Free: 50 << 30, Total: 100 << 30, FreeInodes: 1e6, Inodes: 2e6},
		guest:   "/bin/true",
		address: "unix:///var/run/docker.sock",
	}
}

func (w *world) deps() doctor.Deps {
	rel := func(p string) string { return strings.TrimPrefix(p, "/") }
	return doctor.Deps{
		EngineAddress: w.address,
		Posture:       func(context.Context) (container.Posture, error) { return w.posture, w.postErr },
		ImageRef:      images.DefaultImage,
		Image:         func(context.Context, string) (images.Image, error) { return w.image, w.imageErr },
		Guest:         func() (string, error) { return w.guest, w.guestErr },
		Settings:      func() (doctor.Settings, error) { return w.settings, w.setErr },
		StateDir:      "/state",
		Leftovers:     func(context.Context) (doctor.Leftovers, error) { return w.left, w.leftErr },
		Evidence:      func(context.Context) (doctor.Evidence, error) { return w.kept, w.keptErr },
		Authorities:   func() (string, []byte, error) { return w.company, w.trusted, w.trustErr },
		Local: []doctor.ProviderCheck{{Name: "bwrap", Look: func(context.Context) (doctor.Status, string, string) {
			return w.wall, "bwrap is " + string(w.wall), "install it"
		}}},
		Host: doctor.Host{
			OS: "linux", UID: w.uid,
			ReadFile: func(p string) ([]byte, error) { return w.files.ReadFile(rel(p)) },
			Lstat:    func(p string) (fs.FileInfo, error) { return w.files.Lstat(rel(p)) },
			Owner:    func(fs.FileInfo) (int, bool) { return w.owner, true },
			Writable: func(string) error {
				if w.noWrite {
					return fs.ErrPermission
				}
				return nil
			},
			Disk:   func(string) (doctor.Disk, error) { return w.disk, nil },
			Output: func(context.Context, string, ...string) (string, error) { return "1\n", nil },
			Now:    func() time.Time { return noon },
		},
	}
}

const day = 24 * time.Hour

// valid returns a certificate as PEM that is valid between two times after noon.
func valid(t *testing.T, from, until time.Duration) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Example Root"}, NotBefore: noon.Add(from), NotAfter: noon.Add(until)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func lookFor(t *testing.T, r doctor.Report, name string) doctor.Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %s", name)
	return doctor.Check{}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	notFound := &sandbox.Error{Code: sandbox.CodeNotFound, Message: "none"}
	down := &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "no engine", Hint: "start it"}
	tests := []struct {
		name   string
		ill    func(*world)
		check  string
		want   doctor.Status
		detail string
		fix    string
	}{
		{"engine answers", func(*world) {}, "engine", doctor.OK, "28.1.0", ""},
		{"engine down", func(w *world) { w.postErr = down }, "engine", doctor.Fail, "no engine", "start it"},
		{"engine down, with a hint that sends here", func(w *world) {
			w.postErr = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "ask engine", Message: "cannot reach it", Err: errors.New("refused"), Hint: "see sandbox doctor"}
		}, "engine", doctor.Fail, "no engine at unix:///var/run/docker.sock: cannot reach it: refused", "docker.io"},
		{"engine down without hint", func(w *world) { w.postErr = errors.New("refused") }, "engine", doctor.Fail, "refused", "docker.io"},
		{"engine down and not needed", func(w *world) { w.postErr, w.settings.Provider = down, "local" }, "engine", doctor.Warn, "does without", "start it"},
		{"nothing known of a dead engine", func(w *world) { w.postErr = down }, "seccomp", doctor.Skip, "depends on engine", ""},
		{"unix socket", func(*world) {}, "engine-address", doctor.OK, "this machine", ""},
		{"tcp engine", func(w *world) { w.posture.Host = "tcp://10.0.0.5:2376" }, "engine-address", doctor.Fail, "do not cross", "DOCKER_HOST"},
		{"ssh engine that is down", func(w *world) { w.postErr, w.address = down, "ssh://me:pw@host" }, "engine-address", doctor.Fail, "ssh://me:xxxxx@host", "DOCKER_HOST"},
		{"oldest interface", func(w *world) { w.posture.APIVersion = "1.41" }, "api-version", doctor.OK, "1.41", ""},
		{"old interface", func(w *world) { w.posture.APIVersion = "1.40" }, "api-version", doctor.Fail, "1.40", "20.10"},
		{"two digits are not a fraction", func(w *world) { w.posture.APIVersion = "1.5" }, "api-version", doctor.Fail, "1.5", ""},
		{"odd interface", func(w *world) { w.posture.APIVersion = "new" }, "api-version", doctor.Warn, "new", ""},
		{"vfs", func(w *world) { w.posture.Storage = "vfs" }, "storage-driver", doctor.Warn, "copies", "overlay2"},
		{"other driver", func(w *world) { w.posture.Storage = "btrfs" }, "storage-driver", doctor.Warn, "btrfs", "overlay2"},
		{"no control groups", func(w *world) { w.posture.CgroupDriver = "none" }, "cgroup", doctor.Fail, "no limit", "delegate"},
		{"version 1", func(w *world) { w.posture.CgroupVersion = "1" }, "cgroup", doctor.OK, "version 1", ""},
		{"all limits", func(*world) {}, "limits", doctor.OK, "pids", ""},
		{"no swap limit", func(w *world) { w.posture.MissingLimits = []string{"swap"} }, "limits", doctor.Warn, "swap", "swapaccount"},
		{"no pids limit", func(w *world) { w.posture.MissingLimits = []string{"swap", "pids"} }, "limits", doctor.Fail, "pids, swap", "cgroup_enable"},
		{"no seccomp", func(w *world) { w.posture.Seccomp = false }, "seccomp", doctor.Fail, "cannot filter", "SECCOMP"},
		{"old kernel", func(w *world) { w.posture.Kernel = "4.19.0-27-amd64" }, "process-limit", doctor.Warn, "from time to time: the kernel 4.19.0-27-amd64", "5.0"},
		{"gVisor", func(w *world) { w.settings.Runtime = "runsc" }, "process-limit", doctor.Warn, "the runtime runsc", "pidsLimit"},
		{"gVisor by default", func(w *world) { w.posture.Default = "runsc" }, "process-limit", doctor.Warn, "the runtime runsc", "pidsLimit"},
		{"processes are counted", func(w *world) { w.posture.Kernel = "6.18.4-1" }, "process-limit", doctor.OK, "before it is made", ""},
		{"no apparmor", func(w *world) { w.posture.AppArmor = false }, "apparmor", doctor.Warn, "absent", "apparmor"},
		{"remapped ids", func(w *world) { w.posture.UserNS = true }, "engine-users", doctor.Warn, "remaps", "userns-remap"},
		{"not root", func(w *world) { w.uid = 1000 }, "engine-users", doctor.Warn, "uid 1000", "root"},
		{"runtime there", func(w *world) { w.settings.Runtime = "runsc" }, "runtimes", doctor.OK, "runsc", ""},
		{"runtime missing", func(w *world) { w.settings.Runtime = "kata" }, "runtimes", doctor.Fail, "kata", "daemon.json"},
		{"clocks agree", func(w *world) { w.posture.Time = noon.Add(4 * time.Second).Format(time.RFC3339Nano) }, "clock", doctor.OK, "", ""},
		{"clock ahead", func(w *world) { w.posture.Time = noon.Add(time.Minute).Format(time.RFC3339Nano) }, "clock", doctor.Warn, "1m0s", "synchronise"},
		{"clock behind", func(w *world) { w.posture.Time = noon.Add(-time.Minute).Format(time.RFC3339Nano) }, "clock", doctor.Warn, "1m0s", "synchronise"},
		{"odd clock", func(w *world) { w.posture.Time = "yesterday" }, "clock", doctor.Warn, "yesterday", ""},
		{"image there", func(*world) {}, "image", doctor.OK, "on debian:bookworm-slim, 2 days old", ""},
		{"image made earlier", func(w *world) {
			w.image.Labels = map[string]string{"dev.bulkhead.sandbox.image.base": "debian:bookworm-slim"}
		}, "image", doctor.OK, "on debian:bookworm-slim, 2 days old", ""},
		{"image missing", func(w *world) { w.imageErr = notFound }, "image", doctor.Warn, "is not there", "images build"},
		{"image not known", func(w *world) { w.imageErr = down }, "image", doctor.Skip, "depends on engine", ""},
		{"image stale", func(w *world) { w.image.Stale = true }, "image", doctor.Warn, "another recipe", "images build"},
		{"image old", func(w *world) { w.image.Created = noon.Add(-90 * 24 * time.Hour) }, "image", doctor.Warn, "90 days", "images build"},
		{"image pulled", func(w *world) { w.image.Origin = images.OriginForeign }, "image", doctor.OK, "elsewhere", ""},
		{"guest missing", func(w *world) { w.guestErr = errors.New("was not found") }, "guest", doctor.Fail, "not found", "make build"},
		{"guest is no program", func(w *world) { w.guest = "/etc/passwd" }, "guest", doctor.Fail, "not an ELF", "make build"},
		{"guest is a folder", func(w *world) { w.guest = "/etc" }, "guest", doctor.Fail, "not a regular file", "make build"},
		{"guest is dynamic", func(w *world) { w.guest = "/bin/sh" }, "guest", doctor.Fail, "dynamically", "make build"},
		{"settings read", func(*world) {}, "settings", doctor.OK, "/etc/sandbox.json", ""},
		{"settings wrong", func(w *world) { w.setErr = errors.New("agents.defaults.sandbox.mod: unknown") }, "settings", doctor.Fail, "unknown", "correct"},
		{"no settings", func(w *world) { w.settings.Path = "" }, "settings", doctor.OK, "defaults", ""},
		{"break glass", func(w *world) { w.settings.Dangerous = []string{"dangerouslyAllowWritableRoot"} }, "break-glass", doctor.Warn, "WritableRoot", "remove"},
		{"no quota", func(w *world) { w.settings.WorkspaceQuota = 0 }, "workspace-quota", doctor.Warn, "unbounded", "workspaceQuota"},
		{"state folder", func(*world) {}, "state-folder", doctor.OK, "0700", ""},
		{"no state folder yet", func(w *world) { delete(w.files, "state") }, "state-folder", doctor.OK, "made when", ""},
		{"state folder of others", func(w *world) { w.owner = 7 }, "state-folder", doctor.Fail, "uid 7", "owner"},
		{"state folder open", func(w *world) { w.files["state"].Mode = fs.ModeDir | 0o777 }, "state-folder", doctor.Fail, "0777", "chmod go-w"},
		{"state folder readable", func(w *world) { w.files["state"].Mode = fs.ModeDir | 0o755 }, "state-folder", doctor.Warn, "0755", "chmod 700"},
		{"state folder is a file", func(w *world) { w.files["state"].Mode = 0o600 }, "state-folder", doctor.Fail, "not a folder", ""},
		{"state folder read-only", func(w *world) { w.noWrite = true }, "state-folder", doctor.Fail, "cannot be written", "chmod"},
		{"disk", func(*world) {}, "state-disk", doctor.OK, "50 GiB of 100 GiB", ""},
		{"disk nearly full", func(w *world) { w.disk.Free = 500 << 20 }, "state-disk", doctor.Warn, "500 MiB", "prune"},
		{"disk full", func(w *world) { w.disk.Free = 1 << 20 }, "state-disk", doctor.Fail, "1 MiB", "prune"},
		{"no inodes", func(w *world) { w.disk.FreeInodes = 0 }, "state-disk", doctor.Fail, "inode", "remove files"},
		{"few inodes", func(w *world) { w.disk.FreeInodes = 50 }, "state-disk", doctor.Warn, "50 inodes", "remove files"},
		{"no inode count", func(w *world) { w.disk.FreeInodes, w.disk.Inodes = 0, 0 }, "state-disk", doctor.OK, "", ""},
		{"tmpfs", func(w *world) { w.disk.Type = "tmpfs" }, "state-disk", doctor.Warn, "next boot", "disk"},
		{"nfs", func(w *world) { w.disk.Type = "nfs" }, "state-disk", doctor.Warn, "locks", "local disk"},
		{"read-only disk", func(w *world) { w.disk.ReadOnly = true }, "state-disk", doctor.Fail, "read-only", "writable"},
		{"engine's disk full is a warning", func(w *world) { w.disk.Free = 1 << 20 }, "engine-disk", doctor.Warn, "", "prune"},
		{"nothing left", func(*world) {}, "leftovers", doctor.OK, "nothing", ""},
		{"left", func(w *world) {
			w.left = doctor.Leftovers{Orphans: []string{"a", "b", "c", "d"}, Corrupt: []string{"x"}}
		}, "leftovers", doctor.Warn, "4 containers without record (a, b, c, …), 1 damaged", "prune"},
		{"left not known", func(w *world) { w.leftErr = down }, "leftovers", doctor.Skip, "depends on engine", ""},
		{"no company", func(*world) {}, "company-ca", doctor.OK, "names no file", ""},
		{"company", func(w *world) { w.company, w.trusted = "/ca.pem", valid(t, -time.Hour, 31*day) }, "company-ca", doctor.OK, "/ca.pem: 1 certificates, valid until 2026-12-22", ""},
		{"company ends soon", func(w *world) {
			w.company, w.trusted = "/ca.pem", slices.Concat(valid(t, -time.Hour, 400*day), valid(t, -time.Hour, 30*day-time.Hour))
		}, "company-ca", doctor.Warn, `/ca.pem: expires within 30 days: "CN=Example Root" on 2026-12-21`, "recreate --all"},
		{"company has ended", func(w *world) {
			w.company, w.trusted = "/ca.pem", slices.Concat(valid(t, -2*day, -time.Hour), valid(t, -time.Hour, day))
		}, "company-ca", doctor.Fail, `expired: "CN=Example Root" on 2026-11-21`, "recreate --all"},
		{"company begins later", func(w *world) { w.company, w.trusted = "/ca.pem", valid(t, day, 400*day) }, "company-ca", doctor.Fail, "valid only from", "clock"},
		{"company without certificates", func(w *world) { w.company = "/ca.pem" }, "company-ca", doctor.Fail, "/ca.pem holds no certificate", "PEM"},
		{"company refused", func(w *world) {
			w.company, w.trustErr = "/ca.pem", &sandbox.Error{Code: sandbox.CodeValidation, Message: "it is a folder", Hint: "name the PEM file in it"}
		}, "company-ca", doctor.Fail, "it is a folder", "name the PEM file in it"},
		{"company without settings", func(w *world) { w.setErr, w.trustErr = errors.New("no"), errors.New("no") }, "company-ca", doctor.Skip, "settings", ""},
		{"company not known", func(w *world) { w.trustErr = errors.New("no state") }, "company-ca", doctor.Warn, "not known: no state", ""},
		{"control characters", func(w *world) { w.posture.Version = "1\x1b[2J" }, "engine", doctor.OK, `1\x1b[2J`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := healthy()
			tt.ill(w)
			c := lookFor(t, doctor.Run(t.Context(), w.deps()), tt.check)
			if c.Status != tt.want || !strings.Contains(c.Detail, tt.detail) || !strings.Contains(c.Fix, tt.fix) {
				t.Errorf("%s: %s %q, fix %q; want %s with %q and %q", c.Name, c.Status, c.Detail, c.Fix, tt.want, tt.detail, tt.fix)
			}
			if c.Status == doctor.Fail && c.Fix == "" {
				t.Error("a failure without a fix")
			}
		})
	}
}

// TestSandboxesThatAreNotWanted checks that what one provider lacks fails only
// configurations that want that provider.
func TestSandboxesThatAreNotWanted(t *testing.T) {
	t.Parallel()
	down := &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "cannot connect"}
	tests := []struct {
		name, provider string
		noEngine       bool
		wall           doctor.Status
		engine, bwrap  doctor.Status // as reported
	}{
		{"docker without the engine", "docker", true, doctor.OK, doctor.Fail, doctor.OK},
		{"docker without bwrap", "docker", false, doctor.Fail, doctor.OK, doctor.Warn},
		{"local without the engine", "local", true, doctor.OK, doctor.Warn, doctor.OK},
		{"local without bwrap", "local", false, doctor.Fail, doctor.OK, doctor.Fail},
		{"local without both", "local", true, doctor.Fail, doctor.Warn, doctor.Fail},
		{"auto without the engine", "auto", true, doctor.Warn, doctor.Warn, doctor.Warn},
		{"auto without bwrap", "auto", false, doctor.Fail, doctor.OK, doctor.Warn},
		{"auto without both", "auto", true, doctor.Fail, doctor.Fail, doctor.Fail},
		{"no provider is known", "", true, doctor.Fail, doctor.Fail, doctor.Warn},
	}
	for _, tt := range tests {
		w := healthy()
		w.settings.Provider, w.wall = tt.provider, tt.wall
		if tt.noEngine {
			w.postErr = down
		}
		d := w.deps()
		d.Guest = nil // only a built one passes
		r := doctor.Run(t.Context(), d)
		engine, bwrap := lookFor(t, r, "engine"), lookFor(t, r, "bwrap")
		if engine.Status != tt.engine || bwrap.Status != tt.bwrap {
			t.Errorf("%s: engine %s, bwrap %s", tt.name, engine.Status, bwrap.Status)
		}
		if want := tt.engine == doctor.Fail || tt.bwrap == doctor.Fail; r.Failed() != want {
			t.Errorf("%s: failed %v", tt.name, r.Failed())
		}
		if tt.wall == doctor.Fail && bwrap.Status == doctor.Warn && (!strings.Contains(bwrap.Detail, "does without") || bwrap.Fix == "") {
			t.Errorf("%s: %+v", tt.name, bwrap)
		}
	}
}

// TestHangs holds that one check that hangs does not hold up the others.
func TestHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := healthy()
		d := w.deps()
		release := make(chan struct{})
		d.Leftovers = func(context.Context) (doctor.Leftovers, error) { <-release; return doctor.Leftovers{}, nil }
		defer close(release)
		d.Deadline = 200 * time.Millisecond
		begin := time.Now()
		r := doctor.Run(t.Context(), d)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the report took %v", took)
		}
		if c := lookFor(t, r, "leftovers"); c.Status != doctor.Fail || !strings.Contains(c.Detail, "no answer") {
			t.Errorf("leftovers: %s %q", c.Status, c.Detail)
		}
		if c := lookFor(t, r, "engine"); c.Status != doctor.OK {
			t.Errorf("engine: %s %q", c.Status, c.Detail)
		}
		if !r.Failed() {
			t.Error("the report did not fail")
		}
	})
}

// TestNothingGiven holds that missing deps warn and never pass.
func TestNothingGiven(t *testing.T) {
	t.Parallel()
	d := healthy().deps()
	d.Posture, d.Image, d.Guest, d.Settings, d.Leftovers = nil, nil, nil, nil, nil
	r := doctor.Run(t.Context(), d)
	for _, name := range []string{"engine", "image", "guest", "settings", "leftovers"} {
		if c := lookFor(t, r, name); c.Status == doctor.OK {
			t.Errorf("%s passed unseen", name)
		}
	}
}

// TestGuest looks at a guest as it is built.
func TestGuest(t *testing.T) {
	w := healthy()
	w.guest = testenv.Guest(t)
	d := w.deps()
	d.Host.Output = doctor.RealHost().Output
	d.Deadline = testenv.Patience
	if c := lookFor(t, doctor.Run(t.Context(), d), "guest"); c.Status != doctor.OK || !strings.Contains(c.Detail, "SHA-256") {
		t.Errorf("%s %q", c.Status, c.Detail)
	}
}

// TestRealHost looks at this machine.
func TestRealHost(t *testing.T) {
	h := doctor.RealHost()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d := doctor.Deps{Host: h, StateDir: dir, Deadline: testenv.Patience}
	r := doctor.Run(t.Context(), d)
	if c := lookFor(t, r, "state-folder"); c.Status != doctor.OK {
		t.Errorf("state-folder: %s %q", c.Status, c.Detail)
	}
	if c := lookFor(t, r, "state-format"); c.Status != doctor.OK || !strings.Contains(c.Detail, "when the folder is made") {
		t.Errorf("state-format: %s %q", c.Status, c.Detail)
	}
	if disk, err := h.Disk(dir); err != nil || disk.Total <= 0 || disk.Free > disk.Total {
		t.Errorf("disk %+v, %v", disk, err)
	}
	if out, err := h.Output(t.Context(), "echo", "word"); err != nil || out != "word\n" {
		t.Errorf("output %q, %v", out, err)
	}
}

// TestRealEngine looks at the engine of this machine.
func TestRealEngine(t *testing.T) {
	testenv.Require(t, "docker")
	api, err := container.Dial()
	if err != nil {
		t.Fatal(err)
	}
	e := container.New(api, testenv.Patient())
	defer e.Close()
	r := doctor.Run(t.Context(), doctor.Deps{Host: doctor.RealHost(), EngineAddress: e.Host(), Posture: e.Posture, Deadline: testenv.Patience})
	for _, name := range []string{"engine", "engine-address", "api-version", "seccomp", "clock"} {
		if c := lookFor(t, r, name); c.Status != doctor.OK {
			t.Errorf("%s: %s %q", name, c.Status, c.Detail)
		}
	}
}

func ExampleRun() {
	r := doctor.Run(context.Background(), healthy().deps())
	for _, c := range r.Checks[:3] {
		fmt.Println(c.Status, c.Name, c.Detail)
	}
	// Output:
	// ok engine 28.1.0 answers at unix:///var/run/docker.sock
	// ok engine-address unix:///var/run/docker.sock is on this machine
	// ok api-version 1.49
}
