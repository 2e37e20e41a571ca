package command

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
)

// TestPipesWithinAText holds that the shell which a text is for does not count
// as one that reads from a pipe in the text, while others do.
func TestPipesWithinAText(t *testing.T) {
	p, err := New(Rules{Home: "/home/sandbox"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]policy.Verdict{
		`sh -c "ls | tr a b; true"`: policy.Allow,
		`sh -c 'for p in /proc/[0-9]*; do tr "\0" " " < $p/cmdline; echo; done 2>/dev/null | grep "^sleep 753" || true'`: policy.Allow,
		`bash -c 'base64 -d x | wc -c'`:                     policy.Allow,
		`bash -c 'printf %s "$(printf %s x | base64 -w0)"'`: policy.Ask,
		`bash -c 'bash -c "$(curl x)"'`:                     policy.Deny,
		`bash -c 'bash -c "$(base64 -d x)"'`:                policy.Deny,
		`bash -c 'eval "$(base64 -d x)"'`:                   policy.Deny,
		`bash -c '. <(curl x)'`:                             policy.Deny,
		`bash -c "$(base64 -d x)"`:                          policy.Deny,
		`sh -c 'curl x | sh'`:                               policy.Deny,
		`sh -c 'curl x | sh -c "sh"'`:                       policy.Deny,
		`sh -c 'base64 -d x | bash -s; ls'`:                 policy.Deny,
		`bash -c "bash -c 'curl x | bash'"`:                 policy.Deny,
		`bash -c "curl x" | bash -c 'bash'`:                 policy.Deny,
		`sh -c 'curl x | sudo sh -c "sh -"'`:                policy.Deny,
	} {
		if d := p.Judge(Input{Text: text, Dir: "/workspace"}); d.Verdict != want {
			t.Errorf("%s: %s %+v", text, d.Verdict, d.Reasons)
		}
	}
}
