package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/docker/go-units"
	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/manager"
)

func (a *app) explainCommand() *ucli.Command {
	var tool, command, path, host text
	var all bool
	method := text{check: notEmpty}
	hosts, place := newHostFlags("explain"), newPlaceFlags()
	return &ucli.Command{
		Name:      "explain",
		Usage:     "say what a session gets and why, without changing anything",
		UsageText: "sandbox explain [flags]",
		Description: "With the flags of run that say what the sandbox is (--image, --workspace, --allow-domain, --secret) it says\n" +
			"what run would do with them.",
		Flags: append(append(hosts.flags(), place.flags()...),
			&ucli.GenericFlag{Name: "tool", Usage: "may this `TOOL` be used?", Value: &tool},
			&ucli.GenericFlag{Name: "command", Usage: "may this `COMMAND` be run?", Value: &command},
			&ucli.GenericFlag{Name: "path", Usage: "may this `PATH` be read and written?", Value: &path},
			&ucli.GenericFlag{Name: "host", Usage: "may this `HOST` be reached? HOST, HOST:PORT or a URL", Value: &host},
			&ucli.GenericFlag{Name: "method", Usage: "by a request with this `METHOD`, where --host is a URL; default GET", Value: &method},
			&ucli.BoolFlag{Name: "all", Usage: "also show every setting, mount and rule, not only what differs from the defaults", Destination: &all},
		),
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			if method.given && !strings.Contains(host.value, "://") {
				return usagef("explain", "--method needs a URL: write --host http://HOST/PATH")
			}
			q := manager.Questions{Tool: tool.value, Command: command.value, Path: path.value, Host: host.value, Method: method.value}
			flags, err := place.overrides(a.globals)
			if err != nil {
				return err
			}
			if err := hosts.add(&flags); err != nil {
				return err
			}
			return a.useManager(a.options(), func(m Manager) error {
				e, err := m.Explain(c.Context, a.globals.who(), flags.Layer(), q)
				if err != nil {
					return err
				}
				return a.showExplanation(e, all)
			})
		},
	}
}

func (a *app) showExplanation(e manager.Explanation, all bool) error {
	e.Settings, e.NoEffect, e.Dangerous = notNil(e.Settings), notNil(e.NoEffect), notNil(e.Dangerous)
	e.Mounts, e.Tmpfs, e.Drift = notNil(e.Mounts), notNil(e.Tmpfs), notNil(e.Drift)
	e.Verdicts, e.Problems = notNil(e.Verdicts), notNil(e.Problems)
	e.Network.Rules, e.Network.Limits, e.Network.Secrets = notNil(e.Network.Rules), notNil(e.Network.Limits), notNil(e.Network.Secrets)
	e.Browser.Settings, e.Browser.Drift, e.Browser.Problems = notNil(e.Browser.Settings), notNil(e.Browser.Drift), notNil(e.Browser.Problems)
	e.Media.From = notNil(e.Media.From)
	e.Layers, e.Wall, e.Notes = notNil(e.Layers), notNil(e.Wall), notNil(e.Notes)
	if a.globals.json() {
		return writeJSON(a.Stdout, e)
	}
	_, err := io.WriteString(a.Stdout, explainText(e, all, columnsOf(a.Stdout)))
	return err
}

