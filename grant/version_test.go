package grant

import (
	"regexp"
	"testing"
)

// FuzzForms checks the functions against the patterns that say what they mean.
func FuzzForms(f *testing.F) {
	version := regexp.MustCompile(`^(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}(-[0-9A-Za-z.-]{1,64})?(\+[0-9A-Za-z.-]{1,64})?$`)
	structural := regexp.MustCompile(`^(grant|manifest|op|wish)(\.[a-zA-Z]{1,32}(\[[0-9]{1,5}\])?){0,4}$`)
	for _, s := range []string{
		"", "1.2.3", "0.0.0", "01.2.3", "1.2", "1.2.3.4", "1.2.3-rc.1", "1.2.3+a-b", "1.2.3-a+b", "1.2.3+a+b", "1.2.3-", "1.2.3+", "1.2.3-a_b",
		"1234567890.1.1", "123456789.1.1", "1.2.3\n", "v1.2.3", "-1.2.3", "1.2.3--", "١.2.3",
		"grant", "grant.capabilities[0].path", "manifest.commands[12345].args[0].pattern.x", "op.a.b.c.d.e", "wish.a[]", "wish.a[1", "wish.a[123456]",
		"wish.a[1]]", "wish.a[1]x", "policy.a", "grant.", "grant.a_b", "grant..a", "op.a[1][2]", "grant.ä", "grant\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := isVersion(s), version.MatchString(s); got != want {
			t.Errorf("isVersion(%q) = %v", s, got)
		}
		if got, want := isStructural(s), structural.MatchString(s); got != want {
			t.Errorf("isStructural(%q) = %v", s, got)
		}
	})
}
