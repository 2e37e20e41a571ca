package path

// systemRows are the machine's own files.
var systemRows = []row{
	{CategorySystem, critical, critical, "it holds the passwords of this machine", []string{
		"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/master.passwd", "/etc/spwd.db", "/etc/security/opasswd", "/var/backups/shadow*", "/var/backups/gshadow*",
		"/var/db/dslocal", "/var/lib/sss/secrets", "/var/lib/samba/private",
	}, nil},
	{CategorySystem, medium, critical, "it says who may become root", []string{"/etc/sudoers", "/etc/sudoers.d", "/etc/doas.conf", "/etc/polkit-1", "/usr/share/polkit-1"}, nil},
	{CategorySystem, none, critical, "it says who exists on this machine and how they log in", []string{
		"/etc/passwd", "/etc/passwd-", "/etc/group", "/etc/group-", "/etc/subuid", "/etc/subgid", "/etc/login.defs", "/etc/pam.conf", "/etc/pam.d", "/etc/security", "/etc/nsswitch.conf", "/etc/shells",
	}, nil},
	{CategorySystem, none, critical, "the machine runs it or obeys it at its start or by the clock", []string{
		"/etc/crontab", "/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly", "/etc/anacrontab", "/etc/at.allow", "/etc/cron.allow",
		"/var/spool/cron", "/var/spool/at", "/var/spool/anacron", "/var/at", "/usr/lib/cron",
		"/etc/init.d", "/etc/inittab", "/etc/rc.local", "/etc/rc.d", "/etc/systemd", "/lib/systemd", "/usr/lib/systemd", "/usr/local/lib/systemd", "/run/systemd", "/etc/xdg/autostart", "/etc/udev", "/lib/udev", "/usr/lib/udev",
		"/etc/dbus-1", "/etc/modprobe.d", "/etc/modules", "/etc/modules-load.d", "/lib/modules", "/usr/lib/modules", "/etc/sysctl.conf", "/etc/sysctl.d", "/etc/fstab", "/boot", "/efi",
		"/Library/LaunchDaemons", "/Library/LaunchAgents", "/Library/StartupItems", "/System/Library", "/etc/launchd.conf", "/etc/periodic",
	}, nil},
	{CategorySystem, none, critical, "every program loads it at its start", []string{"/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.cache", "/etc/ld-musl-*.path"}, nil},
	{CategorySystem, none, critical, "every shell runs it at its start", []string{
		"/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc", "/etc/bash_completion.d", "/etc/zsh", "/etc/zshrc", "/etc/zshenv", "/etc/zprofile", "/etc/fish", "/etc/csh.cshrc", "/etc/csh.login", "/etc/environment", "/etc/environment.d", "/etc/inputrc", "/etc/skel",
	}, nil},
	{CategorySystem, none, high, "it says where names and connections lead", []string{"/etc/hosts", "/etc/resolv.conf", "/etc/hosts.allow", "/etc/hosts.deny", "/etc/iptables", "/etc/nftables.conf", "/etc/ufw", "/etc/ca-certificates", "/etc/ssl/certs", "/usr/local/share/ca-certificates"}, nil},
	{CategorySystem, none, medium, "it records what happened on this machine", []string{"/var/log"}, nil},
	{CategorySystem, high, high, "it records who logged in, and from where", []string{"/var/log/auth.log*", "/var/log/secure*", "/var/log/audit", "/var/log/btmp*", "/var/log/wtmp*", "/run/utmp"}, nil},

	{CategoryProcess, high, critical, "it shows the environment of a process, secrets included", []string{"/proc/*/environ", "/proc/*/task/*/environ"}, nil},
	{CategoryProcess, critical, critical, "it is the memory of a process", []string{"/proc/*/mem", "/proc/*/task/*/mem", "/proc/kcore", "/proc/kmem", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg"}, nil},
	{CategoryProcess, medium, high, "it shows where the memory of a process lies", []string{
		"/proc/*/maps", "/proc/*/smaps", "/proc/*/pagemap", "/proc/*/auxv", "/proc/*/stack", "/proc/*/syscall", "/proc/*/task/*/maps", "/proc/*/task/*/smaps", "/proc/kallsyms", "/proc/kpage*", "/proc/iomem",
	}, nil},
	{CategoryProcess, none, critical, "it controls a process from outside", []string{
		"/proc/*/exe", "/proc/*/attr", "/proc/*/uid_map", "/proc/*/gid_map", "/proc/*/setgroups", "/proc/*/clear_refs", "/proc/*/oom_adj", "/proc/*/loginuid", "/proc/*/ns", "/proc/*/task/*/attr",
	}, nil},
	{CategoryProcess, none, critical, "it controls the kernel", []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/acpi", "/proc/scsi", "/proc/fs", "/proc/mtrr", "/proc/timer_list", "/sys"}, nil},
	{CategoryProcess, high, critical, "it shows what the kernel does", []string{"/sys/kernel/debug", "/sys/kernel/tracing", "/sys/firmware", "/sys/fs/bpf", "/proc/keys", "/proc/sched_debug"}, nil},

	{CategoryDevice, high, critical, "it is a disk, beneath all files on it", []string{
		"/dev/sd*", "/dev/hd*", "/dev/vd*", "/dev/xvd*", "/dev/nvme*", "/dev/mmcblk*", "/dev/loop*", "/dev/dm-*", "/dev/md*", "/dev/mapper", "/dev/disk", "/dev/block", "/dev/disk*", "/dev/rdisk*", "/dev/sr*", "/dev/nbd*", "/dev/zram*", "/dev/ram*", "/dev/bsg", "/dev/sg*",
	}, nil},
	{CategoryDevice, high, critical, "it is a device of this machine", []string{
		"/dev/kvm", "/dev/vhost-*", "/dev/vsock", "/dev/fuse", "/dev/net", "/dev/input", "/dev/uinput", "/dev/tty[0-9]*", "/dev/vcs*", "/dev/console", "/dev/watchdog*", "/dev/cpu", "/dev/raw", "/dev/snapshot", "/dev/userfaultfd", "/dev/video*", "/dev/hidraw*", "/dev/usb", "/dev/bus", "/dev/i2c-*", "/dev/rtc*", "/dev/hpet", "/dev/nvram", "/dev/tpm*", "/dev/autofs", "/dev/btrfs-control", "/dev/cuse", "/dev/ppp", "/dev/dri", "/dev/nvidia*",
	}, nil},
}
