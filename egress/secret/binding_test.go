package secret

import (
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestParse(t *testing.T) {
	env := func(v string) Source { return Source{Env: v} }
	tests := []struct {
		name, text string
		want       Binding
	}{
		{"own variable", "TOKEN@api.example.com", Binding{"TOKEN", []string{"api.example.com"}, env("TOKEN")}},
		{"port", "TOKEN@api.example.com:8443", Binding{"TOKEN", []string{"api.example.com:8443"}, env("TOKEN")}},
		{"hosts", "TOKEN@a.example,b.example:80", Binding{"TOKEN", []string{"a.example", "b.example:80"}, env("TOKEN")}},
		{"IPv6", "TOKEN@[2001:db8::1]:443,::1", Binding{"TOKEN", []string{"[2001:db8::1]:443", "::1"}, env("TOKEN")}},
		{"another variable", "A_1=env:B@h.example", Binding{"A_1", []string{"h.example"}, env("B")}},
		{"file", "A=file:/run/secrets/a@h.example", Binding{"A", []string{"h.example"}, Source{File: "/run/secrets/a"}}},
		{"file of the home", "A=file:~/.token@h.example", Binding{"A", []string{"h.example"}, Source{File: "~/.token"}}},
		{"file with an at sign", "A=file:/a@b@h.example", Binding{"A", []string{"h.example"}, Source{File: "/a@b"}}},
		{"file with an equals sign", "A=file:/a=b@h.example", Binding{"A", []string{"h.example"}, Source{File: "/a=b"}}},
		{"command", "A=command:gh auth token@h.example", Binding{"A", []string{"h.example"}, Source{Command: []string{"gh", "auth", "token"}}}},
		{"command with more spaces", "A=command: pass  show  me@you/x @h.example", Binding{"A", []string{"h.example"}, Source{Command: []string{"pass", "show", "me@you/x"}}}},
		{"command with a colon", "A=command:op read op://v/i?attribute=otp@h.example", Binding{"A", []string{"h.example"}, Source{Command: []string{"op", "read", "op://v/i?attribute=otp"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.text)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %#v, %v", got, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, text, why string }{
		{"empty", "", "host is missing"},
		{"no host", "TOKEN", "host is missing"},
		{"empty host", "TOKEN@", "cannot be bound"},
		{"empty host in the list", "TOKEN@a.example,", "cannot be bound"},
		{"no name", "@h.example", "name is not that of a variable"},
		{"digit first", "1A@h.example", "name is not that of a variable"},
		{"dash", "A-B@h.example", "name is not that of a variable"},
		{"letters of the world", "Ä@h.example", "name is not that of a variable"},
		{"long name", strings.Repeat("A", 129) + "@h.example", "name is not that of a variable"},
		{"wildcard", "TOKEN@*.example.com", "wildcard"},
		{"everything", "TOKEN@*", "wildcard"},
		{"wildcard among others", "TOKEN@a.example,*.b.example", "wildcard"},
		{"URL", "TOKEN@https://h.example/", "cannot be bound"},
		{"port 0", "TOKEN@h.example:0", "cannot be bound"},
		{"port of words", "TOKEN@h.example:https", "cannot be bound"},
		{"control character", "TOKEN@h.exam\nple", "cannot be bound"},
		{"inline value", "TOKEN=s3cr3t-value@h.example", "no source"},
		{"inline value with colon", "TOKEN=s3cr3t:value@h.example", "no source"},
		{"inline spelled as such", "TOKEN=value:s3cr3t@h.example", "no source"},
		{"upper case kind", "TOKEN=ENV:A@h.example", "no source"},
		{"nothing behind the sign", "TOKEN=@h.example", "no source"},
		{"no variable", "TOKEN=env:@h.example", "no source"},
		{"odd variable", "TOKEN=env:s3cr3t-x@h.example", "no name of a variable"},
		{"relative file", "TOKEN=file:s3cr3t@h.example", "not absolute"},
		{"home of another", "TOKEN=file:~bob/x@h.example", "not absolute"},
		{"NUL in a file", "TOKEN=file:/x\x00@h.example", "NUL"},
		{"spaces for a command", "TOKEN=command:  @h.example", "no source"},
		{"quotes", "TOKEN=command:sh -c 'echo s3cr3t'@h.example", "only a shell knows"},
		{"variable in a command", "TOKEN=command:echo $HOME@h.example", "only a shell knows"},
		{"pipe", "TOKEN=command:a|b@h.example", "only a shell knows"},
		{"glob", "TOKEN=command:cat *@h.example", "only a shell knows"},
		{"line break", "TOKEN=command:a\nb@h.example", "only a shell knows"},
		{"many hosts", "TOKEN@" + strings.Repeat("a.example,", 64) + "b.example", "1 to 64 hosts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.text)
			refused(t, err, sandbox.CodeValidation, tt.why)
		})
	}
}

// FuzzParse holds that what is accepted is complete, and that no spelling has
// the value in it: what is between the signs is a source or refused, and no
// refusal repeats it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"TOKEN@h.example", "A=env:B@[::1]:1", "A=file:/x@h", "A=command:a b@h,i", "A=zzzsecretzzz@h", "=@", "A=:@h", "@@"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := Parse(text)
		if err != nil {
			if i, j := strings.IndexByte(text, '='), strings.LastIndexByte(text, '@'); i >= 0 && j > i+12 && strings.Contains(err.Error(), text[i+1:j]) &&
				!strings.Contains(text[:i]+text[j:], text[i+1:j]) {
				t.Errorf("%q: the error repeats the source: %v", text, err)
			}
			return
		}
		targets, err := b.targets()
		if err != nil || len(targets) == 0 || b.From.check() != nil {
			t.Errorf("%q gives %+v, %v", text, b, err)
		}
		for _, target := range targets {
			if strings.ContainsAny(target.host.String(), "*@/ ") || target.host.IsZero() {
				t.Errorf("%q is bound to %q", text, target.host)
			}
		}
	})
}

func TestBindingsRefused(t *testing.T) {
	host := []string{"h.example"}
	tests := []struct {
		name, why string
		bindings  []Binding
	}{
		{"no source", "no source", []Binding{{"A", host, Source{}}}},
		{"two sources", "more than one source", []Binding{{"A", host, Source{Env: "A", File: "/a"}}}},
		{"no host", "1 to 64 hosts", []Binding{{"A", nil, Source{Env: "TOKEN"}}}},
		{"empty program", "without a program", []Binding{{"A", host, Source{Command: []string{"", "x"}}}}},
		{"NUL in an argument", "NUL", []Binding{{"A", host, Source{Command: []string{"a", "\x00"}}}}},
		{"bound twice", "bound twice", []Binding{{"A", host, Source{Env: "TOKEN"}}, {"A", []string{"i.example"}, Source{Env: "OTHER"}}}},
		{"too many", "more than 64", make([]Binding, 65)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewSet(t.Context(), tt.bindings, newRig().deps())
			refused(t, err, sandbox.CodeValidation, tt.why)
		})
	}
}
