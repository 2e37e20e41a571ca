package config_test

import (
	"errors"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy"
)

// TestPathPolicyExpands checks that rules for files match the files that the
// sandbox applies them to: variables are replaced, ~ is the home inside and
// that of the host.
func TestPathPolicyExpands(t *testing.T) {
	tests := []struct {
		name, settings string
		in             config.Inside
		path           string
		read, write    policy.Verdict
	}{
		{"a variable in a deny", `"denyRead": ["$PLACE/keys"]`, config.Inside{}, "/srv/place/keys/a", policy.Deny, policy.Deny},
		{"one in braces", `"denyWrite": ["${PLACE}s"]`, config.Inside{}, "/srv/places/a", policy.Allow, policy.Deny},
		{"a dollar sign", `"denyRead": ["/srv/$$x"]`, config.Inside{}, "/srv/$x", policy.Deny, policy.Deny},
		{"a variable in an allow", `"allowWrite": ["$PLACE"]`, config.Inside{}, "/srv/place/out", policy.Allow, policy.Allow},
		{"the home inside", `"denyRead": ["~/keys"]`, config.Inside{Home: "/home/me"}, "/home/sandbox/keys", policy.Deny, policy.Deny},
		{"the home of the host", `"denyRead": ["~/keys"]`, config.Inside{Home: "/home/me"}, "/home/me/keys", policy.Deny, policy.Deny},
		{"an allow in the home of the host", `"allowWrite": ["~/out"]`, config.Inside{Home: "/home/me"}, "/home/me/out/x", policy.Allow, policy.Allow},
		{"a home that is not shown", `"allowWrite": ["~/out"]`, config.Inside{}, "/home/me/out/x", policy.Allow, policy.Ask},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Env = map[string]string{"PLACE": "/srv/place"}
			p, err := config.PathPolicy(resolved(t, "f", inDefaults(`"filesystem": {`+tt.settings+`}`)), tt.in)
			if err != nil {
				t.Fatal(err)
			}
			r, w := p.Judge(sandbox.OpRead, tt.path), p.Judge(sandbox.OpWrite, tt.path)
			if r.Verdict != tt.read || w.Verdict != tt.write {
				t.Errorf("read %s (%s), write %s (%s)", r.Verdict, r.Message, w.Verdict, w.Message)
			}
		})
	}
}

// TestPathPolicyFailsClosed holds that a rule which cannot be expanded stops
// everything and names its place.
func TestPathPolicyFailsClosed(t *testing.T) {
	for _, rule := range []string{"$NONE/x", "/a/$", "${PLACE", "~other/x"} {
		_, err := config.PathPolicy(resolved(t, "f", inDefaults(`"filesystem": {"denyRead": ["/ok", "`+rule+`"]}`)), config.Inside{})
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != "agents.defaults.sandbox.filesystem.denyRead[1]" {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// TestCommandRulesAreReadWithTheFile holds that a rule for commands which
// cannot be read is found when the settings are, in a file and in a program.
func TestCommandRulesAreReadWithTheFile(t *testing.T) {
	_, err := config.Parse("f", []byte(`{"agents": {"defaults": {"sandbox": {"commands": {"allow": ["ls"]}}}, "list": [{"id": "a", "sandbox": {"commands": {"excluded": ["docker*", " "]}}}]}}`))
	if err == nil || !strings.Contains(err.Error(), "agents.list[0].sandbox.commands.excluded[1]") {
		t.Errorf("%v", err)
	}
	if _, err := config.NewBuilder().BlockCommand("ok", "").Build(); err == nil || !strings.Contains(err.Error(), "commands.block[1]") {
		t.Errorf("%v", err)
	}
}
