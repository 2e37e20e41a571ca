package manager

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestReportedChanges(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	old := time.Now().Add(-time.Hour)
	if err := errors.Join(os.MkdirAll(at("sub/deep"), 0o755), os.WriteFile(at("same"), []byte("a"), 0o644), os.WriteFile(at("content"), []byte("a"), 0o644),
		os.WriteFile(at("mode"), nil, 0o644), os.WriteFile(at("sub/gone"), nil, 0o644), os.WriteFile(at("became"), nil, 0o644),
		os.Chtimes(at("content"), old, old), os.Symlink("/etc", at("link"))); err != nil {
		t.Fatal(err)
	}
	before := seenIn(t.Context(), dir)
	// The content has as many bytes as before, and its time is set back.
	if err := errors.Join(os.WriteFile(at("content"), []byte("b"), 0o644), os.Chtimes(at("content"), old, old), os.Chmod(at("mode"), 0o600), os.Remove(at("sub/gone")),
		os.WriteFile(at("sub/deep/new"), nil, 0o644), os.Remove(at("became")), os.Symlink("same", at("became"))); err != nil {
		t.Fatal(err)
	}
	got, more := before.compare(seenIn(t.Context(), dir))
	want := []FileChange{{"became", "changed"}, {"content", "changed"}, {"mode", "changed"}, {"sub/deep/new", "added"}, {"sub/gone", "removed"}}
	if more != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v and %d more, want %v", got, more, want)
	}
	if s := seenIn(t.Context(), at("none")); s.why == "" {
		t.Error("a folder that is not there is known")
	}
}

func TestCheckServices(t *testing.T) {
	ok := []Service{{Name: "db", Port: 1}, {Name: "web-2", Port: 2}}
	if err := checkServices(ok); err != nil {
		t.Error(err)
	}
	for name, list := range map[string][]Service{
		"empty": {{}}, "upper": {{Name: "DB"}}, "dot": {{Name: "a.b"}}, "dash": {{Name: "-a"}}, "number": {{Name: "127"}}, "localhost": {{Name: "localhost"}},
		"line": {{Name: "a\nb"}}, "twice": {{Name: "a"}, {Name: "a"}}, "port": {{Name: "a", Port: 70000}}, "variable": {{Name: "a", Env: map[string]string{"A=B": ""}}},
		"many": make([]Service, maxServices+1),
	} {
		if checkServices(list) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for s, want := range map[string]string{"a service db": "a", "a": "", "a  service": ""} {
		if got := besideOf(s); got != want {
			t.Errorf("besideOf(%q) = %q", s, got)
		}
	}
}
