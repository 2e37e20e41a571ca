//go:build linux

package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func fileProbes() map[string]probe {
	return map[string]probe{
		"write-root":   writeRoot,
		"write-system": writeSystem,
		"write-etc":    writeEtc,
		"write-guest":  writeGuest,
		"write-ro":     writeReadOnly,
		"symlinks":     symlinks,
		"hard-links":   hardLinks,
		"canary":       canary,
	}
}

func writeRoot([]string) verdict {
	return each(
		createIn("/"), createIn("/root"), createIn("/home"), createIn("/var"), createIn("/opt"), createIn("/srv"),
		try{"mkdir /escape", func() error { return removeAfter("/escape", unix.Mkdir("/escape", 0o700)) }},
		try{"rename /bin", func() error { return unix.Rename("/bin", "/bin.moved") }},
	)
}

func removeAfter(path string, err error) error {
	if err == nil {
		unix.Rmdir(path)
	}
	return err
}

func writeSystem([]string) verdict {
	tries := []try{createIn("/usr"), createIn("/usr/bin"), createIn("/usr/lib"), createIn("/lib"), createIn("/bin"), createIn("/boot")}
	for _, p := range []string{"/bin/sh", "/usr/bin/env", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"} {
		if _, err := os.Stat(p); err == nil {
			tries = append(tries, writeOpen(p))
		}
	}
	return each(tries...)
}

// writeEtc leaves out what the engine mounts there for each container.
func writeEtc([]string) verdict {
	return each(
		createIn("/etc"), writeOpen("/etc/passwd"), writeOpen("/etc/group"), writeOpen("/etc/shadow"),
		writeOpen("/etc/sudoers"), writeOpen("/etc/ld.so.preload"), writeOpen("/etc/hosts"),
		writeOpen("/etc/hostname"), writeOpen("/etc/resolv.conf"),
		try{"replace /etc/passwd", func() error { return unix.Rename("/etc/group", "/etc/passwd") }},
	)
}

func writeGuest([]string) verdict {
	const bin = "/.sandbox/bin/sandbox-guest"
	return each(
		createIn("/.sandbox"), createIn("/.sandbox/bin"), writeOpen(bin),
		try{"unlink " + bin, func() error { return unix.Unlink(bin) }},
		try{"rename " + bin, func() error { return unix.Rename(bin, "/.sandbox/bin/old") }},
		try{"chmod " + bin, func() error { return unix.Chmod(bin, 0o777) }},
		try{"write through /proc/self/exe", func() error { return openable("/proc/self/exe", unix.O_WRONLY) }},
	)
}

// writeReadOnly tries every mount that claims to be read-only.
func writeReadOnly([]string) verdict {
	mounts, err := mountPoints()
	if err != nil {
		return skip("/proc/self/mountinfo: ", reason(err))
	}
	var tries []try
	for _, m := range mounts {
		if !m.readOnly {
			continue
		}
		if fi, err := os.Stat(m.target); err == nil && fi.IsDir() {
			tries = append(tries, createIn(m.target))
		} else {
			tries = append(tries, writeOpen(m.target))
		}
	}
	if len(tries) == 0 {
		return skip("no mount is read-only")
	}
	return each(tries...)
}

// symlinks puts links to system files into every writable mount and reads
// and writes through them: no link may lead where the path itself does not.
func symlinks([]string) verdict {
	var tries []try
	var made []string
	for _, dir := range []string{"/workspace", "/agent", "/tmp", "/.sandbox/run"} {
		for i, target := range []string{"/etc/shadow", "/root", "/proc/1/root", "../../../../../../../../root"} {
			link := dir + "/.escape-link-" + itoa(i)
			if unix.Symlink(target, link) != nil {
				continue
			}
			made = append(made, link)
			tries = append(tries,
				try{link + " → " + target + " written", func() error { return openable(link, unix.O_WRONLY) }},
				try{link + " → " + target + " read", func() error { return moreThan(link, target) }})
		}
	}
	defer func() {
		for _, link := range made {
			unix.Unlink(link)
		}
	}()
	if len(tries) == 0 {
		return held("no writable place for a link")
	}
	return each(tries...)
}

// moreThan fails unless link can be read while target itself cannot.
func moreThan(link, target string) error {
	if err := readable(link); err != nil {
		return err
	}
	if readable("/"+strings.ReplaceAll(target, "../", "")) == nil {
		return errors.New("the sandbox's own file")
	}
	return nil
}

// readable reports whether path can be read, as a file or as a folder.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.IsDir() {
		_, err = f.Readdirnames(1)
		return err
	}
	_, err = f.Read(make([]byte, 1))
	return err
}

func hardLinks([]string) verdict {
	var tries []try
	for _, dir := range []string{"/workspace", "/tmp", "/.sandbox/run"} {
		for _, target := range []string{"/etc/passwd", "/etc/shadow", "/.sandbox/bin/sandbox-guest", "/bin/sh", "/proc/1/exe"} {
			link := dir + "/.escape-hard"
			tries = append(tries, try{target + " into " + dir, func() error {
				defer unix.Unlink(link)
				return unix.Linkat(unix.AT_FDCWD, target, unix.AT_FDCWD, link, unix.AT_SYMLINK_FOLLOW)
			}})
		}
	}
	return each(tries...)
}

// canary looks for the file args[0] of the host, which holds args[1], on
// every path that might lead there. Only finding that text is an escape.
func canary(args []string) verdict {
	if len(args) != 2 {
		return skip("needs the path and the text of a file of the host")
	}
	path, text := args[0], args[1]
	up := strings.Repeat("../", 16)
	ways := []string{
		path, "/proc/1/root" + path, "/proc/self/root" + path, "/workspace/" + up + path,
		"/proc/1/cwd/" + up + path, "/proc/self/cwd/" + up + path, "/.sandbox/run/" + up + path,
		"/.sandbox/bin/" + up + path, "/dev/fd/0/" + up + path, "/host" + path, "/mnt" + path, "/rootfs" + path,
	}
	entries, _ := filepath.Glob("/proc/[0-9]*/root")
	for _, root := range entries {
		ways = append(ways, root+path)
	}
	for _, dir := range []string{"/workspace", "/tmp"} {
		if link := dir + "/.escape-canary"; unix.Symlink(path, link) == nil {
			ways = append(ways, link)
			defer unix.Unlink(link)
		}
	}
	var answers []string
	for _, way := range ways {
		data, err := os.ReadFile(way)
		switch {
		case err != nil:
			answers = append(answers, way+": "+reason(err))
		case strings.Contains(string(data), text):
			return broke("a file of the host was read as ", way)
		default:
			answers = append(answers, way+": another file")
		}
	}
	return held(summarise(answers))
}
