package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/command"
)

// GrantPolicy returns what the settings of one call let tools under a grant do
// at most, as the comment of [grant.Policy] says. It narrows what PathPolicy,
// CommandPolicy and HostPolicy allow and widens none of them; patterns of paths
// are theirs alone, so that they have to be asked as well.
//
// Of the manifest only the programs count: settings list none, so each that the
// tool names and that the command policy does not deny, run by itself, is one.
// What its arguments make of it is for the command policy to say.
//
// A rule that cannot be read is [sandbox.CodeValidation] with its place, and so
// are more folders and ports than a policy can hold.
func GrantPolicy(r Resolved, in Inside, m grant.Manifest) (grant.Policy, error) {
	rules, err := r.pathRules(in)
	if err != nil {
		return grant.Policy{}, err
	}
	_, folders, err := memoryFolders(r, nil, true)
	if err != nil {
		return grant.Policy{}, err
	}
	tmp, err := tmpOf(folders)
	if err != nil {
		return grant.Policy{}, r.placed(err)
	}
	hosts, domains, err := r.hostCapabilities()
	if err != nil {
		return grant.Policy{}, err
	}
	files, err := r.fileCapabilities(rules, tmp.Target)
	if err != nil {
		return grant.Policy{}, err
	}
	programs, err := r.programs(in, m)
	if err != nil {
		return grant.Policy{}, err
	}
	lists := r.Profile.lists()
	lists.Domains = domains
	return grant.Policy{
		Version:      r.policyVersion(in, rules, folders),
		Capabilities: slices.Concat(files, hosts, r.browserActions(), programs, []grant.Capability{{Kind: grant.Temp, Bytes: tmp.Size}}, gpuClasses(r.Docker.GPUs)),
		Limits:       r.profileLimits(),
		Lists:        lists,
		Denied:       grant.Denied{Domains: slices.Clone(r.Network.DeniedDomains), Paths: rules.denied()},
		Mappings:     grant.Mappings{Root: sandbox.WorkspaceDir, Tmp: tmp.Target},
	}, nil
}

// lists are the lists of profiles that the settings have.
func (p Profile) lists() grant.Lists {
	return grant.Lists{MIME: slices.Clone(p.MIME), Tools: slices.Clone(p.Tools), Methods: slices.Clone(p.Methods), Paths: slices.Clone(p.Paths)}
}

// profileLimits are the limits of profiles that the settings have. A file and a
// time are bounded by the limits of commands, too.
func (r Resolved) profileLimits() grant.Limits {
	p := r.Profile
	return grant.Limits{
		MaxBytesIn: int64(p.MaxBytesIn), MaxBytesOut: lesser(int64(p.MaxBytesOut), int64(r.Limits.FileSize)), MaxTmpBytes: int64(p.MaxTmpBytes),
		MaxFiles: p.MaxFiles, MaxDepth: int(p.MaxDepth), MaxConcurrency: int(p.MaxConcurrency),
		Timeout: lesser(time.Duration(p.Timeout), time.Duration(r.Limits.Timeout)),
	}
}

// lesser is the lesser of two bounds, of which 0 is none.
func lesser[T ~int64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// tmpOf returns the folder in memory that temporary space is made in, which
// settings cannot leave out.
func tmpOf(folders []sandbox.Tmpfs) (sandbox.Tmpfs, error) {
	for _, t := range folders {
		if t.Target == "/tmp" {
			return t, nil
		}
	}
	return sandbox.Tmpfs{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "resolve", Field: "docker.tmpfs", Message: "/tmp is not among them", Hint: "add /tmp:size=64m"}
}

// browserActions are those of a browser that the settings let be driven.
func (r Resolved) browserActions() []grant.Capability {
	if !r.Browser.Enabled {
		return nil
	}
	actions := []string{"click", "extract", "open", "pdf", "screenshot", "type", "upload", "wait"}
	if r.Browser.AllowDownloads {
		actions = append(actions, "download")
	}
	return []grant.Capability{{Kind: grant.Browser, Actions: actions}}
}

// gpuClasses are the classes of docker.gpus: the ids of devices, "all", or
// "any" for a number of them.
func gpuClasses(gpus string) []grant.Capability {
	classes := []string{"any"}
	ids, named := strings.CutPrefix(gpus, "device=")
	switch {
	case strings.Trim(gpus, "0") == "":
		return nil
	case named:
		classes = strings.Split(ids, ",")
	case gpus == "all":
		classes = []string{"all", "any"}
	}
	var out []grant.Capability
	for _, c := range classes {
		if c != "" {
			out = append(out, grant.Capability{Kind: grant.GPU, Class: c})
		}
	}
	return out
}

// programs are those of the manifest that the command policy does not deny.
func (r Resolved) programs(in Inside, m grant.Manifest) ([]grant.Capability, error) {
	var out []grant.Capability
	var commands *command.Policy
	seen := map[string]bool{}
	for _, c := range m.Capabilities {
		if c.Kind != grant.Process || seen[c.Tool] {
			continue
		}
		seen[c.Tool] = true
		if commands == nil {
			paths, err := PathPolicy(r, in)
			if err != nil {
				return nil, err
			}
			if commands, err = CommandPolicy(r, paths); err != nil {
				return nil, err
			}
		}
		// A name that is none of a program is for the manifest's own check to
		// refuse; as text it could mean anything, so that it is not judged.
		if !plainProgram(c.Tool) || commands.Judge(command.Input{Text: c.Tool, Dir: r.Docker.Workdir}).Verdict != policy.Deny {
			out = append(out, grant.Capability{Kind: grant.Process, Tool: c.Tool})
		}
	}
	return out, nil
}

// plainProgram reports whether a name means nothing but itself to a shell.
func plainProgram(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-") == ""
}

// policyFormat is counted along in versions of policies: it grows when the same
// settings come to mean something else.
const policyFormat = 1

// policyVersion is the SHA-256, in hex, of the settings that any policy of a
// call is made of: as long as it is the same, every policy says the same. It
// depends neither on the order of maps nor on the manifest.
func (r Resolved) policyVersion(in Inside, rules pathRules, folders []sandbox.Tmpfs) string {
	network, commands := r.Network, r.Commands
	network.Secrets = nil // say what is put into requests, not which there are
	text, err := json.Marshal(struct {
		Format         int
		Sandboxed      bool
		Provider       string
		Access         sandbox.Access
		Paths          pathRules
		Home, HostHome string
		FoldCase       bool
		Folders        []sandbox.Tmpfs
		Workdir, GPUs  string
		Network        Network
		Commands       Commands
		Limits         Limits
		Profile        Profile
		Browser        Browser
		Tools          Tools
		Given          [3]bool // whether a list of tools is the built-in one
	}{
		policyFormat, r.Sandboxed, r.Provider, r.WorkspaceAccess, rules, r.home(), in.Home, in.FoldCase, folders, r.Docker.Workdir, r.Docker.GPUs,
		network, commands, r.Limits, r.Profile, r.Browser, r.Tools,
		[3]bool{r.Origin("tools.allow") != "default", r.Origin("tools.alsoAllow") != "default", r.Origin("tools.deny") != "default"},
	})
	if err != nil { // plain data can always be written
		return fmt.Sprintf("unknown-%d", policyFormat)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
