package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// Facts are what the world says about one sandbox. All host paths are
// canonical (see package hostpath).
type Facts struct {
	Instance string // id of the state folder
	Provider string // the provider chosen, where settings say auto; or empty
	ImageID  string // identity of the image, the setup layer applied; required for docker

	// Volumes are the folders that the image declares as volumes, as it names them.
	Volumes []string

	UID, GID int // user of the sandbox, unless docker.user names one; never 0

	HostIdentity string // by which name its own folders are known, where that is a slot of the pool; or empty
	Workspace    string // host folder that appears as /workspace
	Mapped       string // place of an ID-mapped mount of Workspace that is mounted instead; or empty
	AgentDir     string // the agent's folder, or the one that a flag names; needed for access ro, rw and private
	HomeDir      string // host folder that appears as the home; empty where that lies in memory
	CacheDir     string // host folder of the caches of package managers, or empty
	HomeReason   string // why the home lies where it does, for people
	SocketDir    string // folder of the guest's socket; empty when it is reached otherwise
	PasswdFile   string // minimal user database, or empty
	GroupFile    string // minimal group database, or empty
	HostsFile    string // shown as /etc/hosts where there is no network, or empty
	TrustDir     string // folder of public certificates (statedir.Dir.Trust); needed where secrets are bound
	Guest        sandbox.GuestRef

	// TrustEnv are the variables that make programs trust the certificates in
	// TrustDir, and TrustJava the options of a Java virtual machine that do so;
	// ImageJava are the options that the image sets. Empty where docker.caFile
	// names no file.
	TrustEnv             map[string]string
	TrustJava, ImageJava string

	Seccomp         string // our profile as JSON text
	SeccompOverride string // what the file docker.seccompProfile holds; needed when that is set

	HostCPUs   int   // processors of the host; 0 is unknown
	HostMemory int64 // bytes of memory of the host; 0 is unknown

	Home      string            // replaces ~; canonical
	Env       map[string]string // replaces $VAR in host paths
	Canonical map[string]string // expanded path → canonical path, for every one of HostPaths

	// Via gives for every key of Canonical, and for the canonical AgentDir and
	// Workspace when settings or a flag name them, every place that is passed
	// from the path as written to the canonical one (see hostpath.Trace). It
	// is required as soon as Exposed is not empty.
	Via map[string][]string

	// Exposed are the canonical forms of [WritableFolders]. Nothing strictly
	// below them is mounted, as code in a sandbox could exchange it.
	Exposed []string

	Listening  []string // canonical sockets at which a daemon of ours listens
	Sensitive  []string // what no sandbox may see: engine sockets, state folder, settings folder
	Workspaces []string // folders in which our own workspaces lie; their own place was judged before
}

// HostPaths returns every host path in r that BuildSpec needs the canonical
// form of, with ~ and variables replaced, sorted and without duplicates. The
// caller puts them into Facts.Canonical.
func (r Resolved) HostPaths(home string, env map[string]string) ([]string, error) {
	var out []string
	for i, s := range r.Docker.Binds {
		source, _, _ := strings.Cut(s, ":")
		p, err := hostpath.ExpandVariables(source, home, env)
		if err != nil {
			return nil, r.ofField(fmt.Sprintf("docker.binds[%d]", i), err)
		}
		out = append(out, p)
	}
	for _, list := range []struct {
		name  string
		rules []string
	}{
		{"allowRead", r.Filesystem.AllowRead}, {"denyRead", r.Filesystem.DenyRead}, {"allowWrite", r.Filesystem.AllowWrite},
		{"denyWrite", r.Filesystem.DenyWrite}, {"allowUnixSockets", r.Filesystem.AllowUnixSockets},
	} {
		for i, s := range list.rules {
			if p, err := rulePath(s, home, env); err != nil {
				return nil, r.ofField(fmt.Sprintf("filesystem.%s[%d]", list.name, i), err)
			} else if strings.HasPrefix(p, "/") && !isGlob(p) {
				out = append(out, p)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// ofField returns err with the setting that it is about.
func (r Resolved) ofField(name string, err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return err
	}
	placed := *e
	placed.Field = r.field(name)
	return &placed
}

// rulePath expands a path rule. Globs and rules that start neither with ~ nor
// with a variable stay as written.
func rulePath(s, home string, env map[string]string) (string, error) {
	if strings.HasPrefix(s, "~") && home == "" {
		return s, nil // no home, so nothing of it to protect or open
	}
	return hostpath.ExpandVariables(s, home, env)
}

func isGlob(s string) bool { return strings.ContainsAny(s, "*?[{") }