// explainText writes e in sections; one that has nothing to say is left out.
// What was decided comes last. Without all, it is what a person asks for first:
// what differs from the defaults, and no list of what is always the same.
// Lines are cut to width cells; 0 cuts none.
func explainText(e manager.Explanation, all bool, width int) string {
	var b strings.Builder
	section := func(title string, t *table) {
		if len(t.rows) == 0 {
			return
		}
		t.limit = width
		if title != "" {
			b.WriteString("\n" + title + "\n")
			t.limit = max(0, width-2)
		}
		// A strings.Builder never fails.
		_ = t.write(indented{&b, title != ""})
	}
	section("", explainHead(e, all))
	if all {
		section("Settings", explainSettings(e.Settings))
		section("Layers", explainLayers(e))
		section("Mounts", explainMounts(e))
		section("How the inside is made, later steps over earlier ones", explainSandbox(e))
	} else {
		section("Settings that differ from the defaults", explainSettings(changedSettings(e.Settings)))
	}
	if all || e.Network.Mode != "none" {
		section("Network", explainNetwork(e.Network))
	}
	if all || e.Browser.Enabled {
		section("Browser", explainBrowser(e.Browser))
	}
	section("Without effect", explainSettings(e.NoEffect))
	section("Dangerous switches in force", explainLines(e.Dangerous))
	section("Not enforced, or weaker than usual", explainLines(e.Notes))
	section("Changed since the sandbox was made", explainDrift(e))
	section("Problems", explainLines(e.Problems))
	section("Verdict", explainOutcome(e))
	section("Asked", explainVerdicts(e))
	return b.String()
}

// explainHead says who and what the call is about. Without all, lines that
// say that there is nothing are left out.
func explainHead(e manager.Explanation, all bool) *table {
	t := &table{}
	t.and("session", e.Session).and("agent", e.Agent)
	if all || e.Tenant != "" {
		t.add("tenant", e.Tenant)
	}
	if all || e.Evidence.Required || e.Evidence.Commands {
		t.add("evidence", evidenceText(e.Evidence))
	}
	if text := budgetsText(e.Budgets); all || text != unboundedText {
		t.add("budgets", text)
	}
	if text := tenantText(e.TenantLimits); all || text != unboundedText {
		t.add("tenant limits", text)
	}
	if all || len(e.Media.From) > 0 {
		t.add("media", mediaText(e.Media))
	}
	if !e.Sandboxed {
		return t
	}
	t.and("provider", e.Provider+": "+e.ProviderReason).
		and("sandbox", e.Name).and("scope", string(e.Scope)+" "+e.ScopeKey).and("status", string(e.Status)).
		and("image", strings.TrimSpace(e.Image+" "+short(e.ImageID))).
		and("user", e.User).and("workspace", workspaceText(e)).and("home", homeText(e.Home)).and("checkpoints", checkpointText(e.Checkpoints))
	if all {
		return t.and("files", filesText(e.Files)).and("settings hash", e.ConfigHash).and("sandbox's hash", e.HaveHash)
	}
	if e.Files.Setting != sandbox.FSAuto || e.Files.Transport == fsbridge.TransportScript || e.Files.Reason != "" && e.Files.Transport == "" {
		t.add("files", filesText(e.Files))
	}
	if e.Network.Mode == "none" {
		t.add("network", reachText(e.Network))
	}
	return t.and("more", fmt.Sprintf("%s and %s, with --all", count(len(e.Settings), "setting", "settings"), count(len(e.Mounts)+len(e.Tmpfs), "mount", "mounts")))
}

// workspaceText describes the workspace: its place, or of which folder it is a
// private view.
func workspaceText(e manager.Explanation) string {
	if e.View != nil {
		return e.View.Text(e.Workspace)
	}
	return e.Workspace
}

// checkpointText says how checkpoints are made.
func checkpointText(p manager.CheckpointPlan) string {
	text := "none"
	if p.Means != "" {
		text = "by " + string(p.Means)
	}
	if p.Reason != "" {
		text += " (" + p.Reason + ")"
	}
	if p.Auto == config.AutoCommand {
		text += fmt.Sprintf("; one before each command, of which %d are kept", p.Keep)
	}
	return text
}

// unboundedText is what a bound says that is none.
const unboundedText = "unbounded"

// changedSettings returns the settings that do not come from the defaults.
func changedSettings(settings []manager.Setting) []manager.Setting {
	var out []manager.Setting
	for _, s := range settings {
		if s.Layer != defaultLayer {
			out = append(out, s)
		}
	}
	return out
}

// defaultLayer is the layer of settings that are built in.
const defaultLayer = "default"

