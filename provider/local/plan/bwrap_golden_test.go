package plan_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// updating reports whether the flag -update, which other tests of this package
// define, was given.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// TestGolden compares the arguments, probes and stubs of typical sandboxes with
// golden files.
func TestGolden(t *testing.T) {
	for _, tt := range typicals() {
		t.Run(tt.name, func(t *testing.T) {
			_, p, err := plan.Draw(tt.world, tt.host)
			if err != nil {
				t.Fatal(err)
			}
			args := plan.BwrapArgs(p, plan.BwrapOptions{
				MaskFile: "/state/mask", UID: 1000, GID: 1000, Hostname: "sbx", Workdir: "/workspace",
				Env:        map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/home/sandbox", "LANG": "C.UTF-8"},
				SeccompFDs: []int{5}, InfoFD: 6, StatusFD: 7, DisableUserns: true,
			})
			compare(t, "testdata/"+tt.name+".golden", render(args, p))
		})
	}
}

// render writes one argument with its values a line.
func render(args []string, p plan.Plan) string {
	var b strings.Builder
	for i, a := range args {
		switch {
		case i == 0:
			b.WriteString(a)
		case strings.HasPrefix(a, "--"):
			b.WriteString("\n" + a)
		default:
			b.WriteString(" " + a)
		}
	}
	b.WriteString("\n\n")
	for _, s := range p.Placeholders {
		fmt.Fprintf(&b, "stub %s dir=%v\n", s.Path, s.Dir)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note %s\n", n)
	}
	for _, probe := range p.Probes {
		fmt.Fprintf(&b, "probe %s %s: %s\n", probe.Path, probe.Want, probe.Rule)
	}
	fmt.Fprintf(&b, "writable %s\n", strings.Join(p.Writable(), " "))
	fmt.Fprintf(&b, "readable %s\n", strings.Join(p.Readable(), " "))
	return b.String()
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if updating() {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what comes out; run with -update and look at the change:\n%s", file, got)
	}
}

// TestUnknownStep verifies that an unknown step is never left out.
func TestUnknownStep(t *testing.T) {
	args := plan.BwrapArgs(plan.Plan{Ops: []plan.Op{{Kind: "veil", Target: "/x"}}}, plan.BwrapOptions{})
	if !strings.Contains(strings.Join(args, " "), "--unknown-veil") {
		t.Errorf("left out: %q", args)
	}
}
