//go:build linux

package local_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// tried calls the tool once for each line.
func tried(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("$TOOL attempt " + l + "\n")
	}
	return b.String()
}

// probed has the guest's own probes of the self-test made.
func probed(names ...string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteString("$P " + n + "\n")
	}
	return b.String()
}

// mountGroup tries to change the sandbox's view of files.
func mountGroup() group {
	const targets = "/tmp $WS $WS/vault $WS/secret.txt $AGENT/secret.txt $WRITE/private / /etc /proc /dev"
	each := func(what string) string { return "$TOOL attempt each " + what + " " + targets }
	return group{name: "mounts", attempts: []attempt{
		{name: "mount-bind", script: `mkdir -p mm; ` + tried("bind vault mm", "bind / mm", "bind shared vault") + `cat mm/inner/key`, control: inNamespaces},
		{name: "mount-new", script: `mkdir -p mm; ` + tried("mount tmpfs mm", "mount proc mm", "mount sysfs mm", "mount cgroup mm", "mount devtmpfs mm", "mount bpf mm", "mount mqueue mm"), control: inNamespaces},
		{name: "mount-overlay", script: `mkdir -p ov; ` + tried("overlay vault ov", "overlay $READ ov") + `cat vault/inner/key`, control: inNamespaces},
		{name: "mount-move", script: `mkdir -p mm; mount -t tmpfs x mm; mkdir mm2; ` + tried("move mm mm2", "move secret.txt readme", "move vault shared", "move /proc /tmp"), control: inNamespaces},
		{name: "mount-remount", script: each("remount") + `; mount -o remount,rw,bind $READ; mount -o remount,rw /; mount -o remount,rw,bind $WS/frozen`, control: inNamespaces},
		{name: "mount-umount", script: each("umount") + `; umount secret.txt $AGENT/secret.txt .env; cat secret.txt .env`, control: nowhere, why: "what there is to take off is only there inside"},
		{name: "mount-umount-lazy", script: each("umount-lazy") + `; umount -l secret.txt; umount -R -l $WS; umount -a; cat secret.txt`, control: nowhere, why: "what there is to take off is only there inside"},
		{name: "mount-propagation", script: each("propagate") + `; mount --make-rshared /`, control: inNamespaces},
		{name: "mount-new-api", script: tried("fsopen /tmp", "open-tree / $OUT/file", "open-tree $WS secret.txt", "open-tree $WS/vault inner/key", "mount-attr $READ", "mount-attr /"), control: inNamespaces},
		{name: "mount-root", script: tried("pivot-root .", "chroot .", "chroot $WS/vault") + `chroot . true && echo WORKED; unshare -R . true && echo WORKED`, control: inNamespaces},
		{name: "mount-tools", script: `mount -t tmpfs x /tmp && echo WORKED; fusermount -u $WS && echo WORKED; fusermount3 -uz $WS && echo WORKED; bwrap --bind / / true && echo WORKED; bwrap --dev-bind / / umount secret.txt && echo WORKED; nsenter -t 1 -m true && echo WORKED`, control: onHost},
		{name: "mount-probes", script: probed("mount", "mount-api", "remount", "umount", "chroot", "handles"), control: inNamespaces},
		{name: "namespace-unshare", script: tried("unshare user", "unshare mount", "unshare user+mount", "unshare pid", "unshare net", "unshare time", "unshare cgroup"), control: onHost},
		{name: "namespace-clone", script: tried("clone user", "clone user+mount", "clone mount", "clone net", "clone pid"), control: onHost},
		{name: "namespace-clone3", script: tried("clone3 user", "clone3 user+mount", "clone3 mount", "clone3 time"), control: onHost},
		{name: "namespace-unshare-tool", script: `unshare -Urm bash -c 'echo WORKED; umount -l secret.txt; cat secret.txt; mount --bind / mnt'; unshare -U true && echo WORKED`, control: onHost},
		{name: "namespace-nested", script: tried("nested-mount $WS/secret.txt $AGENT/secret.txt"), control: inNamespaces},
		{name: "namespace-setns", script: tried("setns"), control: asRoot},
		{name: "namespace-probes", script: probed("unshare-user", "unshare-others", "clone-user", "setns"), control: onHost},
	}}
}