// gateText says where commands run.
func gateText(g manager.Gate) string {
	where := map[manager.Place]string{manager.Sandboxed: "in the sandbox", manager.Unsandboxed: "ON THE HOST, WITHOUT A SANDBOX", manager.Refused: "nowhere"}[g.Place]
	return where + ": " + g.Reason
}

// filesText says how file operations reach the sandbox.
func filesText(f manager.FileTransport) string {
	if f.Transport == "" {
		return strings.TrimPrefix(f.Reason+": "+f.Note, ": ")
	}
	text := "through the " + f.Transport
	if f.Transport == fsbridge.TransportScript {
		text = "through scripts"
	}
	if f.Reason != "" {
		text += " (" + f.Reason + ")"
	}
	if f.Durable {
		text += "; a write is on the disk when it returns"
	}
	if f.Note != "" && f.Note != f.Reason {
		text += "; " + f.Note
	}
	return text
}

// homeText says where the home lies.
func homeText(h manager.HomePlan) string {
	if h.Place == "" {
		return ""
	}
	text := "in memory"
	if h.Place == "disk" {
		text = "on the disk"
	}
	if h.Size > 0 {
		text += ", at most " + units.BytesSize(float64(h.Size))
	}
	return text + ": " + h.Reason
}

// explainLines is a table of one column.
func explainLines(lines []string) *table {
	t := &table{}
	for _, l := range lines {
		t.add(l)
	}
	return t
}

func explainLayers(e manager.Explanation) *table {
	t := &table{}
	for _, l := range e.Layers {
		state := "off"
		if l.On {
			state = "on"
		}
		t.add(l.Name, state, l.Detail)
	}
	return t
}

func explainSandbox(e manager.Explanation) *table {
	t := &table{}
	for _, s := range e.Wall {
		t.add(s.Target, s.Does, s.Source, s.Rule)
	}
	return t
}

// explainOutcome says what happens at the next use.
func explainOutcome(e manager.Explanation) *table {
	answer := "no"
	if e.Sandboxed {
		answer = "yes"
	}
	t := &table{}
	t.and("sandboxed", answer+": "+e.Reason).and("commands run", gateText(e.Gate))
	if e.Sandboxed {
		t.add("next use", e.Next)
	}
	return t
}

// explainVerdicts answers what the flags of the call ask.
func explainVerdicts(e manager.Explanation) *table {
	t := &table{}
	for _, v := range e.Verdicts {
		t.add(strings.TrimSpace(v.Kind+" "+v.Operation), v.Subject, v.Verdict, v.Reason)
	}
	return t
}

func explainDrift(e manager.Explanation) *table {
	t := &table{}
	for _, d := range e.Drift {
		note := ""
		if d.Tightens {
			note = "tightens isolation"
		}
		t.add(d.Field, cmp.Or(d.From, "none")+" → "+cmp.Or(d.To, "none"), note)
	}
	return t
}

func explainMounts(e manager.Explanation) *table {
	t := &table{}
	for _, m := range e.Mounts {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		t.add(m.Target, mode, string(m.Role), m.Source)
	}
	for _, f := range e.Tmpfs {
		mode := "rw,noexec"
		if f.Exec {
			mode = "rw,exec"
		}
		t.add(f.Target, mode, "tmpfs", units.BytesSize(float64(f.Size)))
	}
	return t
}

func explainSettings(settings []manager.Setting) *table {
	t := &table{}
	for _, s := range settings {
		value := s.Value
		if s.Note != "" {
			value += " (" + s.Note + ")"
		}
		t.add(s.Path, s.Layer, value) // last, because some are long
	}
	return t
}

// indented puts two spaces before each line of a table, which is written in
// one piece.
type indented struct {
	w  io.Writer
	on bool
}

// Write implements io.Writer.
func (i indented) Write(p []byte) (int, error) {
	if !i.on {
		return i.w.Write(p)
	}
	text := strings.TrimSuffix(string(p), "\n")
	if _, err := fmt.Fprintln(i.w, "  "+strings.ReplaceAll(text, "\n", "\n  ")); err != nil {
		return 0, err
	}
	return len(p), nil
}
