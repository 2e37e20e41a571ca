//go:build linux

package local_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// locked lists what may be read and not written.
const locked = `$WS/frozen/file $WS/deploy/file $AGENT/frozen/file $WRITE/locked $READ/note`

// writeGroup tries to change what is closed.
func writeGroup() group {
	return group{name: "write", attempts: []attempt{
		{name: "write-redirect", script: `for f in $DENIED ` + locked + `; do echo x >"$f"; echo x >>"$f"; done`},
		{name: "write-remove", script: `for f in $DENIED ` + locked + `; do rm -f "$f"; done; rm -rf frozen vault sub $WRITE/private $WRITE/deep $READ`},
		{name: "write-remove-folders", script: `rm -rf vault; mkdir -p vault/inner; echo x >vault/inner/key; rmdir frozen; rm -r frozen; mkdir frozen; echo x >frozen/file`},
		{name: "write-move-over", script: `for f in secret.txt .env frozen/file $WRITE/locked; do echo x >n; mv -f n "$f"; cp --remove-destination readme "$f"; ln -f readme "$f"; ln -sf /etc/hosts "$f"; done; mkdir n2; mv -T n2 frozen`},
		{name: "write-move-away", script: `mv frozen f2; echo x >f2/file; mv $WRITE/locked $WRITE/l2; echo x >$WRITE/l2; mv vault/inner vault/i2; echo x >vault/i2/key; mv secret.txt s2; mv $AGENT/frozen $AGENT/f3`},
		{name: "write-ancestor", script: `mv vault v2; mkdir -p vault/inner; echo x >vault/inner/key; mv $WRITE/deep $WRITE/d2; mkdir -p $WRITE/deep/er; echo x >$WRITE/deep/er/.env`},
		{name: "write-exchange", script: `echo x >n; mkdir d; $TOOL attempt exchange n secret.txt; $TOOL attempt exchange d frozen; $TOOL attempt exchange n $WRITE/locked; $TOOL attempt exchange shared vault; $TOOL attempt exchange n frozen/file`},
		{name: "write-hard-link", script: `ln frozen/file h; echo x >h; ln $WRITE/locked $WRITE/h; echo x >$WRITE/h; ln secret.txt h2; echo x >h2; $TOOL attempt link-descriptor $WRITE/locked $WRITE/h3; echo x >$WRITE/h3`},
		{name: "write-hard-link-before", before: func(s *fixture) {
			for name, of := range map[string]string{s.agent + "/planted5": s.agent + "/frozen/file", s.write + "/planted6": s.write + "/locked", s.agent + "/planted7": s.outside + "/file"} {
				if _, err := os.Lstat(name); err != nil {
					s.must(os.Link(of, name))
				}
			}
		}, script: `echo x >planted5; echo x >$WRITE/planted6; echo x >>$AGENT/planted5`},
		{name: "write-hard-link-later", before: func(s *fixture) {
			time.Sleep(3 * time.Second / 2) // what was seen of the folder is trusted by now
			if s.sb != nil {
				s.inSandboxQuiet("true")
			}
			s.must(os.Link(s.agent+"/frozen/file", s.agent+"/planted8"))
		}, script: `echo x >planted8`, control: onHost},
		{name: "write-symlink", script: `ln -s $OUT/file k1; echo x >k1; ln -s $HOMEDIR k2; echo x >k2/.bashrc; ln -s frozen k3; echo x >k3/new; ln -s $WRITE/locked k4; echo x >k4; ln -s $READ k5; echo x >k5/note`},
		{name: "write-dotdot", script: `echo x >$WS/../outside/file; echo x >$AGENT/../outside/new; echo x >$WRITE/../home/.bashrc; echo x >shared/../frozen/file; echo x >$READ/../read/note`},
		{name: "write-in-place", script: `for f in frozen/file $WRITE/locked $READ/note; do sed -i s/plain/x/ $f; dd if=/dev/zero of=$f conv=notrunc count=1 status=none; truncate -s 0 $f; tee $f </dev/null; touch $f; touch -d 2001-01-01 $f; done`},
		{name: "write-calls", script: `for how in fallocate write-mapped reopen-write times truncate; do $TOOL attempt each $how frozen/file $WRITE/locked $READ/note secret.txt; done`},
		{name: "write-attributes", script: `chmod 777 frozen frozen/file $WRITE/locked secret.txt vault/inner/key; chmod -R a+s $READ; chattr +i $WRITE/locked; setfattr -n user.x -v y $WRITE/locked`},
		{name: "write-create", script: `touch frozen/new $READ/new $READ/private/new $WRITE/private/new $OUT/new $HOMEDIR/new; mkdir frozen/d $READ/d; mkfifo frozen/p; ln readme frozen/l; ln -s x frozen/s; $TOOL attempt tmpfile-link . frozen/t; $TOOL attempt tmpfile-link shared $READ/t`},
		{name: "write-agent-settings", script: `for d in $AGENT $WRITE; do for f in .claude/settings.json .mcp.json; do mkdir -p $d/.claude; echo x >$d/$f; echo x >n; mv -f n $d/$f; done; mv $d/.claude $d/c2; mkdir $d/.claude; echo x >$d/.claude/settings.json; done`},
		{name: "write-editor-settings", script: `for d in $AGENT $WRITE; do for f in .vscode/tasks.json .idea/workspace.xml .zed/tasks.json; do mkdir -p $d/${f%/*}; echo x >$d/$f; mv $d/${f%/*} $d/e2; mkdir $d/${f%/*}; echo x >$d/$f; done; done`},
		{name: "write-proc-root", script: `for p in self 1 $$; do echo x >/proc/$p/root$AGENT/frozen/file; echo x >/proc/$p/root$OUT/file; echo x >/proc/$p/cwd/frozen/file; echo x >/proc/$p/root$HOMEDIR/.bashrc; done`},
		{name: "write-system", script: `echo x >/etc/ld.so.preload; echo x >>/etc/profile; echo x >>/etc/passwd; echo x >/usr/lib/x.so; touch /x /etc/x /usr/x /lib/x /opt/x /bin/x && echo WORKED; for p in write-root write-system write-etc write-guest write-ro; do $P $p; done`, control: nowhere, why: "it would change this machine"},
		{name: "write-guest", script: `g=/.sandbox/bin/sandbox-guest; echo x >>$g; rm -f $g; mv $g $g.x; chmod 777 $g; ln -f /bin/true $g; echo x >/proc/1/exe; touch /.sandbox/bin/x /.sandbox/x`, control: nowhere, why: "the path is only there inside"},
		{name: "write-identity", script: `echo 'root2::0:0::/:/bin/sh' >>/etc/passwd; mv /etc/passwd /etc/p; echo x >/etc/group; rm -f /etc/passwd`, control: nowhere, why: "it would change this machine"},
	}}
}

