package grant

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// file judges an operation on a file.
func (g *Guard) file(v *Vetted, s State) error {
	kind := map[OpKind]Kind{OpFsRead: FSRead, OpFsWrite: FSWrite, OpFsList: FSList}[v.Kind]
	if err := g.place(v, kind, s.Spaces); err != nil {
		return err
	}
	l := &g.profile.Limits
	switch {
	case v.Offset < 0, v.Length < 0, v.Offset+v.Length < 0:
		return invalid("op.offset", "the part that is to be read begins or ends nowhere", "write amounts from 0 on")
	case v.Length > l.MaxBytesIn:
		return blocked("profile.limits.maxBytesIn", v.Path, "at most "+strconv.FormatInt(l.MaxBytesIn, 10)+" bytes may be read at once", "read in parts")
	case int64(len(v.Data)) > l.MaxBytesOut:
		return blocked("profile.limits.maxBytesOut", v.Path, "at most "+strconv.FormatInt(l.MaxBytesOut, 10)+" bytes may be written at once", "write less")
	case v.Kind == OpFsWrite && s.Files >= l.MaxFiles:
		return blocked("profile.limits.maxFiles", v.Path, "at most "+strconv.FormatInt(l.MaxFiles, 10)+" files may be written by a call", "write fewer files")
	}
	return nil
}

// place parses the path of v, cleans it, and judges it for the kind. Paths in
// temporary space of the call were allowed with that space.
func (g *Guard) place(v *Vetted, kind Kind, spaces []string) error {
	clean, err := cleanPath(v.Path, kind == FSList || v.Kind == OpBrowserDownload)
	if err != nil {
		return err
	}
	v.Path = clean
	if err := g.bound(clean); err != nil {
		return err
	}
	p := g.profile
	v.Capability = string(kind) + ":" + clean
	own := p.Mappings.Tmp != "" && slices.ContainsFunc(spaces, func(folder string) bool {
		return folder != p.Mappings.Tmp && below(folder, p.Mappings.Tmp) && below(clean, folder)
	})
	if !own {
		if err := g.need(&box{kind: kind, path: clean}, v.Capability); err != nil {
			return err
		}
	}
	if i := slices.IndexFunc(p.Denied.Paths, func(folder string) bool { return below(clean, folder) }); i >= 0 {
		return blocked("policy.denied.paths["+strconv.Itoa(i)+"]", clean, "the path is denied by the settings", "do without it; only who keeps the settings can change that")
	}
	if list := p.Lists.Paths; list != nil && !own && !slices.ContainsFunc(list, func(folder string) bool { return below(clean, folder) }) {
		return blocked(g.listRule("paths", g.sources.Lists.Paths, func(folder string) bool { return below(clean, folder) }), clean, "the path is below none of those that are listed", "use one that is")
	}
	return nil
}

// cleanPath reads an absolute path. A part of it that leads back is refused
// rather than resolved: what it leads back from may be a link.
func cleanPath(p string, folder bool) (string, error) {
	if why := illegible(p, maxPath); why != "" {
		return "", invalid("op.path", "the path "+why, "")
	}
	if p == "" || p[0] != '/' {
		return "", invalid("op.path", "the path is not absolute", "write it like /workspace/a")
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return "", blocked("op.path", p, "the path leads back by ..", "write it without")
		}
		if len(part) > 255 {
			return "", invalid("op.path", "a name in the path is longer than 255 bytes", "")
		}
	}
	if strings.HasSuffix(p, "/") && !folder {
		return "", invalid("op.path", "the path is that of a folder: it ends in a slash", "name a file")
	}
	return path.Clean(p), nil
}

// bound reports a path outside the two folders in which anything may be done,
// or too deep below them.
func (g *Guard) bound(clean string) error {
	depth := -1
	for _, folder := range []string{g.profile.Mappings.Root, g.profile.Mappings.Tmp} {
		if folder != "" && folder != "/" && below(clean, folder) {
			if n := strings.Count(clean[len(folder):], "/"); depth < 0 || n < depth {
				depth = n
			}
		}
	}
	switch most := g.profile.Limits.MaxDepth; {
	case depth < 0:
		return blocked("policy.mappings", clean, "the path is neither below the workspace nor below the temporary folder", "use a path below "+g.profile.Mappings.Root)
	case depth > most:
		return blocked("profile.limits.maxDepth", clean, "the path is more than "+strconv.Itoa(most)+" folders deep", "use one that is less deep")
	}
	return nil
}

// program judges that a program is executed.
func (g *Guard) program(v *Vetted) error {
	if why := programFault(v.Tool); why != "" {
		return invalid("op.tool", why, "name a program as it is found in PATH, without folder")
	}
	total := 0
	for i, a := range v.Args {
		if total += len(a); i >= maxArgs || total > maxArgBytes {
			return invalid("op.args", "the arguments are too many or too long", "at most "+strconv.Itoa(maxArgs)+" with "+strconv.Itoa(maxArgBytes)+" bytes")
		}
		if why := argFault(a); why != "" {
			return invalid("op.args["+strconv.Itoa(i)+"]", "the argument "+why, "")
		}
	}
	v.Args = slices.Clone(v.Args)
	v.Capability = string(Process) + ":" + v.Tool
	if err := g.need(&box{kind: Process, name: v.Tool}, v.Capability); err != nil {
		return err
	}
	if list := g.profile.Lists.Tools; list != nil && !slices.Contains(list, v.Tool) {
		return fault(sandbox.CodeDenyTool, g.listRule("tools", g.sources.Lists.Tools, func(t string) bool { return t == v.Tool }), v.Tool, "the program is not listed", "use one that is")
	}
	if !g.manifest.allows(v.Tool, v.Args) && (len(v.Args) > 0 || g.manifest[v.Tool] != nil) {
		return fault(sandbox.CodeDenyTool, "manifest.commands", v.Tool, "no template of the manifest allows these arguments", "use arguments as the manifest describes them")
	}
	if g.policy[v.Tool] != nil && !g.policy.allows(v.Tool, v.Args) {
		return fault(sandbox.CodeDenyTool, "policy.commands", v.Tool, "no template of the settings allows these arguments", "use arguments as the settings describe them")
	}
	return nil
}

// space judges that temporary space is allocated.
func (g *Guard) space(v *Vetted) error {
	if v.Bytes <= 0 {
		return invalid("op.bytes", "no space is asked for", "say how many bytes")
	}
	v.Capability = string(Temp) + ":" + strconv.FormatInt(v.Bytes, 10)
	if err := g.need(&box{kind: Temp, bytes: v.Bytes}, v.Capability); err != nil {
		return err
	}
	if most := g.profile.Limits.MaxTmpBytes; v.Bytes > most {
		return blocked("profile.limits.maxTmpBytes", "", "a temporary space may have at most "+strconv.FormatInt(most, 10)+" bytes", "ask for less")
	}
	return nil
}
