package protect

import (
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/nolink"
)

// maxIncludes bounds the files that configuration includes.
const maxIncludes = 32

// config notes what the configuration of f has git run or read besides. Top is
// the folder that a relative path of hooks is taken from, or empty where that
// is not known; then it is taken from the git folder.
func (l *look) config(f *Folder, top string) {
	if top == "" {
		top = f.Path
	}
	files := []string{f.Path + "/config", f.Path + "/config.worktree"}
	for i := 0; i < len(files) && i < maxIncludes; i++ {
		data, err := nolink.File(files[i], maxConfig)
		if err != nil {
			if !nolink.Gone(err) && i == 0 {
				f.WorktreeConfig = true // who knows
			}
			continue
		}
		for _, s := range parseConfig(string(data)) {
			base, dir := path.Dir(files[i]), false
			switch {
			case s.key == "extensions.worktreeconfig":
				f.WorktreeConfig = true
				continue
			case s.key == "core.hookspath":
				base, dir = top, true
			case s.key == "include.path", s.key == "includeif.path":
			default:
				continue
			}
			p := s.value
			if rest, ok := strings.CutPrefix(p, "~/"); ok && l.f.Home != "" {
				p = path.Join(l.f.Home, rest)
			} else if p == "" || strings.HasPrefix(p, "~") || strings.HasPrefix(p, "%(") {
				continue
			}
			if !strings.HasPrefix(p, "/") {
				p = path.Join(base, p)
			}
			c, err := hostpath.Canonical(p)
			if err != nil {
				continue
			}
			f.Named = append(f.Named, Named{c, dir})
			if !dir {
				files = append(files, c)
			}
		}
	}
}
