package seccomp

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kernelNumbers returns the system calls of a processor by name, as generated
// from the kernel's headers into package unix.
func kernelNumbers(t *testing.T, goarch string) map[string]uint32 {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "unix", "zsysnum_linux_"+goarch+".go"))
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint32{}
	for _, match := range regexp.MustCompile(`(?m)^\s*SYS_(\w+)\s*=\s*(\d+)$`).FindAllStringSubmatch(string(source), -1) {
		n, err := strconv.ParseUint(match[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		m[strings.ToLower(match[1])] = uint32(n)
	}
	if len(m) < 250 {
		t.Fatalf("only %d calls of %s were found", len(m), goarch)
	}
	return m
}

// TestNumbers verifies that the table has the kernel's numbers, and that no
// kernel call is newer than newest, so that every new call is reviewed before
// newest is raised.
func TestNumbers(t *testing.T) {
	highest := uint32(0)
	for goarch, a := range architectures(t) {
		known := kernelNumbers(t, goarch)
		for name, both := range numbers() {
			want, there := known[name]
			if got := both[a.column]; there != (got != none) || there && uint32(got) != want {
				t.Errorf("%s has the number %d on %s, want %d, %v", name, got, goarch, want, there)
			}
		}
		for _, n := range known {
			highest = max(highest, n)
		}
	}
	if highest != newest {
		t.Errorf("the newest call is %d and the tables know up to %d: decide about those between, then raise it", highest, newest)
	}
}

// TestEveryNumberIsUsed verifies that each call that a rule names has a number.
func TestEveryNumberIsUsed(t *testing.T) {
	named := map[string]bool{}
	for _, r := range append(filterRules(), slices.Concat(commandRules(Options{Observe: true}), commandRules(Options{Observe: true, OwnSockets: true}), commandRules(Options{Observe: true, Shared: true}))...) {
		named[r.call] = true
		if _, known := numbers()[r.call]; !known {
			t.Errorf("%s has no number", r.call)
		}
	}
	for name := range numbers() {
		if !named[name] {
			t.Errorf("%s is in the table and in no rule", name)
		}
	}
}
