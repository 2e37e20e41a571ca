package path_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

func TestJudgeGlob(t *testing.T) {
	p := compiled(t, path.Options{
		WorkRoots: []string{"/work", "/home/u"}, DenyRead: []string{"**/.private", "/work/closed", "/work/k*.bin"}, DenyWrite: []string{"/work/fixed"},
	})
	tests := []struct {
		pattern     string
		read, write policy.Verdict
	}{
		{"/work/*", ask, ask}, // there is room for "closed", whose place is known
		{"/work/src/*", allow, allow},
		{"/work/src/*.go", allow, allow},
		{"/work/src/*.json", allow, allow},
		{"/work/src/**/x", allow, allow},
		{"/work/src/?ain.go", allow, allow},
		{"/work/src/[a-m]*", allow, allow},
		{"/work/src/c*", allow, allow},
		{"/work/src/cred*.json", ask, ask},
		{"/work/src/s?crets.json", ask, ask},
		{"/work/src/*redentials.json", ask, ask},
		{"/work/src/.e*", ask, ask},
		{"/work/src/.[e]nv", ask, ask},
		{"/work/src/.??v", ask, ask},
		{"/work/src/.*", deny, deny}, // may be .private
		{"/work/src/.g*", ask, deny},
		{"/work/src/@(.env)", deny, deny},
		{"/work/src/*.pem", ask, ask},
		{"/work/src/id_rs?", ask, ask},
		{"/work/src/.git/*", ask, ask},
		{"/work/src/.git/h*", allow, ask},
		{"/work/src/.git/hook?", allow, deny},
		{"/work/src/.git/hooks/*", allow, deny},
		{"/work/.priv*", deny, deny},
		{"/work/c*d", ask, ask},
		{"/work/clo*d", deny, deny},
		{"/work/k?.bin", deny, deny},
		{"/work/fix*", allow, deny},
		{"/home/u/.ss*", ask, deny},
		{"/home/u/.ssh/*", ask, deny},
		{"/home/*/.ssh/id*", ask, deny},
		{"/*/*/.ssh/id_rsa", ask, deny},
		{"/home/u/*", allow, allow},
		{"/home/u/.config/gcl*/x", ask, deny},
		{"/etc/sha?ow", deny, deny},
		{"/etc/shado[w]", deny, deny},
		{"/etc/shado[!a]", deny, deny},
		{"/e*/shadow", ask, ask},
		{"/etc/*", ask, ask},
		{"/etc/*.conf", allow, ask},
		{"/usr/share/*", allow, ask},
		{"/v?r/run/docker.sock", deny, deny},
		{"/var/ru[n]/docker.sock", deny, deny},
		{"/work/src/.*/.*/etc/shadow", deny, deny},
		{"/work/src/*/../../../etc/shadow", deny, deny},
		{"/var/r*n/../etc/shadow", deny, deny},
		{"/proc/sel?/root/etc/hostname", deny, deny},
		{"/p*/self/root/etc/hostname", deny, deny},
		{"/proc/self/ro?t/etc/hostname", deny, deny},
		{"/proc/[0-9]*/environ", ask, deny},
		{"/proc/[0-9]*/status", allow, ask},
		{"/proc/*/cwd/*", deny, deny},
		{"/dev/fd/*", allow, ask},
		{"/dev/fd/3/*", deny, deny},
		{"/dev/sd?", ask, deny},
		{"/tmp/build-*", allow, allow},
		{"/work/a\\*b", allow, allow},
		{"/work/.en\\*", allow, allow},
		{"/work/.env", ask, ask},
		{"work/*", deny, deny},
		{"/work/\x00*", deny, deny},
	}
	for _, tt := range tests {
		r, w := p.JudgeGlob(read, tt.pattern), p.JudgeGlob(write, tt.pattern)
		if r.Verdict != tt.read || w.Verdict != tt.write {
			t.Errorf("%s: read %s (%s), write %s (%s); want %s, %s", tt.pattern, r.Verdict, r.Rule, w.Verdict, w.Rule, tt.read, tt.write)
		}
	}
}

func TestJudgeTree(t *testing.T) {
	p := compiled(t, path.Options{WorkRoots: []string{"/", "/work"}, DenyRead: []string{"/work/a/closed", "**/.private"}, DenyWrite: []string{"/work/b/fixed"}})
	tests := []struct {
		path        string
		read, write policy.Verdict
	}{
		{"/work/src", allow, allow},
		{"/work", deny, deny},
		{"/work/a", deny, deny},
		{"/work/b", allow, deny},
		{"/work/a/closed/x", deny, deny},
		{"/work/ab", allow, allow},
		{"/home/u", ask, deny},
		{"/home/u/.config", ask, deny},
		{"/home/u/src", allow, allow},
		{"/home", ask, deny},
		{"/root", ask, deny},
		{"/etc", deny, deny},
		{"/etc/ssl", ask, deny},
		{"/", deny, deny},
		{"/usr", allow, deny},
		{"/usr/share/doc", allow, allow},
		{"relative", deny, deny},
	}
	for _, tt := range tests {
		r, w := p.JudgeTree(read, tt.path), p.JudgeTree(write, tt.path)
		if r.Verdict != tt.read || w.Verdict != tt.write {
			t.Errorf("%s: read %s (%s), write %s (%s); want %s, %s", tt.path, r.Verdict, r.Message, w.Verdict, w.Message, tt.read, tt.write)
		}
	}
}
