package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

func (a *app) listCommand() *ucli.Command {
	var browsers, caches bool
	c := a.listing(&browsers)
	sandboxes := c.Action
	c.Action = func(c *ucli.Context) error {
		if caches {
			return a.listCaches(c)
		}
		return sandboxes(c)
	}
	c.Name, c.Usage, c.UsageText = "list", "show sandboxes, compared with what is recorded of them", "sandbox list [flags]"
	c.Aliases = []string{"ps"}
	c.Flags = append(c.Flags, &ucli.BoolFlag{Name: "browser", Usage: "only browsers", Destination: &browsers},
		&ucli.BoolFlag{Name: "caches", Usage: "the caches of package managers that outlive sandboxes, in their place", Destination: &caches})
	return c
}

// listing is a command that lists, only browsers when that says so.
func (a *app) listing(browsers *bool) *ucli.Command {
	var o manager.ListOptions
	var labels ucli.StringSlice
	return &ucli.Command{
		Description: "IMAGE and CONFIG say whether a new sandbox would get the same: ok, changed, or ? when that is not known.\n" +
			"A free slot is a sandbox that is kept ready and has no session yet; idleness does not remove it.\n" +
			"Without an answer from the engine the status is unknown and the exit status 1.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "all", Usage: "every tenant's", Destination: &o.All},
			&ucli.StringSliceFlag{Name: "label", Usage: "only those that were created with the label `NAME=VALUE`; of several, all", Destination: &labels},
			&ucli.BoolFlag{Name: "foreign", Usage: "those of other state folders instead of ours", Destination: &o.Foreign},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			var err error
			if o.Labels, err = config.ParseLabels(labels.Value()); err != nil {
				return err
			}
			if len(o.Labels) > 0 && o.Foreign {
				return &sandbox.Error{Code: sandbox.CodeValidation, Op: "list", Field: "label", Message: "sandboxes of other state folders have no labels that are known here", Hint: "leave --label or --foreign out"}
			}
			o.Tenant = a.globals.tenant.value
			return a.useManager(a.options(), func(m Manager) error {
				l, err := m.List(c.Context, o)
				if *browsers {
					l.Containers = nil
				}
				return a.showList(l, o.Foreign, err)
			})
		},
	}
}

// showList prints what is known even when listErr says that it is not all.
func (a *app) showList(l manager.Listing, foreign bool, listErr error) error {
	l.Containers, l.Browsers = notNil(l.Containers), notNil(l.Browsers)
	err := a.writeList(l, foreign)
	if err != nil || listErr == nil {
		return err
	}
	a.report(listErr)
	return silentStatus(statusFailed)
}

func (a *app) writeList(l manager.Listing, foreign bool) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, l)
	}
	return a.listTable(append(l.Containers, l.Browsers...), foreign).write(a.Stdout)
}

func (a *app) listTable(rows []manager.Row, foreign bool) *table {
	// The provider is said where rows differ in it: a session has a sandbox of
	// each, and both have the same name.
	providers := map[string]bool{}
	for _, r := range rows {
		providers[r.Provider] = true
	}
	delete(providers, "")
	several := len(providers) > 1
	columns := []string{"NAME", "STATUS", "SCOPE", "KEY", "TENANT", "AGENT", "IMAGE", "CONFIG", "AGE", "IDLE"}
	if several {
		columns = slices.Insert(columns, 1, "PROVIDER")
	}
	if foreign {
		columns = append(columns, "INSTANCE")
	}
	t := a.newTable(columns, "TENANT", "SCOPE", "AGE", "AGENT", "IMAGE")
	for _, r := range rows {
		scope, key, idle := string(r.Scope), r.ScopeKey, age(r.IdleSeconds)
		if r.Kind == sandbox.KindPool { // has no session, so it is not idle either
			scope, key, idle = "pool", "free slot", ""
		}
		if r.Kind == sandbox.KindPool && foreign { // whose it is stands in records that are not ours
			key = ""
		}
		cells := []string{r.Name, string(r.Status), scope, key, r.Tenant, r.Agent,
			imageCell(r), marked(short(r.ConfigHash), r.ConfigMatch), age(r.AgeSeconds), idle}
		if several {
			cells = slices.Insert(cells, 1, r.Provider)
		}
		if foreign {
			cells = append(cells, r.Instance)
		}
		t.add(cells...)
	}
	return t
}

// imageCell is empty for a compared sandbox without an image.
func imageCell(r manager.Row) string {
	if r.Image == "" && r.ImageMatch == nil && r.ConfigMatch != nil {
		return ""
	}
	return marked(shortImage(r.Image), r.ImageMatch)
}

// marked adds to a value how it compares with what is wanted now.
func marked(value string, match *bool) string {
	mark := "changed"
	switch {
	case match == nil:
		mark = "?"
	case *match:
		mark = "ok"
	}
	return strings.TrimSpace(value + " " + mark)
}

// notNil makes JSON show an empty list and never null.
func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// listCaches prints the caches of package managers.
func (a *app) listCaches(c *ucli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	return a.useManager(a.options(), func(m Manager) error {
		list, err := m.Caches(c.Context, a.globals.tenant.value)
		if err != nil {
			return err
		}
		if a.globals.json() {
			return writeJSON(a.Stdout, map[string][]manager.Cache{"caches": notNil(list)})
		}
		t := a.newTable([]string{"NAME", "TENANT", "AGENT", "WORKSPACE", "TOOLS", "USED", "BOUND", "IDLE", "SANDBOXES"}, "TENANT", "WORKSPACE")
		for _, k := range list {
			t.add(k.Name, k.Tenant, k.Agent, k.Workspace, strings.Join(k.Tools, ","), units.BytesSize(float64(k.Bytes)), units.BytesSize(float64(k.Size)),
				age(max(0, int64(time.Since(k.UsedAt)/time.Second))), strconv.Itoa(len(k.Sandboxes)))
		}
		return t.write(a.Stdout)
	})
}
