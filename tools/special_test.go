//go:build linux

package tools

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// TestSpecialFilesHoldNobodyUp holds that pipes and the like are refused or left
// out, and never waited for.
func TestSpecialFilesHoldNobodyUp(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		r.line(`mkdir d; mkfifo d/pipe; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('d/socket')" 2>/dev/null; echo text > d/file; ln -s pipe d/link; ln -s loop d/loop`)
		for _, name := range []string{"pipe", "link", "loop"} {
			for tool, v := range map[string]obj{
				"read": {"path": "d/" + name}, "image": {"path": "d/" + name}, "edit": {"path": "d/" + name, "old": "a", "new": "b"}, "grep": {"pattern": "x", "path": "d/" + name},
				"apply_patch": {"patch": "*** Begin Patch\n*** Delete File: d/" + name + "\n*** End Patch\n"}, "ls": {"path": "d/" + name},
			} {
				ctx, done := context.WithTimeout(t.Context(), 30*time.Second)
				_, err := r.Call(ctx, tool, in(t, v), nil)
				done()
				if c := sandbox.CodeOf(err); c != sandbox.CodeCapabilityBlocked && c != sandbox.CodeValidation {
					t.Errorf("%s %s: %v", tool, name, err)
				}
			}
		}
		d := data[schema.GrepResult](t, r.call("grep", obj{"pattern": "t"}))
		if len(d.Lines) != 1 || d.Search.Files != 1 || d.Search.Unreadable != 0 {
			t.Errorf("%+v", d)
		}
		ls := data[schema.LsResult](t, r.call("ls", obj{"path": "d"}))
		kinds := ""
		for _, e := range ls.Entries {
			kinds += fmt.Sprint(e.Name, " ", e.Kind, " ", e.Target, ";")
		}
		if !strings.Contains(kinds, "file file ;") || !strings.Contains(kinds, "link link pipe;") || !strings.Contains(kinds, "pipe other ;") {
			t.Errorf("%s", kinds)
		}
	})
}

// TestNamesThatLieAreQuoted holds that what a program has put on disk cannot
// forge lines of an answer.
func TestNamesThatLieAreQuoted(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		r.line(`mkdir q; echo hit > "$(printf 'q/a\nforged:1:hit')"; echo hit > "$(printf 'q/\033[31mred')"; echo hit > "$(printf 'q/bad\377')"`)
		for tool, v := range map[string]obj{"ls": {"path": "q"}, "glob": {"pattern": "q/*"}, "grep": {"pattern": "hit"}} {
			a := r.call(tool, v)
			if strings.Contains(a.Text, "\nforged") || strings.Contains(a.Text, "\x1b") || strings.Contains(a.Text, "\xff") {
				t.Errorf("%s: %q", tool, a.Text)
			}
			fits(t, tool, tool, a.Data)
		}
	})
}