// kernelGroup tries what opens much of the kernel, or is root's.
func kernelGroup() group {
	return group{name: "kernel", attempts: []attempt{
		{name: "kernel-calls", script: probed("io-uring", "keyring", "bpf", "perf", "userfaultfd"), control: onHost},
		{name: "kernel-root-calls", script: probed("modules", "kexec", "admin-calls", "kernel-log"), control: nowhere, why: "it would change this machine"},
		{name: "kernel-foreign-abi", script: probed("foreign-abi"), control: nowhere, why: "kernels may have it switched off"},
		{name: "kernel-personality", script: tried("personality"), control: onHost},
		{name: "kernel-lease", script: tried("lease readme", "lease $WS/frozen/file"), control: onHost},
		{name: "kernel-knobs", script: probed("sysrq", "core-pattern", "proc-sys", "sys-writes"), control: asRoot},
		{name: "kernel-secrets", script: probed("proc-secrets"), control: asRoot},
		{name: "kernel-cgroup", script: probed("cgroup") + `for d in /sys/fs/cgroup /sys/fs/cgroup/*; do echo 1 >$d/notify_on_release && echo WORKED; mkdir $d/attack && echo WORKED; test -w $d/release_agent && echo WORKED; done`, control: nowhere, why: "it would change this machine"},
		{name: "kernel-devices", script: probed("open-devices", "dev-listing"), control: asRoot},
		{name: "kernel-mknod", script: probed("mknod") + tried("mknod n1", "mknod /tmp/n1", "mknod /dev/n1"), control: asRoot},
		{name: "kernel-loop", script: `losetup -f readme && echo WORKED; for d in /dev/loop-control /dev/loop0 /dev/fuse /dev/kvm /dev/mem /dev/kmsg /dev/vda /dev/sda; do test -e $d && echo WORKED $d; done`, control: onHost},
		{name: "privilege-set-uid", script: probed("set-uid-copy", "root-tools", "become-root", "capabilities", "no-new-privs", "identity", "effective-id"), control: asRoot},
		{name: "privilege-set-uid-programs", script: probed("set-uid"), control: nowhere, why: "it looks through all files of this machine"},
		{name: "privilege-set-id-bits", script: probed("set-id-bits") + `cd "$WS"; cp /bin/true s1; chmod u+s s1; chmod 2755 s1; install -m 4755 /bin/true s2; cp /bin/true s3; python3 -c 'import os; os.chmod("s3", 0o6755)'; mkdir -m 6755 s4; mkfifo -m 4600 s5; find . -maxdepth 1 -name 's[1-5]' -perm /6000 | grep -q . && echo WORKED`, control: onHost},
		{name: "privilege-programs", script: `for c in "su -c id" "sudo -n id" "mount" "newuidmap 1 0 0 1" "newgidmap 1 0 0 1" "passwd -S" "chsh -s /bin/sh" "pkexec id"; do $c </dev/null 2>&1 | grep -q uid=0 && echo WORKED; done; grep -q 'NoNewPrivs:.1' /proc/self/status || echo WORKED; grep -q 'CapBnd:.0000000000000000' /proc/self/status || echo WORKED bounding; grep -q 'CapEff:.0000000000000000' /proc/self/status || echo WORKED effective`},
		{name: "privilege-file-capability", before: capableFile, script: `test -e capable || echo WORKED none; cp capable c2; for c in ./capable ./c2; do $c -c 'while read a b; do test "$a" = CapEff: && echo $b; done </proc/$$/status' | grep -qv 0000000000000000 && echo WORKED; done`, control: withRoot},
		{name: "leak-environment", before: func(s *fixture) { s.must(os.Setenv("SANDBOX_ATTACK_SECRET", s.token)) }, script: `env; set; cat /proc/self/environ /proc/1/environ /proc/$PPID/environ | tr '\0' '\n'`, control: nowhere, why: "whatever a process hands over is there"},
		{name: "leak-probes", script: probed("environment", "engine-socket", "other-sockets", "foreign-memory", "hostname", "host-processes", "proc-1"), control: nowhere, why: "made for containers, where the self-test of package attack holds them"},
		{name: "leak-descriptors", script: `ls -l /proc/$$/fd >/tmp/fds; grep -E ' ([3-9]|[0-9][0-9]+) -> ' /tmp/fds && echo WORKED`, control: nowhere, why: "held by leak-planted-descriptor"},
		{name: "leak-planted-descriptor", before: plantDescriptor, script: `for n in $(seq 3 40); do cat <&$n; cat /proc/self/fd/$n; done; cat /proc/*/fd/*/dev/null`, control: nowhere, why: "the descriptors are the orchestrator's"},
	}}
}

