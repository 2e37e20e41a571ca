package config

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// PermissionSettings are permission rules as agents on the host keep them.
// They become settings of network, filesystem and commands (see package
// permrules). What they allow is added to the layers up to their own; what
// they deny is added to all.
type PermissionSettings struct {
	Allow []string `json:"allow,omitempty" doc:"What is allowed, like WebFetch(domain:example.com), Read(~/docs/**), Edit(//srv/out/**) or Bash(npm run test:*). explain lists what cannot be opened that way."`
	Deny  []string `json:"deny,omitempty" doc:"What is denied, written in the same way; a rule that cannot be held is an error."`
	Ask   []string `json:"ask,omitempty" doc:"What is asked about, written in the same way: hosts and files that no rule allows. Any other rule is an error."`
}

// importLists reads permission rules.
func importLists(p PermissionSettings, dir string) (permrulesLists, error) {
	var errs []error
	for _, list := range []struct {
		name  string
		rules []string
	}{{"allow", p.Allow}, {"deny", p.Deny}, {"ask", p.Ask}} {
		for i, rule := range list.rules {
			if strings.ContainsFunc(rule, hidden) {
				errs = append(errs, invalid(fmt.Sprintf("permissions.%s[%d]", list.name, i), "%s holds a control or invisible character", strconv.Quote(rule)))
			}
		}
	}
	lists, err := importPermrules(p, dir)
	return lists, errors.Join(append(errs, inField("permissions.", err)...)...)
}

// added makes a layer without name and path of lists, which adds them to what
// lies below it.
func added(lists permrulesLists) layer {
	l := layer{settings: &SandboxSettings{}, added: true, rules: map[string]string{}}
	take := func(name string, values []permrulesValue) []string {
		var out []string
		for i, v := range values {
			out = append(out, v.Text)
			l.rules[fmt.Sprintf("%s[%d]", name, i)] = "permissions." + v.From
		}
		return out
	}
	if len(lists.AllowedDomains)+len(lists.DeniedDomains) > 0 {
		l.settings.Network = &NetworkSettings{
			AllowedDomains: take("network.allowedDomains", lists.AllowedDomains), DeniedDomains: take("network.deniedDomains", lists.DeniedDomains),
		}
	}
	if len(lists.AllowRead)+len(lists.DenyRead)+len(lists.AllowWrite)+len(lists.DenyWrite) > 0 {
		l.settings.Filesystem = &FilesystemSettings{
			AllowRead: take("filesystem.allowRead", lists.AllowRead), DenyRead: take("filesystem.denyRead", lists.DenyRead),
			AllowWrite: take("filesystem.allowWrite", lists.AllowWrite), DenyWrite: take("filesystem.denyWrite", lists.DenyWrite),
		}
	}
	if len(lists.AllowCommands)+len(lists.BlockCommands) > 0 {
		l.settings.Commands = &CommandSettings{
			Allow: take("commands.allow", lists.AllowCommands), Block: take("commands.block", lists.BlockCommands),
		}
	}
	return l
}

// notices are those of lists, below the path at.
func notices(lists permrulesLists, at string) []Notice {
	var out []Notice
	for _, n := range lists.Notices {
		out = append(out, Notice{Path: at + "permissions." + n.From, Value: strconv.Quote(n.Rule), Why: n.Why})
	}
	return out
}

// withPermissions returns layers with the permission rules of each put into
// layers of their own: what they allow right above it, what they deny above
// all others, as a list of a stronger layer would replace it otherwise.
func withPermissions(layers []layer, dir string) ([]layer, error) {
	var out, denies []layer
	for _, l := range layers {
		if l.settings.Permissions == nil {
			out = append(out, l)
			continue
		}
		lists, err := importLists(*l.settings.Permissions, dir)
		if err != nil {
			return nil, errors.Join(inField(l.path+".", err)...)
		}
		rest := *l.settings
		rest.Permissions = nil
		plain := l
		plain.settings, plain.notices = &rest, notices(lists, l.path+".")
		out = append(out, plain, added(permrulesLists{
			AllowedDomains: lists.AllowedDomains, AllowRead: lists.AllowRead, AllowWrite: lists.AllowWrite, AllowCommands: lists.AllowCommands,
		}).as(l))
		denies = append(denies, added(permrulesLists{
			DeniedDomains: lists.DeniedDomains, DenyRead: lists.DenyRead, DenyWrite: lists.DenyWrite, BlockCommands: lists.BlockCommands,
		}).as(l))
	}
	return append(out, denies...), nil
}

// as returns l as a part of the layer of.
func (l layer) as(of layer) layer {
	l.name, l.path, l.flag, l.agent = of.name, of.path, of.flag, of.agent
	return l
}

// permissions records what is wrong with the permission rules of a layer.
func (p *problems) permissions(l layer, dir string) {
	if l.settings.Permissions == nil {
		return
	}
	_, err := importLists(*l.settings.Permissions, dir)
	for _, err := range inField(l.path+".", err) {
		var e *sandbox.Error
		if errors.As(err, &e) {
			p.badly(e.Field, e.Hint, "%s", e.Message)
		}
	}
}

// inField puts a prefix before the Field of every one of joined errors.
func inField(prefix string, err error) []error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	} else if err == nil {
		return nil
	}
	out := make([]error, 0, len(list))
	for _, err := range list {
		var e *sandbox.Error
		if errors.As(err, &e) {
			moved := *e
			moved.Field = prefix + e.Field
			err = &moved
		}
		out = append(out, err)
	}
	return out
}

// folderOf is the folder of the settings file called name, or empty where the
// name does not tell.
func folderOf(name string) string {
	if !path.IsAbs(name) {
		return ""
	}
	return path.Dir(name)
}
