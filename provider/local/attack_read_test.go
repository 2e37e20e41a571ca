//go:build linux

package local_test

import (
	"os"
)

// await has a script wait until the host has done its part.
const await = `echo ready; for i in $(seq 2000); do test -e go && break; sleep 0.005; done; `

func groups() []group {
	return []group{readGroup(), writeGroup(), laterGroup(), mountGroup(), processGroup(), socketGroup(), kernelGroup(), homeGroup(), gitGroup(), worktreeGroup(), linkGroup(), listedGroup(), wideGroup(), grantGroup(), permissiveGroup()}
}

func (s *fixture) must(err error) { s.Helper(); must(s, err) }

// readGroup tries to read what is closed.
func readGroup() group {
	return group{name: "read", attempts: []attempt{
		{name: "read-absolute", script: `for f in $DENIED; do cat "$f"; head -c 100 <"$f"; done`},
		{name: "read-dotdot", script: `cat $WS/sub/../secret.txt $WS/vault/../vault/inner/../inner/key /usr/..$WS/.env $READ/../read/.env ../../../../../../$AGENT/secret.txt`},
		{name: "read-newline", script: `cat *line/.env; cat "$(printf 'new\nline')/.env"`},
		{name: "read-outside-dotdot", script: `cat $WS/../outside/file $AGENT/../outside/file $READ/../outside/file $WRITE/../home/.ssh/id`},
		{name: "read-symlink-before", before: func(s *fixture) {
			for name, to := range map[string]string{"l1": "secret.txt", "l2": s.agent + "/secret.txt", "l3": s.outside + "/file", "l4": s.home, "l5": "vault", "l6": s.read + "/private"} {
				_ = os.Remove(s.agent + "/" + name)
				s.must(os.Symlink(to, s.agent+"/"+name))
			}
		}, script: `cat l1 l2 l3 l4/.ssh/id l5/inner/key l6/key`},
		{name: "read-symlink-during", script: `ln -s secret.txt m1; ln -s $AGENT/secret.txt m2; ln -s vault m3; ln -s $OUT m4; ln -s m3 m5; ln -s /proc/self/cwd/secret.txt m6; cat m1 m2 m3/inner/key m4/file m5/inner/key m6`},
		{name: "read-symlink-from-elsewhere", script: `ln -s $AGENT/secret.txt $WRITE/s; ln -s $READ/private $WRITE/t; cat $WRITE/s $WRITE/t/key`},
		{name: "read-hard-link-before", before: func(s *fixture) {
			for name, of := range map[string]string{s.agent + "/planted1": s.agent + "/secret.txt", s.agent + "/planted2": s.home + "/.ssh/id", s.write + "/planted3": s.read + "/private/key", s.agent + "/sub/planted4": s.agent + "/sub/.env"} {
				if _, err := os.Lstat(name); err != nil {
					s.must(os.Link(of, name))
				}
			}
		}, script: `cat planted1 planted2 $WRITE/planted3 sub/planted4 $AGENT/planted1`},
		{name: "read-hard-link-during", script: `ln secret.txt h1; ln $AGENT/secret.txt h2; ln sub/.env sub/h3; ln vault/inner/key h4; ln $WRITE/private/key $WRITE/h5; cp -l secret.txt h6; cat h1 h2 sub/h3 h4 $WRITE/h5 h6`},
		{name: "read-link-descriptor", script: `$TOOL attempt link-descriptor secret.txt h7; $TOOL attempt link-descriptor vault/inner/key h8; cat h7 h8`},
		{name: "read-rename-parent", script: `mv vault/inner vault/i2; cat vault/i2/key; mv vault v2; cat v2/inner/key`},
		{name: "read-rename-parent-other-view", script: `mv $AGENT/vault $AGENT/v2; cat v2/inner/key; mv $AGENT/sub $AGENT/s2; cat s2/.env; mv $WRITE/deep $WRITE/d2; cat $WRITE/d2/er/.env`},
		{name: "read-rename-root", script: `mv $AGENT $AGENT.x; cat $AGENT.x/secret.txt; cd /; mv $WS /w2; mv $WRITE $WRITE.x; cat /w2/secret.txt $WRITE.x/private/key`},
		{name: "read-exchange", script: `mkdir -p e/inner; $TOOL attempt exchange vault e; cat e/inner/key; $TOOL attempt exchange secret.txt readme; cat readme; $TOOL attempt exchange sub shared; cat shared/.env`},
		{name: "read-proc-self-root", script: `cat /proc/self/root$WS/secret.txt /proc/self/root$AGENT/secret.txt /proc/self/root$OUT/file /proc/thread-self/root$HOMEDIR/.ssh/id`},
		{name: "read-proc-1-root", script: `for p in 1 $PPID $$; do cat /proc/$p/root$WS/secret.txt /proc/$p/root$AGENT/secret.txt /proc/$p/root$OUT/file; done`},
		{name: "read-proc-cwd", script: `for p in /proc/[0-9]* /proc/self; do cat $p/cwd/secret.txt $p/cwd/../outside/file $p/cwd/.env $p/cwd/sub/.env; done`},
		{name: "read-proc-task", script: `cat /proc/self/task/*/root$AGENT/secret.txt /proc/self/task/*/cwd/secret.txt`},
		{name: "read-dev-fd", script: `exec 3<secret.txt; cat /dev/fd/3 <&3; exec 4<vault; cat /dev/fd/4/inner/key; exec 5</; cat /proc/self/fd/5/$OUT/file; cat /dev/stdin <.env`},
		{name: "read-o-path", script: `$TOOL attempt each reopen secret.txt vault/inner/key $READ/private/key .env`},
		{name: "read-openat2", script: `$TOOL attempt each openat2 secret.txt .env $WRITE/private/key`},
		{name: "read-sendfile", script: `$TOOL attempt sendfile secret.txt; $TOOL attempt splice .env; $TOOL attempt copy-range vault/inner/key c1; cat c1`},
		{name: "read-map", script: `$TOOL attempt each map secret.txt $READ/private/key`},
		{name: "read-tools", script: `cp secret.txt t1; dd if=.env of=t2 status=none; tar cf - vault sub | cat; install -m 644 secret.txt t3; . ./secret.txt; bash secret.txt; sed p .env; git hash-object -w secret.txt; git diff --no-index readme secret.txt; grep -r TOKEN . $READ $WRITE; find . -name .env -exec cat {} +; cat t1 t2 t3`},
		{name: "read-closed-for-writing", script: `cat frozen/.env deploy/.env $AGENT/frozen/.env $WRITE/deploy/sub/.env; ln -s deploy lw; cat lw/.env; mv deploy d2; cat d2/.env; mv $WRITE/deploy/sub $WRITE/d3; cat $WRITE/d3/.env; grep -r TOKEN frozen deploy $WRITE/deploy`},
		{name: "read-hard-link-closed-for-writing", before: func(s *fixture) {
			for name, of := range map[string]string{s.agent + "/frozen/planted9": s.agent + "/secret.txt", s.agent + "/deploy/planted10": s.agent + "/vault/inner/key"} {
				if _, err := os.Lstat(name); err != nil {
					s.must(os.Link(of, name))
				}
			}
		}, script: `cat frozen/planted9 deploy/planted10`},
		{name: "read-chmod", script: `chmod -R 777 secret.txt vault sub .env $READ/private $WRITE/private; chown -R $(id -u) vault secret.txt; setfacl -m u:$(id -u):rwx secret.txt; cat secret.txt vault/inner/key .env $WRITE/private/key`},
		{name: "read-listing", script: `ls -laR $READ/private; echo $READ/private/*; find $READ; ls -i $READ/private; tar cf - $READ/private`},
		{name: "read-io-uring", script: `$TOOL attempt uring-read secret.txt`},
		{name: "read-handles", script: `$TOOL attempt handle secret.txt; $TOOL attempt handle readme secret.txt; $TOOL attempt handle $WRITE/note private/key`, control: asRoot},
		{name: "read-case", script: `for f in .ENV .Env SECRET.TXT Secret.txt VAULT/inner/key; do cat "$f"; done; cat .env`, control: inOpenSandbox},
		{name: "read-unicode", script: `cat caf*/.env; cat $'cafe\u0301/.env' $'caf\u00e9/.env'; cat $'.e\u200bnv' '.env ' './.env/.' .//.env`},
		{name: "read-by-another-program", script: `$TOOL attempt each reopen $DENIED; for f in $DENIED; do /.sandbox/bin/sandbox-guest probe canary $f 2>&1; perl -e 'open F,"<",$ARGV[0];print <F>' $f; done`},
	}}
}
