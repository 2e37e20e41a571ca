package cli

import (
	"strings"
	"testing"
)

// TestServerFlag holds by which flags and variables a command names its daemon.
func TestServerFlag(t *testing.T) {
	for _, tt := range []struct {
		name, server, host, args, want string
	}{
		{"no daemon", "", "", "list", ""},
		{"the flag before", "", "", "--server unix:/a list", "unix:/a"},
		{"the flag behind", "", "", "list --server unix:/a", "unix:/a"},
		{"the older flag", "", "", "--host unix:/a list", "unix:/a"},
		{"both, and the last counts", "", "", "--host unix:/a list --server unix:/b", "unix:/b"},
		{"the variable", "unix:/a", "", "list", "unix:/a"},
		{"the older variable", "", "unix:/a", "list", "unix:/a"},
		{"both variables", "unix:/a", "unix:/b", "list", "unix:/a"},
		{"a flag over variables", "unix:/a", "unix:/b", "--server unix:/c list", "unix:/c"},
		{"an empty flag over variables", "unix:/a", "unix:/b", "--server= list", ""},
		{"an empty older flag", "unix:/a", "unix:/b", "--host= list", ""},
		{"explain, whose --host is another", "", "", "explain --host a.example --server unix:/a", "unix:/a"},
		{"explain, with the older flag before", "", "", "--host unix:/a explain --host a.example", "unix:/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("SANDBOX_SERVER", tt.server)
			t.Setenv("SANDBOX_HOST", tt.host)
			f := &fake{}
			if r := call(t, f, strings.Fields(tt.args)...); r.status != 0 || f.options.Host.Address != tt.want {
				t.Errorf("status %d, address %q, want %q: %s", r.status, f.options.Host.Address, tt.want, r.stderr)
			}
			if strings.HasPrefix(tt.args, "explain") && f.questions.Host != "a.example" {
				t.Errorf("explain asks about %q", f.questions.Host)
			}
		})
	}
	if help := call(t, &fake{}, "list", "--help").stdout; !strings.Contains(help, "--server") || strings.Contains(help, "--host") {
		t.Errorf("the help is %s", help)
	}
}
