package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// oldestEngineAPI is the oldest version of the engine's API that works.
const oldestEngineAPI = "1.41"

// A versionView is what version prints.
type versionView struct {
	Version  string    `json:"version"`
	Commit   string    `json:"commit"` // empty: not known
	Modified bool      `json:"modified"`
	Go       string    `json:"go"`
	Platform string    `json:"platform"`
	Guest    guestView `json:"guest"`
	API      apiView   `json:"api"`
}

type guestView struct {
	Path   string `json:"path"` // empty: not found
	Digest string `json:"digest"`
	Error  string `json:"error,omitempty"`
}

// apiView are the versions of what this program shares with others.
type apiView struct {
	Spec   int    `json:"spec"`   // layout of a Spec; a change makes sandboxes count as changed
	Guest  int    `json:"guest"`  // protocol with the guest
	Engine string `json:"engine"` // oldest API of a Docker engine
}

func (a *app) versionCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "version",
		Usage:     "show which program this is",
		UsageText: "sandbox version [flags]",
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			v := versionOf(debug.ReadBuildInfo())
			path, digest, err := a.Backend.Guest()
			v.Guest = guestView{Path: path, Digest: digest}
			if err != nil {
				v.Guest.Error = err.Error()
			}
			return a.showVersion(v)
		},
	}
}

func versionOf(info *debug.BuildInfo, ok bool) versionView {
	v := versionView{
		Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		API: apiView{Spec: sandbox.SpecFormat, Guest: wire.Version, Engine: oldestEngineAPI},
	}
	if !ok {
		return v
	}
	v.Version = strings.Trim(info.Main.Version, "()")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (a *app) showVersion(v versionView) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, v)
	}
	commit := v.Commit
	if commit == "" {
		commit = "unknown"
	}
	if v.Modified {
		commit += ", modified"
	}
	guest := v.Guest.Digest
	if guest == "" {
		guest = "not found"
	}
	return newTable("sandbox", v.Version).and("commit", commit).and("built with", v.Go+" "+v.Platform).
		and("guest", guest).and("api", fmt.Sprintf("spec %d, guest %d, engine %s or newer", v.API.Spec, v.API.Guest, v.API.Engine)).
		write(a.Stdout)
}
