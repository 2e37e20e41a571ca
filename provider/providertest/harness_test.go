package providertest

import (
	"reflect"
	"strings"
	"testing"
)

// TestChecksAreNamed holds that check names are unique and fit for -run.
func TestChecksAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		if c.Name == "" || strings.Contains(c.Name, "/") || seen[c.Name] {
			t.Errorf("the name %q is empty, holds a slash or is used twice", c.Name)
		}
		seen[c.Name] = true
		if c.run == nil {
			t.Errorf("%s checks nothing", c.Name)
		}
	}
	if len(seen) < 120 {
		t.Errorf("there are only %d checks; was a group lost?", len(seen))
	}
}

// TestScriptsAreComplete holds that every portable program has a script and
// that a program given wins over it.
func TestScriptsAreComplete(t *testing.T) {
	v := reflect.ValueOf(Programs{}.orScripts())
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			t.Errorf("%s has no script", v.Type().Field(i).Name)
		}
	}
	own := Programs{Fail: func() string { return "own" }}.orScripts()
	if got := own.Fail(); got != "own" {
		t.Errorf("the script %q won over the given program", got)
	}
}