// capableFile makes a program with file capabilities, where we may.
func capableFile(s *fixture) {
	path := s.agent + "/capable"
	if _, err := os.Lstat(path); err == nil {
		return
	}
	program, err := os.ReadFile("/bin/bash")
	s.must(err)
	s.must(os.WriteFile(path, program, 0o755))
	if os.Geteuid() != 0 {
		return
	}
	s.own()
	// Version 2, effective, CAP_DAC_OVERRIDE and CAP_SYS_ADMIN.
	value := []byte{1, 0, 0, 2, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	s.must(syscall.Setxattr(path, "security.capability", value, 0))
}

// plantDescriptor opens a secret in this process, without close-on-exec.
func plantDescriptor(s *fixture) {
	fd, err := syscall.Open(s.outside+"/file", syscall.O_RDONLY, 0)
	s.must(err)
	s.Cleanup(func() { syscall.Close(fd) })
}

// processGroup tries to reach other processes.
func processGroup() group {
	return group{name: "processes", layouts: []layout{victims}, attempts: []attempt{
		{name: "process-kill-host", script: `kill -9 $VICTIM; kill -STOP $VICTIM; kill -9 -$VICTIM`},
		{name: "process-kill-all", script: `kill -9 -1; kill -9 1; kill -STOP 1; kill -TERM 1`, control: nowhere, why: "it would end what else runs"},
		{name: "process-signal-guest", script: probed("signal-1"), control: nowhere, why: "there is no guest outside"},
		{name: "process-look-at-host", script: `cat /proc/$VICTIM/cmdline /proc/$VICTIM/environ; grep -l . /proc/[0-9]*/cmdline; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ`, control: onHost},
		{name: "process-trace-host", script: tried("trace $VICTIM", "vm-read $VICTIM", "mem $VICTIM", "take-fd $VICTIM"), control: onHost},
		{name: "process-trace-guest", script: tried("trace 1", "attach 1", "vm-read 1", "vm-write 1", "mem 1", "take-fd 1") + probed("ptrace-1", "memory-1", "proc-1", "limit-1"), control: nowhere, why: "there is no guest outside"},
		{name: "process-trace-parent", script: tried("trace $PPID", "vm-read $PPID", "mem $PPID", "take-fd $PPID", "look-into $PPID"), control: nowhere, why: "it is another process there"},
		{name: "process-sibling", before: sibling, script: `sib=$(pgrep -f 'sleep 777' | head -1); test -n "$sib" || echo WORKED no sibling; ` + tried("trace $sib", "attach $sib", "vm-read $sib", "vm-write $sib", "mem $sib", "take-fd $sib", "look-into $sib"), control: onHost},
		{name: "process-forge-frames", script: tried("frames") + probed("talk-to-guest", "forge", "replace-socket </dev/null"), control: nowhere, why: "there is no guest outside"},
		{name: "process-limits", script: probed("limit-1", "priorities"), control: nowhere, why: "there is no guest outside"},
		{name: "process-many", script: `$TOOL attempt children 600`, control: onHost},
	}}
}

// victims are processes of the host that belong to the sandbox's user.
func victims(s *fixture) {
	cmd := exec.Command("bash", "-c", `exec -a "$0" sleep 1000`, s.token)
	cmd.Env = []string{"SECRET=" + s.token, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: 0}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.kit.uid), Gid: uint32(s.kit.uid)}
	}
	s.must(cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	s.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	sleeps := func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		return err == nil && strings.Contains(string(state), " (sleep) S ")
	}
	eventually(s, "the process of the host does not come to sleep", sleeps)
	s.envs = append(s.envs, fmt.Sprintf("VICTIM=%d", cmd.Process.Pid))
	s.traps = append(s.traps, func() string {
		if !sleeps() {
			return "the process of the host is not as it was"
		}
		return ""
	})
}

// port is the port of a listener.
func port(l net.Addr) string { _, p, _ := net.SplitHostPort(l.String()); return p }

// sibling is another command in the same sandbox, or beside it on the host, that
// has a secret.
func sibling(s *fixture) {
	script := attempt{script: "exec sleep 777"}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	if s.sb == nil {
		cmd := exec.CommandContext(ctx, "sleep", "777")
		s.asUser(cmd)
		cmd.Env = append(cmd.Env, "SECRET="+s.token)
		s.must(cmd.Start())
		go func() { defer close(ended); _ = cmd.Wait() }()
	} else {
		p, err := s.sb.Start(ctx, sandbox.Command{Args: []string{"bash", "-c", script.script}, Env: map[string]string{"SECRET": s.token}})
		s.must(err)
		go func() { defer close(ended); _, _ = p.Wait() }()
	}
	s.Cleanup(func() { stop(); <-ended })
}
