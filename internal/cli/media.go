package cli

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace"
)

func (a *app) mediaCommand() *ucli.Command {
	return &ucli.Command{
		Name:        "media",
		Usage:       "bring files from outside into the session's workspace",
		UsageText:   "sandbox media stage [flags] FILE…",
		Subcommands: []*ucli.Command{a.mediaStageCommand()},
	}
}

// remoteMedia is how files of other machines begin.
const remoteMedia = "scp://"

func (a *app) mediaStageCommand() *ucli.Command {
	place := newPlaceFlags()
	return &ucli.Command{
		Name:      "stage",
		Usage:     "copy files into media/inbound of the workspace, all of them or none",
		UsageText: "sandbox media stage [flags] FILE…",
		Description: "A FILE lies below a folder of media.folders in the settings, or is scp://HOST/PATH on a machine of media.remote; nothing else\n" +
			"is taken, and no link is followed. media.maxFile, maxTotal, maxFiles and timeout bound a call. Each file gets a clean name\n" +
			"that none has yet, and belongs to the sandbox. The paths inside are printed, one a line, in the order of the arguments; with\n" +
			"-o json an object whose items have ref, original, path, size, sha256 and mime. No sandbox is started for it.\n" +
			"\n" +
			"Through a daemon a FILE is one of its machine, the token must be one of a tenant, and the sandbox is made when missing.\n" +
			"\n" +
			"1: the files could not be staged. 125: the sandbox failed. 2: wrong usage.",
		Flags: place.flags(),
		Action: func(c *ucli.Context) error {
			const op = "media stage"
			refs := c.Args().Slice()
			if err := countArgs(op, "FILE…", refs, 1, -1); err != nil {
				return err
			}
			for i, ref := range refs {
				if strings.HasPrefix(ref, remoteMedia) || path.IsAbs(ref) {
					continue
				}
				if a.globals.address() != "" {
					return usagef(op, "%q is not an absolute path; a file of the daemon's machine needs one", ref)
				}
				var err error
				if refs[i], err = filepath.Abs(ref); err != nil {
					return operation(op, err)
				}
			}
			layer, err := place.layer(a.globals)
			if err != nil {
				return err
			}
			return a.useManager(a.options(), func(m Manager) error {
				staged, err := m.StageFor(c.Context, manager.Request{Who: a.globals.who(), Flags: layer}, refs)
				if err != nil {
					return operation(op, err)
				}
				if a.globals.json() {
					return writeJSON(a.Stdout, stagedView{notNil(staged)})
				}
				for _, s := range staged {
					if _, err := fmt.Fprintln(a.Stdout, termsafe.Line(s.Path)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// stagedView is what media stage prints.
type stagedView struct {
	Items []workspace.Staged `json:"items"`
}
