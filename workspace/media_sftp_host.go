package workspace

import (
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
)

const opFetch = "fetch media"

// A Host is one machine that media may be taken from.
type Host struct {
	Name       string   // as refs write it: letters, digits, dots and dashes
	Address    string   // host name or IP address to connect to; empty is Name
	Port       int      // 0 is 22
	User       string   // whom to log in as
	Identity   string   // file of the private key: absolute, readable for us alone
	KnownHosts string   // file that holds the host's key: absolute
	Folders    []string // what lies below these may be taken: absolute, clean, on that machine
}

// Patterns of what becomes part of ssh's arguments. None can begin with a
// dash, and none holds what ssh expands in its options.
const (
	hostPattern = `^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`
	userPattern = `^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`
	filePattern = `^(/[A-Za-z0-9._+@-]+)+$`
)

// check returns what is wrong with h, named by field.
func (h Host) check(field string) error {
	is := func(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) }
	switch {
	case !is(hostPattern, h.Name):
		return sftpInvalid(field+".Name", "%q is no host name", h.Name)
	case h.Address != "" && !is(hostPattern, h.Address) && !plainIP(h.Address):
		return sftpInvalid(field+".Address", "%q is neither a host name nor an IP address", h.Address)
	case h.Port < 0 || h.Port > 65535:
		return sftpInvalid(field+".Port", "%d is no port", h.Port)
	case !is(userPattern, h.User):
		return sftpInvalid(field+".User", "%q is no user name", h.User)
	case !is(filePattern, h.Identity) || path.Clean(h.Identity) != h.Identity:
		return sftpInvalid(field+".Identity", "%q is no clean absolute path of letters, digits and ._+@-", h.Identity)
	case !is(filePattern, h.KnownHosts) || path.Clean(h.KnownHosts) != h.KnownHosts:
		return sftpInvalid(field+".KnownHosts", "%q is no clean absolute path of letters, digits and ._+@-", h.KnownHosts)
	case len(h.Folders) == 0:
		return sftpInvalid(field+".Folders", "no folder is named, so that nothing could be taken")
	}
	for i, f := range h.Folders {
		if !path.IsAbs(f) || path.Clean(f) != f || f == "/" || !plainPath(f) {
			return sftpInvalid(fmt.Sprintf("%s.Folders[%d]", field, i), "%q is no clean absolute path of a folder", f)
		}
	}
	return nil
}

func plainIP(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}

// plainPath reports whether s is text without control characters. The path
// never meets a shell; the check keeps it fit for messages.
func plainPath(s string) bool {
	return len(s) <= 4096 && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// arguments returns those of ssh(1) for the file transfer subsystem of h.
// Nothing comes from files of settings, neither the user's nor the system's,
// and nothing is asked, forwarded, shared or remembered. The subsystem is
// asked for by name, and paths travel inside its protocol: no shell sees one.
func (h Host) arguments() []string {
	address := h.Address
	if address == "" {
		address = h.Name
	}
	port := h.Port
	if port == 0 {
		port = 22
	}
	args := []string{"-F", "none", "-a", "-x", "-T", "-p", strconv.Itoa(port), "-l", h.User, "-i", h.Identity}
	for _, o := range []string{
		"BatchMode=yes", "StrictHostKeyChecking=yes", "UserKnownHostsFile=" + h.KnownHosts, "GlobalKnownHostsFile=none",
		"UpdateHostKeys=no", "VerifyHostKeyDNS=no", "CheckHostIP=no", "CanonicalizeHostname=no",
		"IdentitiesOnly=yes", "IdentityAgent=none", "PreferredAuthentications=publickey", "PubkeyAuthentication=yes",
		"PasswordAuthentication=no", "KbdInteractiveAuthentication=no", "GSSAPIAuthentication=no", "HostbasedAuthentication=no",
		"ProxyCommand=none", "ProxyJump=none", "PermitLocalCommand=no", "ControlMaster=no", "ControlPath=none",
		"ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "Tunnel=no", "EscapeChar=none", "LogLevel=ERROR",
		"ConnectTimeout=10", "ConnectionAttempts=1", "ServerAliveInterval=5", "ServerAliveCountMax=3",
	} {
		args = append(args, "-o", o)
	}
	return append(args, "-s", "--", address, "sftp")
}

// parse splits ref, "host:/path", and finds its host and folder.
func parse(hosts []Host, ref string) (h Host, folder, rel string, err error) {
	name, p, ok := strings.Cut(ref, ":")
	if !ok || !path.IsAbs(p) || !plainPath(p) || len(name) > 253 {
		return h, "", "", &sandbox.Error{
			Code: sandbox.CodeValidation, Op: opFetch, Field: "ref", Message: "a remote file is written host:/path, without control characters",
		}
	}
	if path.Clean(p) != p {
		return h, "", "", mediaBlocked(ref, `%q holds "..", "." or more than one slash in a row, which media paths may not`, ref)
	}
	for _, h := range hosts {
		if h.Name != name {
			continue
		}
		for _, f := range h.Folders {
			if rest, ok := strings.CutPrefix(p, f+"/"); ok {
				return h, f, rest, nil
			}
		}
		return h, "", "", mediaBlocked(ref, "%q does not lie below a media folder of %s", p, h.Name)
	}
	return h, "", "", mediaBlocked(ref, "%q is no host that media may be taken from", name)
}

func sftpInvalid(field, format string, args ...any) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: opFetch, Field: field, Message: fmt.Sprintf(format, args...)}
}

func mediaBlocked(ref, format string, args ...any) error {
	return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: opFetch, Resource: ref, Message: fmt.Sprintf(format, args...)}
}
