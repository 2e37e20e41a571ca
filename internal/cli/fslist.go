package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// An entry is what is shown of one file. JSON holds text only, so a path that
// is not valid UTF-8 is there in base64, too.
type entry struct {
	Path       string `json:"path"` // absolute, inside
	Name       string `json:"name"`
	Type       string `json:"type"` // file, folder, link, pipe, socket or device
	Size       int64  `json:"size"` // bytes
	Mode       string `json:"mode"` // octal
	Modified   string `json:"mtime"`
	Target     string `json:"target"` // of a link
	PathBase64 string `json:"pathBase64,omitempty"`

	info fs.FileInfo
}

type listView struct {
	Entries []entry `json:"entries"`
}

func (a *app) fsList() *ucli.Command {
	var long, all, zero bool
	return a.fileCommand(fileCommand{
		name: "ls", usage: "list a folder", args: "[PATH]", least: 0, most: 1,
		description: "Without PATH it is /workspace. Names that begin with a dot are listed like all others. Characters that could\n" +
			"control a terminal are escaped; -0 prints names as they are, for programs.",
		flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "l", Usage: "with mode, size, time and what links point to", Destination: &long},
			&ucli.BoolFlag{Name: "a", Hidden: true, Usage: "names that begin with a dot too, which is always so", Destination: &all},
			zeroFlag(&zero),
		},
		check: func() error { return a.onlyNames("fs ls", zero, long) },
		do: func(ctx context.Context, s manager.Share, args []string) error {
			name := "."
			if len(args) > 0 {
				name = args[0]
			}
			entries, err := list(ctx, s, name)
			if err == nil && (long || a.globals.json()) {
				err = readLinks(ctx, s, entries)
			}
			if err != nil {
				return err
			}
			switch {
			case a.globals.json():
				return writeJSON(a.Stdout, listView{entries})
			case long:
				return longTable(entries).write(a.Stdout)
			}
			return a.writeNames(zero, entries, func(e entry) string { return e.Name })
		},
	})
}

func zeroFlag(zero *bool) ucli.Flag {
	return &ucli.BoolFlag{Name: "print0", Aliases: []string{"0"}, Usage: "print names as they are, each followed by a NUL byte", Destination: zero}
}

// onlyNames refuses -0 together with what prints more than names.
func (a *app) onlyNames(op string, zero, long bool) error {
	if zero && (long || a.globals.json()) {
		return usagef(op, "-0 prints names only; it goes with neither -l nor -o json")
	}
	return nil
}

// list returns what is in the folder name, or name itself when it is none.
func list(ctx context.Context, s manager.Share, name string) ([]entry, error) {
	p, err := s.Locate(name)
	if err != nil {
		return nil, err
	}
	info, err := s.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if info, err = s.Lstat(ctx, name); err != nil {
			return nil, err
		}
		return []entry{newEntry(p.Path(), info)}, nil
	}
	found, err := s.ReadDir(ctx, name)
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(found))
	for _, d := range found {
		info, err := d.Info()
		if err != nil {
			return nil, err
		}
		entries = append(entries, newEntry(p.Path()+"/"+d.Name(), info))
	}
	return entries, nil
}

func newEntry(name string, info fs.FileInfo) entry {
	e := entry{
		Path: name, Name: path.Base(name), Type: typeWord(info.Mode()), Size: info.Size(),
		Mode: fmt.Sprintf("%04o", modeBits(info.Mode())), Modified: info.ModTime().UTC().Format(time.RFC3339Nano), info: info,
	}
	if !utf8.ValidString(name) {
		e.PathBase64 = base64.StdEncoding.EncodeToString([]byte(name))
	}
	return e
}

// readLinks fills in what the links among entries point to.
func readLinks(ctx context.Context, l fsbridge.Linker, entries []entry) error {
	for i := range entries {
		if entries[i].Type != "link" {
			continue
		}
		var err error
		if entries[i].Target, err = l.ReadLink(ctx, entries[i].Path); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) fsStat() *ucli.Command {
	var follow bool
	return a.fileCommand(fileCommand{
		name: "stat", usage: "tell type, size, mode and time of files", args: "PATH…", least: 1, most: -1,
		flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "L", Usage: "tell them of what a link leads to, instead of the link", Destination: &follow},
		},
		do: func(ctx context.Context, s manager.Share, args []string) error {
			entries := []entry{}
			failed := each(args, func(name string) error {
				e, err := stat(ctx, s, name, follow)
				if err == nil {
					entries = append(entries, e)
				}
				return err
			})
			if err := a.showStat(entries, len(args)); err != nil {
				return err
			}
			return failed
		},
	})
}

func stat(ctx context.Context, s manager.Share, name string, follow bool) (entry, error) {
	p, err := s.Locate(name)
	if err != nil {
		return entry{}, err
	}
	look := s.Lstat
	if follow {
		look = s.Stat
	}
	info, err := look(ctx, name)
	if err != nil {
		return entry{}, err
	}
	e := []entry{newEntry(p.Path(), info)}
	err = readLinks(ctx, s, e)
	return e[0], err
}

// showStat prints what was found of the paths that were asked for.
func (a *app) showStat(entries []entry, asked int) error {
	switch {
	case a.globals.json() && asked > 1:
		return writeJSON(a.Stdout, listView{entries})
	case len(entries) == 0:
		return nil
	case a.globals.json():
		return writeJSON(a.Stdout, entries[0])
	}
	for i, e := range entries {
		t := &table{}
		t.and("path", e.Path).and("type", e.Type)
		if e.Type == "link" {
			t.add("target", e.Target)
		}
		t.and("size", fmt.Sprint(e.Size)).and("mode", e.Mode+" "+modeText(e.info.Mode())).and("modified", e.info.ModTime().Local().Format("2006-01-02 15:04:05 -0700"))
		if i > 0 {
			io.WriteString(a.Stdout, "\n")
		}
		if err := t.write(a.Stdout); err != nil {
			return err
		}
	}
	return nil
}

func longTable(entries []entry) *table {
	t := newTable("MODE", "SIZE", "MODIFIED", "NAME")
	for _, e := range entries {
		name := e.Name
		if e.Target != "" {
			name += " -> " + e.Target
		}
		t.add(modeText(e.info.Mode()), fmt.Sprint(e.Size), e.info.ModTime().Local().Format("2006-01-02 15:04:05"), name)
	}
	return t
}

// writeNames prints one name per line and safe to look at, or with zero as
// they are.
func (a *app) writeNames(zero bool, entries []entry, name func(entry) string) error {
	var b strings.Builder
	for _, e := range entries {
		if zero {
			b.WriteString(name(e) + "\x00")
		} else {
			b.WriteString(termsafe.Line(name(e)) + "\n")
		}
	}
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}
