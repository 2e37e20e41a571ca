package command

import (
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// resolvePath returns the absolute, clean path that a name means in a
// folder. It looks at no file, so links are not followed. A relative name in
// an unknown folder is returned clean.
func resolvePath(dir, name string) string {
	switch {
	case name == "":
		return ""
	case strings.HasPrefix(name, "/"):
		return path.Clean(name)
	}
	return path.Join(dir, name)
}

// criticalPlaces are folders without which a machine, a user or the work is
// lost. The whole of one, or everything in it, is never removed.
const criticalPlaces = "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /var " +
	"/usr/bin /usr/lib /usr/lib64 /usr/local /usr/sbin /usr/share /usr/include /usr/local/bin /usr/local/lib " +
	"/var/lib /var/log /var/run /var/spool /var/mail /var/cache /var/tmp /etc/ssl /etc/ssh " +
	"/Users /System /Library /Applications /Volumes /private /private/tmp /private/var /private/etc /nix /snap " +
	sandbox.WorkspaceDir + " " + sandbox.AgentDir

// criticalPatterns are criticalPlaces as patterns for the table of rows; /tmp
// and the workspace may have their rights changed.
const criticalPatterns = "/ /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /sbin /sys /usr /var /usr/bin /usr/lib /usr/local /var/lib /Users /System /Library /etc/passwd /etc/shadow /etc/sudoers"

// systemRoots are the folders whose contents belong to the machine.
const systemRoots = "/bin /boot /dev /etc /lib /lib32 /lib64 /proc /root /sbin /sys /usr /var /System /Library /opt /srv /nix /snap"

// A danger says how much is lost when something at a place is removed.
type danger int

const (
	harmless danger = iota
	system          // belongs to the machine
	all             // everything in the working directory
	critical        // the machine, a home or the whole work
)

// A mapOfPlaces is criticalPlaces and systemRoots, taken apart once.
type mapOfPlaces struct {
	critical map[string]bool
	byDepth  map[int][]string // of critical, by the number of slashes
	system   []string
}

func newMapOfPlaces() *mapOfPlaces {
	m := &mapOfPlaces{critical: map[string]bool{}, byDepth: map[int][]string{}, system: strings.Fields(systemRoots)}
	for p := range strings.FieldsSeq(criticalPlaces) {
		m.critical[p] = true
		n := strings.Count(p, "/")
		m.byDepth[n] = append(m.byDepth[n], p)
	}
	return m
}

// places knows what is critical for one line.
type places struct {
	*mapOfPlaces
	start string // where the line begins: the work
	home  string
}

// of says how bad it is to remove what a path means, which may be a glob.
func (p places) of(abs string, glob bool) danger {
	if !strings.HasPrefix(abs, "/") {
		if abs == "." || abs == ".." || strings.HasPrefix(abs, "../") {
			return critical
		}
		if glob && strings.Trim(abs, "*.?") == "" {
			return all
		}
		return harmless
	}
	if p.isCritical(abs) || glob && p.globCritical(abs) {
		return critical
	}
	if glob {
		if dir, last := path.Split(abs); strings.Trim(last, "*.?") == "" && path.Clean(dir) == p.start {
			return all
		}
	}
	for _, root := range p.system {
		if below(abs, root) && !below(abs, "/var/tmp") && !below(abs, p.home) && !below(abs, p.start) {
			return system
		}
	}
	return harmless
}

// isCritical reports whether a path is critical itself: by name, because the
// work lies in it, or because it is a home or holds homes.
func (p places) isCritical(abs string) bool {
	if p.critical[abs] || below(p.start, abs) || below(p.home, abs) {
		return true
	}
	dir := path.Dir(abs)
	return dir == "/home" || dir == "/Users"
}

// globCritical reports whether a glob may mean a critical folder, or means
// everything in one.
func (p places) globCritical(abs string) bool {
	dir, last := path.Split(abs)
	if dir = path.Clean(dir); strings.Trim(last, "*.?") == "" && strings.Contains(last, "*") {
		if dir != p.start && p.isCritical(dir) && dir != "/tmp" && dir != "/var/tmp" {
			return true
		}
	}
	for _, c := range p.byDepth[strings.Count(abs, "/")] {
		if segmentsMatch(abs, c) {
			return true
		}
	}
	return p.start != "" && segmentsMatch(abs, p.start) || p.home != "" && segmentsMatch(abs, p.home)
}

// segmentsMatch holds a shell's glob against a path. A pattern that cannot be
// read matches.
func segmentsMatch(glob, name string) bool {
	if strings.Count(glob, "/") != strings.Count(name, "/") || len(glob) > 4096 {
		return false
	}
	ok, err := path.Match(glob, name)
	return ok || err != nil
}

// below reports whether a clean path is root or lies in it.
func below(abs, root string) bool {
	if abs == "" || root == "" {
		return false
	}
	return abs == root || root == "/" || strings.HasPrefix(abs, root) && abs[len(root)] == '/'
}

// dirs returns the folders in which a command may run.
func (s *subject) dirs(c *lineCommand) []string {
	if c.Unsure && c.Dir != s.in.Dir {
		return []string{c.Dir, s.in.Dir}
	}
	return []string{c.Dir}
}
