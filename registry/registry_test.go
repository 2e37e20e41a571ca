package registry

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// childEnv makes the test binary act as another process: "DIR WHAT NAME".
const childEnv = "REGISTRY_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := strings.Fields(os.Getenv(childEnv)); len(spec) == 3 {
		if err := runChild(spec[0], spec[1], spec[2]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runChild(dir, what, name string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	for i := range 100 {
		switch what {
		case "count":
			err = s.Update(sandbox.KindSandbox, name, raise)
		case "touch":
			err = s.Touch(sandbox.KindSandbox, name, epoch.Add(time.Duration(i)*time.Hour))
			if sandbox.IsNotFound(err) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// raise adds one to the number in a record's Session.
func raise(r *Record) error {
	n, err := strconv.Atoi(r.Session)
	r.Session = strconv.Itoa(n + 1)
	return err
}

var epoch = time.Date(2026, 11, 1, 12, 0, 0, 123456789, time.UTC)

func record(name string) Record {
	return Record{
		Name: name, Kind: sandbox.KindSandbox, Provider: "docker", Instance: "0123456789abcdef",
		Tenant: "acme", Agent: "main", Session: "chat-42", Scope: sandbox.ScopeSession, ScopeKey: "chat-42",
		Image: "sandbox:latest", ImageID: "sha256:" + strings.Repeat("ab", 32), ConfigHash: strings.Repeat("cd", 20),
		Workspace: "/state/workspaces/" + name, CreatedAt: epoch, LastUsedAt: epoch,
	}
}

func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t testing.TB, s *Store, records ...Record) {
	t.Helper()
	for _, r := range records {
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
	}
}

func file1(s *Store, name string) string { return filepath.Join(s.root, containersDir, name+".json") }

func TestRoundTrip(t *testing.T) {
	s := open(t)
	want := record("sbx-a")
	want.Spec = &sandbox.Spec{Name: "sbx-a", Image: "x", Env: map[string]string{"A": "ü\n"}, Security: sandbox.Security{Seccomp: "{}"}}
	put(t, s, want)
	got, err := s.Get(sandbox.KindSandbox, "sbx-a")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want.Owner(), sandbox.Owner{Instance: "0123456789abcdef", Tenant: "acme", Agent: "main",
		Session: "chat-42", Scope: sandbox.ScopeSession, ScopeKey: "chat-42"}); d != "" {
		t.Error(d)
	}
	fi, err := os.Stat(file1(s, "sbx-a"))
	if err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", fi.Mode(), err)
	}
	data, _ := os.ReadFile(file1(s, "sbx-a"))
	for _, key := range []string{"name", "kind", "tenant", "agent", "session", "scopeKey", "image", "imageId", "configHash", "createdAt", "lastUsedAt"} {
		if !bytes.Contains(data, []byte(`"`+key+`": "`)) {
			t.Errorf("no key %s in %s", key, data)
		}
	}
	want.Spec, want.ConfigHash = nil, "other"
	put(t, s, want)
	if got, err := s.Get(sandbox.KindSandbox, "sbx-a"); err != nil || got.ConfigHash != "other" || got.Spec != nil {
		t.Errorf("after replacing: %+v, %v", got, err)
	}
}

func TestDeleteAndNotFound(t *testing.T) {
	s := open(t)
	put(t, s, record("sbx-a"))
	for range 2 {
		if err := s.Delete(sandbox.KindSandbox, "sbx-a"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Get(sandbox.KindSandbox, "sbx-a")
	for what, err := range map[string]error{
		"Get":    err,
		"Touch":  s.Touch(sandbox.KindSandbox, "sbx-a", epoch),
		"Update": s.Update(sandbox.KindSandbox, "sbx-a", func(*Record) error { t.Error("called"); return nil }),
	} {
		if !sandbox.IsNotFound(err) {
			t.Errorf("%s: %v, want %s", what, err, sandbox.CodeNotFound)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.root, "*", "*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestTouch(t *testing.T) {
	tests := []struct {
		name string
		now  time.Duration // after the recorded last use
		want time.Duration
	}{
		{"later", time.Minute, time.Minute},
		{"within the resolution", 900 * time.Millisecond, 0},
		{"at the resolution", time.Second, time.Second},
		{"a little earlier: somebody was faster", -10 * time.Second, 0},
		{"much earlier: the clock was wrong", -time.Hour, -time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			r := record("sbx-a")
			r.Spec = &sandbox.Spec{Name: "sbx-a"}
			put(t, s, r)
			if err := s.Touch(sandbox.KindSandbox, "sbx-a", epoch.Add(tt.now)); err != nil {
				t.Fatal(err)
			}
			got, err := s.Get(sandbox.KindSandbox, "sbx-a")
			if err != nil {
				t.Fatal(err)
			}
			r.LastUsedAt = epoch.Add(tt.want)
			if d := cmp.Diff(r, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestUpdateKeepsIdentityAndHonoursErrors(t *testing.T) {
	s := open(t)
	put(t, s, record("sbx-a"))
	boom := errors.New("boom")
	if err := s.Update(sandbox.KindSandbox, "sbx-a", func(r *Record) error { r.Agent = "x"; return boom }); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if err := s.Update(sandbox.KindSandbox, "sbx-a", func(r *Record) error {
		r.Name, r.Kind, r.Session = "sbx-b", sandbox.KindBrowser, "new"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := record("sbx-a")
	want.Session = "new"
	if got, err := s.Get(sandbox.KindSandbox, "sbx-a"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func child(t *testing.T, wg *sync.WaitGroup, spec string) {
	wg.Go(func() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+spec)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("child: %v: %s", err, out)
		}
	})
}

func TestNoUpdateIsLostBetweenProcesses(t *testing.T) {
	s := open(t)
	r := record("sbx-a")
	r.Session = "0"
	put(t, s, r)
	var wg sync.WaitGroup
	for range 3 {
		child(t, &wg, s.root+" count sbx-a")
		wg.Go(func() {
			for range 100 {
				if err := s.Update(sandbox.KindSandbox, "sbx-a", raise); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, err := s.Get(sandbox.KindSandbox, "sbx-a"); err != nil || got.Session != "600" {
		t.Errorf("counted %s, %v; want 600", got.Session, err)
	}
}

func TestTouchNeverResurrects(t *testing.T) {
	s := open(t)
	var wg sync.WaitGroup
	for range 2 {
		child(t, &wg, s.root+" touch sbx-a")
	}
	stop := make(chan struct{})
	go func() { wg.Wait(); close(stop) }()
	deleted := 0
	for done := false; !done; {
		select {
		case <-stop:
			done = true
		default:
		}
		put(t, s, record("sbx-a"))
		if err := s.Delete(sandbox.KindSandbox, "sbx-a"); err != nil {
			t.Fatal(err)
		}
		deleted++
		if _, err := os.Lstat(file1(s, "sbx-a")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("round %d: the record is back: %v", deleted, err)
		}
	}
	if _, err := s.Get(sandbox.KindSandbox, "sbx-a"); !sandbox.IsNotFound(err) {
		t.Errorf("after %d rounds: %v", deleted, err)
	}
}

func TestConcurrentPutAndDelete(t *testing.T) {
	s := open(t)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for range 30 {
				if err := s.Put(record("sbx-a")); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					if err := s.Delete(sandbox.KindSandbox, "sbx-a"); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if _, problems, err := s.List(""); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if tmp, _ := filepath.Glob(filepath.Join(s.root, "*", ".*")); len(tmp) > 0 {
		t.Errorf("left over: %v", tmp)
	}
}

func TestDamage(t *testing.T) {
	valid, err := encode(file{Format: Format, Record: record("sbx-a")})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		make func(path string) error
		want error // nil: some other error, and the file stays
	}{
		{"empty", func(p string) error { return os.WriteFile(p, nil, 0o600) }, ErrCorrupt},
		{"garbage", func(p string) error { return os.WriteFile(p, []byte("\x00\xff{{"), 0o600) }, ErrCorrupt},
		{"half", func(p string) error { return os.WriteFile(p, valid[:len(valid)/2], 0o600) }, ErrCorrupt},
		{"oversized", func(p string) error { return os.WriteFile(p, bytes.Repeat([]byte(" "), maxRecord+1), 0o600) }, ErrCorrupt},
		{"another name", func(p string) error {
			return os.WriteFile(p, bytes.ReplaceAll(valid, []byte("sbx-a"), []byte("sbx-b")), 0o600)
		}, ErrCorrupt},
		{"another kind", func(p string) error {
			return os.WriteFile(p, bytes.Replace(valid, []byte(`"sandbox"`), []byte(`"browser"`), 1), 0o600)
		}, ErrCorrupt},
		{"no format", func(p string) error { return os.WriteFile(p, []byte(`{}`), 0o600) }, ErrCorrupt},
		{"wrong type", func(p string) error {
			return os.WriteFile(p, bytes.Replace(valid, []byte(`"docker"`), []byte(`[1]`), 1), 0o600)
		}, ErrCorrupt},
		{"link", func(p string) error { return os.Symlink("/etc/passwd", p) }, ErrCorrupt},
		{"folder", func(p string) error { return os.Mkdir(p, 0o700) }, ErrCorrupt},
		{"fifo", func(p string) error { return unix.Mkfifo(p, 0o600) }, ErrCorrupt},
		{"newer", func(p string) error { return os.WriteFile(p, []byte(`{"format":2,"what":{}}`), 0o600) }, ErrNewer},
		{"newer of our form", func(p string) error {
			return os.WriteFile(p, bytes.Replace(valid, []byte(`"format": 1`), []byte(`"format": 2`), 1), 0o600)
		}, ErrNewer},
		{"followed by more", func(p string) error { return os.WriteFile(p, append(slices.Clone(valid), "{}"...), 0o600) }, ErrCorrupt},
	}
	for _, tt := range tests {
		for _, by := range []string{"List", "Get", "Look", "Touch", "Put"} {
			t.Run(tt.name+"/"+by, func(t *testing.T) {
				s := open(t)
				put(t, s, record("sbx-0"), record("sbx-z"))
				p := file1(s, "sbx-a")
				if err := tt.make(p); err != nil {
					t.Fatal(err)
				}
				var err error
				switch by {
				case "List":
					records, problems, lerr := s.List(sandbox.KindSandbox)
					if lerr != nil || len(records) != 2 || len(problems) != 1 {
						t.Fatalf("%d records, problems %v, error %v; want the 2 others and 1 problem", len(records), problems, lerr)
					}
					err = problems[0].Err
					if moved := problems[0].SetAside != ""; moved != (tt.want == ErrCorrupt) {
						t.Errorf("set aside to %q", problems[0].SetAside)
					}
				case "Get":
					_, err = s.Get(sandbox.KindSandbox, "sbx-a")
				case "Look":
					_, err = s.Look(sandbox.KindSandbox, "sbx-a")
				case "Touch":
					err = s.Touch(sandbox.KindSandbox, "sbx-a", epoch)
				case "Put": // rebuilding from labels works whatever lies there
					if tt.want == ErrNewer || tt.name == "folder" {
						return
					}
					put(t, s, record("sbx-a"))
					if _, err := s.Get(sandbox.KindSandbox, "sbx-a"); err != nil {
						t.Error(err)
					}
					return
				}
				var e *sandbox.Error
				if !errors.Is(err, tt.want) || !errors.As(err, &e) || e.Code != sandbox.CodeUnavailable || e.Hint == "" {
					t.Fatalf("error %v, want one that wraps %v, with code and hint", err, tt.want)
				}
				aside, _ := filepath.Glob(p + ".corrupt-*")
				_, stays := os.Lstat(p)
				if tt.want == ErrCorrupt && (len(aside) != 1 || stays == nil) {
					t.Errorf("set aside %v, original: %v", aside, stays)
				}
				if tt.want != ErrCorrupt && (len(aside) != 0 || stays != nil) {
					t.Errorf("set aside %v, original: %v; want it untouched", aside, stays)
				}
				if records, _, err := s.List(""); err != nil || len(records) != 2 {
					t.Errorf("afterwards %d records, %v", len(records), err)
				}
			})
		}
	}
}

func TestListKinds(t *testing.T) {
	s := open(t)
	browser, pool := record("sbx-browser-b"), record("sbx-c")
	browser.Kind, pool.Kind = sandbox.KindBrowser, sandbox.KindPool
	put(t, s, pool, browser, record("sbx-a"))
	for _, name := range []string{"Upper.json", "notes.txt", "sbx-a.json.corrupt-20260101T000000Z"} {
		if err := os.WriteFile(filepath.Join(s.root, containersDir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := filepath.Join(s.root, containersDir, ".sbx-a.json123")
	young := filepath.Join(s.root, containersDir, ".sbx-a.json456")
	hourAgo := time.Now().Add(-2 * time.Hour)
	if err := errors.Join(os.WriteFile(old, nil, 0o600), os.WriteFile(young, nil, 0o600), os.Chtimes(old, hourAgo, hourAgo)); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[sandbox.Kind][]string{
		"":                  {"sbx-a", "sbx-browser-b", "sbx-c"},
		sandbox.KindSandbox: {"sbx-a"},
		sandbox.KindPool:    {"sbx-c"},
		sandbox.KindBrowser: {"sbx-browser-b"},
	} {
		records, problems, err := s.List(kind)
		var got []string
		for _, r := range records {
			got = append(got, r.Name)
		}
		if err != nil || len(problems) > 0 || !cmp.Equal(got, want) {
			t.Errorf("kind %q: %v, %v, %v; want %v", kind, got, problems, err, want)
		}
	}
	if _, err := os.Lstat(old); !errors.Is(err, os.ErrNotExist) {
		t.Error("an old temporary file was left")
	}
	if _, err := os.Lstat(young); err != nil {
		t.Error("a temporary file in use was removed")
	}
}

func TestRefusesNamesAndKinds(t *testing.T) {
	s := open(t)
	for _, r := range []Record{{Name: "../x", Kind: sandbox.KindSandbox}, {Name: "", Kind: sandbox.KindSandbox}, {Name: "a", Kind: "odd"}} {
		if err := s.Put(r); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("Put %+v: %v", r, err)
		}
		if err := s.Delete(r.Kind, r.Name); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("Delete %+v: %v", r, err)
		}
	}
}

// TestLook holds that a record is looked at without its Spec, and is the same
// otherwise.
func TestLook(t *testing.T) {
	s := open(t)
	r := record("sbx-a")
	r.Spec = &sandbox.Spec{Name: "sbx-a"}
	put(t, s, r)
	whole, err := s.Get(sandbox.KindSandbox, "sbx-a")
	if err != nil || whole.Spec == nil {
		t.Fatalf("%+v, %v", whole, err)
	}
	got, err := s.Look(sandbox.KindSandbox, "sbx-a")
	if whole.Spec = nil; err != nil || got != whole {
		t.Errorf("%+v, %v; want %+v", got, err, whole)
	}
	if _, err := s.Look(sandbox.KindSandbox, "sbx-b"); !sandbox.IsNotFound(err) {
		t.Errorf("of none: %v", err)
	}
}

func TestStaleSpecIsNil(t *testing.T) {
	s := open(t)
	r := record("sbx-a")
	r.Spec = &sandbox.Spec{Name: "sbx-a"}
	put(t, s, r)
	if err := os.WriteFile(s.specPath("sbx-a"), []byte(`{"name":"sbx-evil"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(sandbox.KindSandbox, "sbx-a"); err != nil || got.Spec != nil {
		t.Errorf("%+v, %v", got.Spec, err)
	}
}

func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lack(t, "root", "mounting needs it")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=0700"); err != nil {
		testenv.Lack(t, "mount", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, record("sbx-a"))
	_ = os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600)
	for what, err := range map[string]error{
		"Put":   s.Put(record("sbx-b")),
		"Touch": s.Touch(sandbox.KindSandbox, "sbx-a", epoch.Add(time.Hour)),
	} {
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeUnavailable || !strings.Contains(e.Hint, "full") {
			t.Errorf("%s on a full disk: %v", what, err)
		}
	}
	if got, err := s.Get(sandbox.KindSandbox, "sbx-a"); err != nil || !got.LastUsedAt.Equal(epoch) {
		t.Errorf("the record suffered: %+v, %v", got, err)
	}
}

func FuzzDecode(f *testing.F) {
	valid, _ := encode(file{Format: Format, Record: record("sbx-a")})
	f.Add(valid)
	f.Add([]byte(`{"format":1,"name":"sbx-a","kind":"sandbox"}`))
	f.Add([]byte(`{"format":9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decode(data, "sbx-a", sandbox.KindSandbox)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
				t.Fatalf("error %v is neither", err)
			}
			return
		}
		if got.Name != "sbx-a" || got.Format != Format {
			t.Fatalf("accepted %+v", got)
		}
	})
}
