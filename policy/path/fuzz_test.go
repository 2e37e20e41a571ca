package path_test

import (
	gopath "path"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// known reports whether d is one of the three verdicts, explained.
func known(d path.Decision) bool {
	return d.Verdict == allow || (d.Verdict == ask || d.Verdict == deny) && d.Message != "" && d.Rule != "" && d.Severity != 0
}

// FuzzJudge holds that every path gets an explained verdict, and that ways of
// spelling a path that lead to the same place get the same one.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{"/work/a", "/home/u/.ssh/id", "/proc/self/root/etc/shadow", "/dev/fd/3", "/var/run/../etc/shadow", "/private/tmp/x", "/.\u017fsh", "//", "/proc/net/../root"} {
		f.Add(s)
	}
	plain := compiled(f, path.Options{DenyRead: []string{"**/.private", "/work/x"}})
	folds := compiled(f, path.Options{DenyRead: []string{"**/.private", "/work/x"}, FoldCase: true, Strict: true})
	temp := compiled(f, path.Options{TempOnly: true, TempPrefixes: []string{"/tmp/ours"}})
	for _, s := range []string{"/tmp/ours/../x", "/tmp/ours", "/private/tmp/oursx", "/var/tmp/x", "/tmp/./ours//x", "/home/u/.gitconfig", "/work/.git/config", "/work/.docker/config.json", "/work/.idea/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if d := temp.Judge(write, name); strings.HasPrefix(gopath.Clean(name), "/tmp/") && d.Verdict == allow && !strings.HasPrefix(gopath.Clean(name)+"/", "/tmp/ours/") {
			t.Errorf("%q may be written", name)
		}
		for _, p := range []*path.Policy{plain, folds, temp} {
			for _, d := range []path.Decision{p.Judge(read, name), p.Judge(write, name), p.JudgeTree(read, name), p.JudgeTree(write, name), p.JudgeGlob(read, name), p.JudgeGlob(write, name)} {
				if !known(d) {
					t.Fatalf("%q: %+v", name, d)
				}
			}
			if !strings.HasPrefix(name, "/") || len(name) > 4000 {
				continue
			}
			want := p.Judge(write, name).Verdict
			for _, other := range []string{"/" + name, "/proc/self/root" + name, "/." + name, "/x/.." + name} {
				if got := p.Judge(write, other).Verdict; got != want {
					t.Errorf("%q: %s, and %q: %s", name, want, other, got)
				}
			}
			if p.JudgeTree(write, name).Verdict == allow && want != allow {
				t.Errorf("%q: the tree is allowed, itself it is not", name)
			}
		}
	})
}

// FuzzJudgeGlob holds that a glob which matches a file that is denied at its
// place is never allowed.
func FuzzJudgeGlob(f *testing.F) {
	for _, s := range []string{"/etc/sha*", "/e?c/[r-t]hadow", "/*/*", "/etc/[!a]hadow", "/home/*/.[r-t]sh/*", "/var/r?n/docker.sock", "/proc/*/mem", `/etc/s\*`, "/work/**/x", "/*/.*/x"} {
		f.Add(s)
	}
	p := compiled(f, path.Options{WorkRoots: []string{"/"}})
	targets := []string{"/etc/shadow", "/home/u/.ssh/id_rsa", "/root/.ssh/x", "/run/docker.sock", "/var/run/docker.sock", "/proc/self/mem", "/proc/1/mem", "/etc/sudoers.d/x", "/home/u/.bashrc"}
	f.Fuzz(func(t *testing.T, glob string) {
		d := p.JudgeGlob(write, glob)
		if !known(d) {
			t.Fatalf("%q: %+v", glob, d)
		}
		for _, target := range targets {
			if ok, err := gopath.Match(glob, target); err == nil && ok && d.Verdict == allow && asBash(glob, target) {
				t.Errorf("%q matches %q and is allowed", glob, target)
			}
		}
	})
}

// asBash reports whether bash reads the glob as path.Match does: each dot at
// the start of a name is written, and classes are plain.
func asBash(glob, target string) bool {
	if strings.ContainsAny(glob, `\`) || strings.Contains(glob, "[]") || strings.Contains(glob, "[^]") {
		return false
	}
	names, patterns := strings.Split(target, "/"), strings.Split(glob, "/")
	return len(names) == len(patterns) && !slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, ".") && !strings.HasPrefix(patterns[slices.Index(names, name)], ".")
	})
}

func BenchmarkJudge(b *testing.B) {
	p := compiled(b, path.Options{
		ReadRoots: []string{"/usr", "/lib"},
		DenyRead:  []string{"~/.ssh", "~/.aws", "~/.gnupg", "~/.config/gcloud", "~/.azure", "~/.kube", "~/.docker", "/etc/shadow", "**/.env", "**/.env.*", "**/.envrc", "**/credentials.json", "**/secrets.json"},
	})
	for _, bb := range []struct {
		name, path string
		want       policy.Verdict
	}{
		{"allowed", "/work/internal/server/handler/handler_test.go", allow},
		{"deep", "/work/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s.go", allow},
		{"denied", "/home/u/.ssh/id_rsa", deny},
		{"respelled", "/proc/self/root/work/../home/u/./.bashrc", deny},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d := p.Judge(write, bb.path); d.Verdict != bb.want {
					b.Fatal(d)
				}
			}
		})
	}
}

func BenchmarkJudgeGlob(b *testing.B) {
	p := compiled(b, path.Options{})
	for name, glob := range map[string]string{"files": "/work/src/*.go", "keys": "/home/u/.ss*", "wild": "/*/*/*"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p.JudgeGlob(read, glob)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		compiled(b, path.Options{})
	}
}
