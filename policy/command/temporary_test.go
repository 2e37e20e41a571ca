package command

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// TestTemporary holds that a line may name temporary files for writing below the
// prefixes alone, however it spells them.
func TestTemporary(t *testing.T) {
	paths, err := path.New(path.Options{Home: caseHome, WorkRoots: []string{caseDir}, TempOnly: true, TempPrefixes: []string{"/tmp/ours"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Strictness{Permissive, Normal, Restricted} {
		p := newPolicy(t, Rules{Strictness: s, Paths: paths})
		for text, want := range map[string]policy.Verdict{
			"echo x > /tmp/x":                              policy.Deny,
			"echo x >> /var/tmp/x":                         policy.Deny,
			"cd /tmp && touch x":                           policy.Deny,
			"cp a /tmp/oursx":                              policy.Deny,
			"tar xzf a.tgz -C /tmp/b":                      policy.Deny,
			"curl -o /tmp/y https://example.com/y":         policy.Deny,
			"rm -f /tmp/b*":                                policy.Deny,
			"echo x > /tmp/ours/../x":                      policy.Deny,
			"bash -c 'echo x > /tmp/x'":                    policy.Deny,
			"cat /tmp/x":                                   policy.Allow,
			"mkdir -p /tmp/ours && echo x > /tmp/ours/a/b": policy.Allow,
			"cd /tmp/ours && touch x":                      policy.Allow,
			"rm -f /tmp/ours/*.o":                          policy.Allow,
			"echo 'x > /tmp/x'":                            policy.Allow,
			"echo x > out.txt 2> /dev/null":                policy.Allow,
		} {
			d := p.Judge(Input{Text: text, Dir: caseDir})
			holds(t, text, d)
			if d.Verdict != want || want == policy.Deny && !hasReason(d, "temporary/filesystem.tempPrefixes", policy.Deny) {
				t.Errorf("%s: %q: %s, want %s: %+v", s, text, d.Verdict, want, d.Reasons)
			}
		}
	}
}
