package command

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// devices are the names of disks and of memory.
const devices = "/dev/sd* /dev/hd* /dev/vd* /dev/xvd* /dev/nvme* /dev/mmcblk* /dev/loop* /dev/md* /dev/dm-* /dev/mapper/* /dev/disk/* /dev/mem /dev/kmem /dev/port /dev/rdisk* /dev/disk*"

// shells are programs that run what they read.
const shells = "sh bash dash zsh ksh mksh ash fish csh tcsh rbash busybox"

// interpreters are programs that run code of another language from their
// standard input.
const interpreters = "python pypy perl ruby node nodejs php lua luajit deno bun tclsh osascript pwsh powershell"

// patternRows is the table of the pattern check about single commands.
func patternRows() []row {
	const low, medium, high, critical = policy.Low, policy.Medium, policy.High, policy.Critical
	const leave = "leave the machine as it is; ask for this if it is the task"
	return []row{
		// Disks and file systems.
		{rule: "make-filesystem", programs: "mkfs mkfs.* mke2fs mkswap mkdosfs newfs mkntfs", when: onDisk, severity: critical, mark: deny, message: "makes a new file system over what is there", hint: leave},
		{rule: "wipe-disk", programs: "wipefs sgdisk gdisk fdisk sfdisk cfdisk parted badblocks", when: onDisk, severity: critical, mark: deny, message: "changes or wipes disks", hint: leave},
		{rule: "wipe-disk", programs: "blkdiscard hdparm cryptsetup lvremove vgremove pvremove zpool", severity: critical, mark: deny, message: "changes or wipes disks", hint: leave},
		{rule: "write-device", programs: "dd", argument: prefixed("of=", devices), severity: critical, mark: deny, message: "writes to a disk or to memory", hint: "write to a file in the workspace"},
		{rule: "write-device", programs: "tee cp mv install shred truncate cat", path: devices, severity: critical, mark: deny, message: "touches a disk or memory directly", hint: "use a file in the workspace"},
		{rule: "read-device", programs: "dd", argument: prefixed("if=", devices), severity: high, mark: never, message: "reads a disk or memory directly", hint: "read files"},
		{rule: "mount", programs: "mount umount losetup swapon swapoff mount.* fusermount fusermount3 pivot_root", severity: high, mark: never, message: "changes what is mounted", hint: leave},
		{rule: "namespace", programs: "nsenter unshare chroot capsh setpriv bwrap runc crun ctr nerdctl systemd-nspawn lxc lxc-attach machinectl", severity: high, mark: never, message: "changes the sandboxes around a program", hint: leave},
		{rule: "kernel-module", programs: "insmod modprobe rmmod kmod kexec bpftool", severity: critical, mark: deny, message: "changes the kernel", hint: leave},
		{rule: "kernel-setting", programs: "sysctl", options: "-w --write -p --load --system", severity: critical, mark: deny, message: "changes the kernel's settings", hint: leave},
		{rule: "kernel-setting", programs: "sysctl", operand: "*=*", severity: critical, mark: deny, message: "changes the kernel's settings", hint: leave},

		// Rights.
		{rule: "other-user", programs: "sudo doas su runuser pkexec sudoedit visudo", severity: high, mark: never, message: "acts as another user", hint: "run it as yourself"},
		{rule: "account", programs: "useradd userdel usermod groupadd groupdel groupmod passwd chpasswd chsh chfn gpasswd adduser deluser addgroup vipw", severity: high, mark: never, message: "changes accounts of the machine", hint: leave},
		{rule: "rights-of-system", programs: "chmod chown chgrp chattr setfacl", path: criticalPatterns, severity: critical, mark: deny, message: "changes the rights of the system or of a whole home", hint: "name the files concerned"},
		{rule: "rights-for-all", programs: "chmod", options: "-R --recursive", argument: "777 0777 a+rwx ugo+rwx a=rwx +rwx o+w a+w", severity: high, mark: never, message: "lets everybody write a whole folder", hint: "give one file the rights it needs: chmod u+x FILE"},
		{rule: "rights-for-all", programs: "chmod", argument: "777 0777 a+rwx ugo+rwx a=rwx 666 a+w o+w", severity: medium, message: "lets everybody write", hint: "use u+x or 644"},
		{rule: "setuid", programs: "chmod", when: setsID, severity: high, mark: never, message: "lets a program act as another user (setuid, setgid)", hint: leave},
		{rule: "capability", programs: "setcap", severity: high, mark: never, message: "gives a program rights of root", hint: leave},
		{rule: "setuid", programs: "install mkdir", when: setsID, severity: high, mark: never, message: "lets a program act as another user (setuid, setgid)", hint: leave},

		// Processes and the machine.
		{rule: "kill-all", programs: "kill", when: killsAll, severity: critical, mark: deny, message: "signals every process", hint: "name the process"},
		{rule: "kill-all", programs: "kill", when: killsUnreported, severity: high, mark: never, message: "signals what the text does not tell, which may be every process", hint: "name the process"},
		{rule: "kill-all", programs: "killall5", severity: critical, mark: deny, message: "kills every process", hint: "name the process"},
		{rule: "kill-init", programs: "kill", operand: "1", severity: high, mark: never, message: "signals the first process", hint: "name the process"},
		{rule: "kill-by-name", programs: "pkill killall", severity: medium, message: "signals processes by name, perhaps more than are meant", hint: "kill the process by its number"},
		{rule: "kill-by-name", programs: "pkill killall", options: "-u -U --user --euid --uid", severity: high, mark: never, message: "signals every process of a user", hint: "kill the process by its number"},
		{rule: "kill-by-name", programs: "pkill killall", operand: ". .* ^ *sandbox*", severity: high, mark: never, message: "signals every process", hint: "kill the process by its number"},
		{rule: "power", programs: "shutdown reboot halt poweroff init telinit", severity: critical, mark: deny, message: "stops the machine", hint: leave},
		{rule: "power", programs: "systemctl loginctl", sub: "poweroff|reboot|halt|kexec|suspend|hibernate|rescue|emergency|isolate", severity: critical, mark: deny, message: "stops the machine", hint: leave},
		{rule: "service", programs: "systemctl", sub: "enable|disable|mask|start|stop|restart|link|edit|daemon-reload|set-property|set-environment", severity: high, mark: never, message: "changes services of the machine", hint: leave},
		{rule: "service", programs: "service rc-service update-rc.d chkconfig launchctl initctl", severity: high, mark: never, message: "changes services of the machine", hint: leave},
		{rule: "schedule", programs: "crontab", options: "-e -r -i", severity: high, mark: never, message: "changes what runs later", hint: "run it now"},
		{rule: "schedule", programs: "crontab", operand: "*", severity: high, mark: never, message: "changes what runs later", hint: "run it now"},
		{rule: "schedule", programs: "at batch systemd-run anacron incrontab", severity: high, mark: never, message: "runs something later, unwatched", hint: "run it now"},
		{rule: "detach", programs: "screen tmux daemonize dtach abduco", severity: medium, mark: never, message: "runs commands that the policy does not see, and that outlive the line", hint: "run the command itself"},
		{rule: "debugger", programs: "gdb lldb strace ltrace ptrace bpftrace perf reptyr", options: "-p --pid --attach -pid", severity: high, mark: never, message: "looks into another process", hint: "start the program under the debugger"},

		// Network.
		{rule: "reverse-shell", programs: "nc ncat netcat nc.*", options: "-e -c --exec --sh-exec --lua-exec", severity: critical, mark: deny, message: "gives a program to the other end", hint: "do not connect programs to the network"},
		{rule: "reverse-shell", programs: "socat", argument: "*EXEC:* *SYSTEM:* *exec:* *system:* *SHELL:* *shell:*", severity: critical, mark: deny, message: "gives a program to the other end", hint: "do not connect programs to the network"},
		{rule: "listen", programs: "nc ncat netcat", options: "-l --listen", severity: high, mark: never, message: "waits for connections", hint: "use a server of the project"},
		{rule: "tunnel", programs: "ssh autossh chisel ngrok frpc frps cloudflared localtunnel gost", options: "-R -D -w -L", severity: high, mark: never, message: "opens a tunnel", hint: leave},
		{rule: "tunnel", programs: "chisel ngrok frpc frps cloudflared localtunnel gost telebit bore", severity: high, mark: never, message: "opens a tunnel", hint: leave},
		{rule: "firewall", programs: "iptables ip6tables nft ufw firewall-cmd ebtables arptables tc iptables-restore", severity: high, mark: never, message: "changes the firewall", hint: leave},
		{rule: "firewall", programs: "iptables ip6tables", options: "-F -X -P --flush --policy", severity: critical, mark: deny, message: "empties the firewall", hint: leave},
		{rule: "firewall", programs: "nft", sub: "flush", severity: critical, mark: deny, message: "empties the firewall", hint: leave},
		{rule: "network-setting", programs: "ip", argument: "add del delete set flush change replace", severity: high, mark: never, message: "changes the network", hint: leave},
		{rule: "network-setting", programs: "ifconfig route brctl tcpdump arp ethtool iw iwconfig nmcli resolvectl", severity: high, mark: never, message: "changes or listens to the network", hint: leave},
		{rule: "upload", programs: "curl", options: "-T --upload-file", severity: medium, mark: never, message: "sends a file away", hint: "say what is to be sent, and ask"},
		{rule: "upload", programs: "curl", options: "-d --data --data-binary --data-urlencode -F --form", argument: "@* *=@* *=<* -d@* -F*=@* --data*=@*", severity: medium, mark: never, message: "sends a file away", hint: "say what is to be sent, and ask"},
		{rule: "upload", programs: "wget", options: "--post-file --body-file", severity: medium, mark: never, message: "sends a file away", hint: "say what is to be sent, and ask"},
		{rule: "remote", programs: "ssh scp sftp rsh rlogin telnet mosh ftp lftp", severity: medium, message: "speaks to another machine", hint: "work in the workspace"},
		{rule: "credential-in-url", programs: "*", argument: "http://*:*@* https://*:*@* ftp://*:*@*", severity: medium, message: "has a password in an address, which others can read", hint: "let the program take it from its configuration"},

		// Engines and clusters.
		{rule: "engine-socket", programs: "*", argument: "/*docker.sock* /*containerd.sock* /*podman.sock* /*crio.sock* unix:*.sock *=/*docker.sock* *=unix:*docker.sock*", severity: critical, mark: never, message: "reaches for the socket of a container engine, which is root on the host", hint: leave},
		{rule: "engine", programs: "docker podman", argument: "--privileged --privileged=* --pid=host --net=host --network=host --userns=host --ipc=host --cap-add* --device* --security-opt* -v/:* /:* --volume=/:* -v=/:* source=/,* *source=/,* *src=/,* *source=/ *src=/", severity: critical, mark: deny, message: "starts a container without sandboxes", hint: "run it without these options"},
		{rule: "engine", programs: "docker podman docker-compose kubectl helm", severity: medium, message: "speaks to a container engine or a cluster", hint: leave},
		{rule: "engine-remove", programs: "docker podman", sub: "system prune|volume rm|volume prune|container prune|image prune", severity: high, mark: never, message: "removes what others may need", hint: "name what is to go"},
		{rule: "cluster-remove", programs: "kubectl helm oc", sub: "delete|drain|uninstall|exec|cp", severity: high, mark: never, message: "changes a cluster", hint: leave},
		{rule: "infrastructure", programs: "terraform tofu pulumi", sub: "apply|destroy|import|up", severity: high, mark: never, message: "changes machines elsewhere", hint: "use plan, and ask"},

		// git.
		{rule: "force-push", programs: "git", argument: "--force -f --force-with-lease* --mirror", sub: "push", severity: medium, mark: never, message: "rewrites what others have fetched", hint: "push without force"},
		{rule: "push", programs: "git", sub: "push", severity: medium, message: "sends commits away", hint: "commit, and leave the pushing to the user"},
		{rule: "git-history", programs: "git", sub: "filter-branch|filter-repo|update-ref|reflog expire|gc --prune=now", severity: high, mark: never, message: "rewrites or forgets history", hint: "make a new commit"},
		{rule: "discard", programs: "git", sub: "reset", argument: "--hard", severity: low, message: "throws changes away", hint: "commit or stash them first"},

		// Packages and secrets.
		{rule: "publish", programs: "npm pnpm yarn cargo gem poetry twine hatch flit", sub: "publish|push|upload|owner|token|login|adduser|yank|unpublish", severity: high, mark: never, message: "publishes or signs in", hint: "leave publishing to the user"},
		{rule: "system-package", programs: "apt apt-get dpkg yum dnf rpm apk pacman zypper snap brew port", severity: medium, message: "changes the system's packages", hint: "have them in the image"},
		{rule: "secret-store", programs: "security secret-tool pass gopass op vault keyctl lpass bw kwallet-query gnome-keyring-daemon", severity: high, mark: never, message: "reads stored passwords", hint: leave},
		{rule: "secret-store", programs: "gh gcloud aws az doctl heroku flyctl vercel netlify", sub: "auth|configure|login|ad|account get-access-token|sts|secretsmanager|secrets", severity: high, mark: never, message: "reads or changes credentials", hint: leave},
		{rule: "secret-store", programs: "git", sub: "credential|credential-store get|credential-cache get|credential-libsecret|credential-osxkeychain|credential-manager", severity: high, mark: never, message: "reads or changes stored passwords", hint: leave},
		{rule: "secret-store", programs: "gpg gpg2", options: "--export-secret-keys --export-secret-subkeys --delete-secret-keys", severity: high, mark: never, message: "takes private keys out", hint: leave},
		{rule: "trust", programs: "update-ca-certificates trust certutil update-ca-trust", severity: high, mark: never, message: "changes whom the machine trusts", hint: leave},

		// Shell.
		{rule: "history", programs: "history", options: "-c -w -r -d -a -n", severity: medium, mark: never, message: "changes the shell's history", hint: "leave the history alone"},
		{rule: "no-history", programs: "unset set", argument: "HISTFILE HISTSIZE history", severity: medium, mark: never, message: "keeps commands out of the history", hint: "leave the history alone"},
		{rule: "log", programs: "journalctl", options: "--vacuum-size --vacuum-time --rotate --vacuum-files", severity: high, mark: never, message: "removes the machine's logs", hint: leave},
		{rule: "log", programs: "logrotate auditctl", severity: high, mark: never, message: "changes what the machine records", hint: leave},
		{rule: "security-module", programs: "setenforce aa-teardown aa-disable aa-complain apparmor_parser semodule setsebool", severity: critical, mark: deny, message: "weakens the machine's protection", hint: leave},
		{rule: "clock", programs: "hwclock timedatectl ntpdate chronyc", severity: high, mark: never, message: "changes the clock", hint: leave},
		{rule: "loader", programs: "ldconfig ld.so ld-linux* ld-musl*", severity: high, mark: unknown, message: "loads programs or libraries by hand", hint: "call the program itself"},
		{rule: "miner", programs: "xmrig minerd cpuminer ethminer cgminer bfgminer nbminer", severity: critical, mark: deny, message: "mines coins", hint: "do something else"},
		{rule: "scanner", programs: "nmap masscan zmap hydra medusa sqlmap nikto hashcat john msfconsole msfvenom", severity: high, mark: never, message: "attacks or searches networks and passwords", hint: leave},
	}
}

// prefixed puts the same text in front of each of the patterns.
func prefixed(text, patterns string) string {
	var out strings.Builder
	for p := range strings.FieldsSeq(patterns) {
		out.WriteString(text + p + " ")
	}
	return out.String()
}