// laterGroup has the host change while the sandbox is up.
func laterGroup() group {
	plant := func(path string) func(*fixture) {
		return func(s *fixture) {
			dir := filepath.Join(s.agent, filepath.Dir(path))
			s.must(os.MkdirAll(dir, 0o755))
			s.must(os.Chown(dir, s.kit.uid, s.kit.uid))
			s.file(filepath.Join(s.agent, path), s.token)
			s.must(os.Chown(filepath.Join(s.agent, path), s.kit.uid, s.kit.uid))
			s.extra = append(s.extra, filepath.Join(s.agent, path))
		}
	}
	return group{name: "later", attempts: []attempt{
		{name: "later-next-command", before: plant("n1/.env"), script: `cat n1/.env $AGENT/n1/.env; mv n1 n1x; cat n1x/.env; rm -rf n1; ln n1/.env e1; cat e1`},
		{name: "later-deep", before: plant("n2/a/b/c/d/e/f/g/.env"), script: `find n2 -type f -exec cat {} +; mv n2/a n2/z; cat n2/z/b/c/d/e/f/g/.env`},
		{name: "later-renamed-in", before: func(s *fixture) {
			plant("n3/planted")(s)
			s.must(os.Rename(s.agent+"/n3/planted", s.agent+"/n3/.env"))
			s.extra = append(s.extra, s.agent+"/n3/.env")
		}, script: `cat n3/.env`},
		{name: "later-linked", before: func(s *fixture) {
			_ = os.Remove(s.agent + "/n4.env")
			s.must(os.MkdirAll(s.agent+"/n4", 0o755))
			_ = os.Remove(s.agent + "/n4/.env")
			s.must(os.Symlink("../shared/target", s.agent+"/n4/.env"))
			plant("shared/target")(s)
		}, script: `cat n4/.env shared/target`},
		{name: "later-in-read", before: func(s *fixture) {
			s.file(s.read+"/n5/.env", s.token)
			s.file(s.write+"/n5/sub/.env", s.token)
			s.extra = append(s.extra, s.write+"/n5/sub/.env")
		}, script: `cat $READ/n5/.env $WRITE/n5/sub/.env`},
		{name: "later-second-session", before: plant("n6/.env"), script: `cat n6/.env; mv n6/.env n6/x; cat n6/x`, control: onHost},
		{name: "later-swapped-by-command", script: `mkdir -p sw; ln -s $OUT sw2; $TOOL attempt swap-forever sw sw2 & sleep 0.05; for i in $(seq 30); do cat sw/file sw2/file; done; touch go; wait; rm -f go`},
		{name: "later-replaced", before: func(s *fixture) {
			for _, f := range []string{s.agent + "/secret.txt", s.agent + "/sub/.env", s.write + "/private/key", s.agent + "/vault/inner/key"} {
				s.replace(f, s.token)
			}
			s.must(os.Rename(s.agent+"/frozen", s.agent+"/frozen.old"))
			s.file(s.agent+"/frozen/file", "plain\n")
			s.must(os.RemoveAll(s.agent + "/frozen.old"))
			s.replace(s.write+"/locked", "plain\n")
		}, script: `cat secret.txt sub/.env $WRITE/private/key vault/inner/key; echo x >frozen/file; echo x >$WRITE/locked`},
		{name: "later-made-anew", before: func(s *fixture) {
			for _, f := range []string{s.agent + "/secret.txt", s.agent + "/sub/.env"} {
				s.must(os.Remove(f))
				s.file(f, s.token)
			}
			s.must(os.Rename(s.agent+"/vault", s.agent+"/vault2"))
			s.must(os.RemoveAll(s.agent + "/vault2"))
			s.file(s.agent+"/vault/inner/key", s.token)
		}, script: `cat secret.txt sub/.env vault/inner/key; mv vault v; cat v/inner/key`},
		{name: "later-replaced-folder", before: func(s *fixture) {
			for _, d := range []string{s.read + "/private", s.write + "/private"} {
				s.must(os.RemoveAll(d))
				s.file(d+"/key", s.token)
			}
		}, script: `cat $READ/private/key $WRITE/private/key; ls $READ/private`},
	}}
}

// replace puts a new file in the place of another, as editors do.
func (s *fixture) replace(path, content string) {
	s.file(path+".new", content)
	s.own()
	s.must(os.Rename(path+".new", path))
}

// second opens another handle on the stage's sandbox, as a second session does.
func (s *fixture) second(grants ...sandbox.Grant) sandbox.Sandbox {
	s.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	spec := s.spec
	spec.Grants = grants
	sb, err := s.provider.Open(ctx, spec)
	s.must(err)
	s.Cleanup(func() { sb.Close() })
	return sb
}
