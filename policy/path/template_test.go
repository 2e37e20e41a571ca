package path_test

import (
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// TestTemplates holds that templates of secret files stay open, by the table
// and by a rule that closes names by their start, and that a rule which spells
// the ending of a template closes it.
func TestTemplates(t *testing.T) {
	defaults := []string{"**/.env", "**/.env.*", "**/.envrc", "**/credentials.json", "**/secrets.json"}
	tests := []struct {
		rules []string
		name  string // a glob where it has a star
		want  policy.Verdict
	}{
		{defaults, "/w/.env.example", policy.Allow},
		{defaults, "/w/a/.env.sample", policy.Allow},
		{defaults, "/w/.env.template", policy.Allow},
		{defaults, "/w/.env.dist", policy.Allow},
		{defaults, "/w/.env.defaults", policy.Allow},
		{defaults, "/w/.env.production.example", policy.Allow},
		{defaults, "/w/.envrc.example", policy.Allow},
		{defaults, "/w/credentials.json.example", policy.Allow},
		{defaults, "/w/secrets.yml.sample", policy.Allow},
		{defaults, "/w/vault_pass.dist", policy.Allow},
		{defaults, "/w/.env", policy.Deny},
		{defaults, "/w/.env.production", policy.Deny},
		{defaults, "/w/.env.example.local", policy.Deny},
		{defaults, "/w/.env.anexample", policy.Deny},
		{defaults, "/w/.env.", policy.Deny},
		{defaults, "/w/.env.example/secret", policy.Deny},
		{defaults, "/w/.env.d/a.example", policy.Deny},
		{defaults, "/w/.env.example/../.env", policy.Deny},
		{defaults, "/w/*/.env.example", policy.Allow},
		{defaults, "/w/.env.*.example", policy.Allow},
		{defaults, "/w/.e*.example", policy.Allow},
		{defaults, "/w/.env.ex*", policy.Deny},
		{defaults, "/w/.env.exampl[e]", policy.Deny},
		{defaults, "/w/.env*", policy.Deny},
		{defaults, "/w/.env.*/a.example", policy.Deny},
		{[]string{"**/.env.example"}, "/w/.env.example", policy.Deny},
		{[]string{"**/.env.ex*"}, "/w/.env.example", policy.Deny},
		{[]string{"**/.env.ex*"}, "/w/.env.*ample", policy.Deny},
		{[]string{"**/.env.?xample"}, "/w/.env.example", policy.Deny},
		{[]string{"**/*.example"}, "/w/.env.example", policy.Deny},
		{[]string{"**/*.example"}, "/w/.env*.example", policy.Deny},
		{[]string{"/w/**/.e*"}, "/w/.env.example", policy.Allow},
		{[]string{"/w/secret/*"}, "/w/secret/a.example", policy.Deny},
		{[]string{"/w/secret/[a-z]*"}, "/w/secret/a.example", policy.Deny},
		{[]string{"/w/secret"}, "/w/secret/.env.example", policy.Deny},
	}
	for _, tt := range tests {
		for _, fold := range []bool{false, true} {
			p, err := path.New(path.Options{Home: "/home/a", WorkRoots: []string{"/w"}, DenyRead: tt.rules, FoldCase: fold})
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range []sandbox.Operation{sandbox.OpRead, sandbox.OpWrite} {
				judge := p.Judge
				if strings.ContainsAny(tt.name, "*[") {
					judge = p.JudgeGlob
				}
				if d := judge(op, tt.name); d.Verdict != tt.want {
					t.Errorf("%v %s with %q (fold %v): %+v, want %s", op, tt.name, tt.rules, fold, d, tt.want)
				}
			}
		}
	}
}
