package secret

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestBindings(t *testing.T) {
	for _, text := range []string{
		"TOKEN@api.example.com", "TOKEN@api.example.com:8443", "TOKEN@a.example,b.example:80", "TOKEN@[2001:db8::1]:443,::1",
		"A_1=env:B@h.example", "A=file:/run/secrets/a@h.example", "A=file:~/.token@h.example", "A=command:gh auth token@h.example",
	} {
		b := written(t, text)
		if targets, err := b.targets(); err != nil || len(targets) != len(b.Hosts) {
			t.Errorf("%s: %v, %v", text, targets, err)
		}
	}
}

func TestBindingsRefused(t *testing.T) {
	tests := []struct{ name, text, why string }{
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
		{"odd variable", "TOKEN=env:s3cr3t-x@h.example", "no name of a variable"},
		{"relative file", "TOKEN=file:s3cr3t@h.example", "not absolute"},
		{"home of another", "TOKEN=file:~bob/x@h.example", "not absolute"},
		{"NUL in a file", "TOKEN=file:/x\x00@h.example", "NUL"},
		{"many hosts", "TOKEN@" + strings.Repeat("a.example,", 64) + "b.example", "1 to 64 hosts"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := written(t, tt.text).targets()
			refused(t, err, sandbox.CodeValidation, tt.why)
		})
	}
}
