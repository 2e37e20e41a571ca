package launch

import (
	"slices"
	"strings"
)

// install is the command that installs a package on this distribution.
func (h Host) install(name string) string {
	families := h.families()
	for _, d := range []struct {
		ids     []string
		command string
	}{
		{[]string{"debian", "ubuntu"}, "sudo apt-get install "},
		{[]string{"fedora", "rhel", "centos"}, "sudo dnf install "},
		{[]string{"arch"}, "sudo pacman -S "},
		{[]string{"suse", "opensuse"}, "sudo zypper install "},
		{[]string{"alpine"}, "sudo apk add "},
		{[]string{"void"}, "sudo xbps-install "},
		{[]string{"gentoo"}, "sudo emerge sys-apps/"},
		{[]string{"nixos"}, "nix-env -iA nixos."},
	} {
		if slices.ContainsFunc(d.ids, func(id string) bool { return slices.Contains(families, id) }) {
			return d.command + name
		}
	}
	return "install the package " + name + " of your distribution"
}

// families are this distribution's id and those that it says it is like.
func (h Host) families() []string {
	text := h.text("/etc/os-release")
	if text == "" {
		text = h.text("/usr/lib/os-release")
	}
	var out []string
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "ID" || key == "ID_LIKE" {
			out = append(out, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	return out
}
