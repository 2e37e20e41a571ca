package secret

import (
	"encoding/base64"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestSwap uses $A and $B for the stand-ins of two secrets, and {…} for
// base64.
func TestSwap(t *testing.T) {
	s := newRig().set(t, "A=env:TOKEN@h.example", "B=env:OTHER@h.example,i.example:80,[::1]:8443", "C=env:TOKEN@elsewhere.example")
	const other = "another-secret-0815"
	b64 := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	stand := strings.NewReplacer("$A", s.Env()["A"], "$B", s.Env()["B"], "$C", s.Env()["C"])
	basic := func(text string) string { return "Basic " + b64(stand.Replace(text)) }
	tests := []struct {
		name        string
		host        string
		port        uint16
		tls         bool
		field, from string
		want        string // the same as from when empty
		names       []string
	}{
		{"bearer", "h.example", 443, true, "Authorization", "Bearer $A", "Bearer " + value, []string{"A"}},
		{"another field", "h.example", 443, true, "X-Api-Key", "$A", value, []string{"A"}},
		{"cookie", "h.example", 443, true, "Cookie", "a=1; t=$B; c=2", "a=1; t=" + other + "; c=2", []string{"B"}},
		{"twice", "h.example", 443, true, "X", "$B,$B", other + "," + other, []string{"B"}},
		{"two", "h.example", 443, true, "X", "$B$A", other + value, []string{"A", "B"}},
		{"part of a word", "h.example", 443, true, "X", "x$By", "x" + other + "y", []string{"B"}},
		{"password", "h.example", 443, true, "Authorization", basic("me:$A"), "Basic " + b64("me:"+value), []string{"A"}},
		{"user name", "h.example", 443, true, "Authorization", basic("$B:x-oauth-basic"), "Basic " + b64(other+":x-oauth-basic"), []string{"B"}},
		{"user name and password", "h.example", 443, true, "Authorization", basic("$A:$B"), "Basic " + b64(value+":"+other), []string{"A", "B"}},
		{"basic in lower case", "h.example", 443, true, "Authorization", strings.Replace(basic("me:$B"), "Basic", "basic ", 1), "basic  " + b64("me:"+other), []string{"B"}},
		{"basic without padding", "h.example", 443, true, "Authorization", strings.TrimRight(basic("m:$B"), "="), "Basic " + b64("m:"+other), []string{"B"}},
		{"basic that is no base64", "h.example", 443, true, "Authorization", "Basic $B", "Basic " + other, []string{"B"}},
		{"basic of a proxy", "h.example", 443, true, "Proxy-Authorization", basic("me:$A"), "", nil},
		{"field of a proxy", "h.example", 443, true, "Proxy-X", "$A", "", nil},
		{"field of a proxy in lower case", "h.example", 443, true, "proxy-x", "$A", "", nil},
		{"base64 elsewhere", "h.example", 443, true, "X-Auth", basic("me:$A"), "", nil},
		{"no stand-in", "h.example", 443, true, "X", "hello", "", nil},
		{"name of the secret", "h.example", 443, true, "X", "A $ {A}", "", nil},
		{"stand-in in capitals", "h.example", 443, true, "X", strings.ToUpper(s.Env()["A"]), "", nil},
		{"half of a stand-in", "h.example", 443, true, "X", s.Env()["A"][:40], "", nil},
		{"percent-encoded", "h.example", 443, true, "X", strings.ReplaceAll(s.Env()["A"], "_", "%5F"), "", nil},
		{"bound to another host", "h.example", 443, true, "X", "$C", "", nil},
		{"both kinds", "h.example", 443, true, "X", "$C $B", "$C " + other, []string{"B"}},
		{"host without any", "www.example", 443, true, "X", "$A$B$C", "", nil},
		{"host below", "a.h.example", 443, true, "X", "$A", "", nil},
		{"host above", "example", 443, true, "X", "$A", "", nil},
		{"another port", "h.example", 8443, true, "X", "$A", "", nil},
		{"plain HTTP", "h.example", 80, false, "X", "$A", "", nil},
		{"plain HTTP on the port of TLS", "h.example", 443, false, "X", "$A", "", nil},
		{"plain HTTP to a named port", "i.example", 80, false, "X", "$B", other, []string{"B"}},
		{"TLS to a named port", "i.example", 80, true, "X", "$B", other, []string{"B"}},
		{"default port where one is named", "i.example", 443, true, "X", "$B", "", nil},
		{"IPv6", "::1", 8443, true, "X", "$B", other, []string{"B"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from := stand.Replace(tt.from)
			want := stand.Replace(tt.want)
			if tt.want == "" {
				want = from
			}
			header := http.Header{tt.field: {"first", from}, "X-Beside": {"beside"}}
			names, err := s.Swap(t.Context(), hostOf(t, tt.host), tt.port, tt.tls, header)
			if err != nil || !slices.Equal(names, tt.names) {
				t.Errorf("put in %v, %v; want %v", names, err, tt.names)
			}
			if expect := (http.Header{tt.field: {"first", want}, "X-Beside": {"beside"}}); !reflect.DeepEqual(header, expect) {
				t.Errorf("got %q, want %q", header, expect)
			}
		})
	}
}

func TestNamesAreLeftAlone(t *testing.T) {
	s := newRig().set(t, "A=env:TOKEN@h.example")
	header := http.Header{s.Env()["A"]: {"x"}}
	if names, err := s.Swap(t.Context(), hostOf(t, "h.example"), 443, true, header); names != nil || err != nil || header[s.Env()["A"]] == nil {
		t.Errorf("put in %v, %v: %q", names, err, header)
	}
}

// TestValuesAreNotReadAgain checks that inserted values are final, also if a
// value looks like a stand-in of another secret.
func TestValuesAreNotReadAgain(t *testing.T) {
	r := newRig()
	s := r.set(t, "A=env:TOKEN@h.example", "B=env:OTHER@h.example")
	s.in.secrets[0].value = []byte("x" + s.Env()["B"]) // the stand-in is not known before
	if got, err := swapped(t, s, "h.example", s.Env()["A"]); got != "x"+s.Env()["B"] || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestRequestsStayBounded checks that a short request does not become a huge one.
func TestRequestsStayBounded(t *testing.T) {
	r := newRig()
	r.env["TOKEN"] = strings.Repeat("x", maxValue)
	s := r.set(t, "A=env:TOKEN@h.example")
	standIn := s.Env()["A"]
	for name, header := range map[string]http.Header{
		"one field":   {"X": {strings.Repeat(standIn, 17)}},
		"many fields": {"X": slices.Repeat([]string{standIn}, 17)},
		"basic":       {"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(standIn, 17)))}},
	} {
		before := header.Clone()
		_, err := s.Swap(t.Context(), hostOf(t, "h.example"), 443, true, header)
		refused(t, err, sandbox.CodeValidation, "262144 bytes")
		if !reflect.DeepEqual(header, before) {
			t.Errorf("%s: the request was changed", name)
		}
	}
}

// TestNothingIsSwappedWhenOneFails checks that a request is refused as a whole,
// and only when it needs the value that cannot be read.
func TestNothingIsSwappedWhenOneFails(t *testing.T) {
	r := newRig()
	path := t.TempDir() + "/s"
	write(t, path, value)
	s := r.set(t, "A=env:TOKEN@h.example", "B=file:"+path+"@h.example")
	write(t, path, "short")
	field := "Bearer " + s.Env()["A"] + s.Env()["B"]
	got, err := swapped(t, s, "h.example", field)
	refused(t, err, sandbox.CodeValidation, "shorter than 8")
	if got != field {
		t.Errorf("it became %q", got)
	}
	if got, err := swapped(t, s, "h.example", s.Env()["A"]); got != value || err != nil {
		t.Errorf("the other one: %q, %v", got, err)
	}
}

func TestBound(t *testing.T) {
	s := newRig().set(t, "A=env:TOKEN@H.example.", "B=env:OTHER@i.example:80,10.0.0.1:443")
	for target, want := range map[string]bool{
		"h.example:443": true, "h.example:80": false, "h.example:8443": false, "i.example:80": true, "i.example:443": false,
		"10.0.0.1:443": true, "10.0.0.2:443": false, "a.h.example:443": false, "example:443": false,
	} {
		i := strings.LastIndexByte(target, ':')
		port := map[string]uint16{"443": 443, "80": 80, "8443": 8443}[target[i+1:]]
		if got := s.Bound(hostOf(t, target[:i]), port); got != want {
			t.Errorf("%s: %t", target, got)
		}
	}
	if (*Set)(nil).Bound(hostOf(t, "h.example"), 443) {
		t.Error("no secrets are bound somewhere")
	}
}

func TestStandIns(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		s := newRig().set(t, "A=env:TOKEN@h.example", "LONG_NAME=env:TOKEN@h.example")
		for name, v := range s.Env() {
			if !strings.HasPrefix(v, standInPrefix) || len(v) != len(standInPrefix)+32 || strings.Trim(v, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
				t.Fatalf("%s has %q", name, v)
			}
			if seen[v] {
				t.Fatalf("%q was given twice", v)
			}
			seen[v] = true
		}
	}
}

func TestNoSet(t *testing.T) {
	var s *Set
	header := http.Header{"X": {"y"}}
	names, err := s.Swap(t.Context(), hostOf(t, "h.example"), 443, true, header)
	s.ScrubHeader(header)
	if names != nil || err != nil || len(s.Env()) != 0 || s.Names() != nil || s.ScrubString("x") != "x" || header.Get("X") != "y" || s.ScrubBody(nil) != nil {
		t.Errorf("no Set does something: %v, %v", names, err)
	}
}

// TestManyAtOnce swaps, scrubs and reads changed sources from many goroutines,
// until the Set is closed under them.
func TestManyAtOnce(t *testing.T) {
	r := newRig()
	path := t.TempDir() + "/s"
	write(t, path, "value-number-0")
	s := r.set(t, "A=env:TOKEN@h.example", "B=file:"+path+"@h.example")
	a, b := s.Env()["A"], s.Env()["B"]
	var users, writer sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 200 {
				header := http.Header{"X": {a}, "Y": {b}}
				names, err := s.Swap(t.Context(), hostOf(t, "h.example"), 443, true, header)
				if err != nil { // the file was replaced in between, or the Set closed
					continue
				}
				if len(names) != 2 || header.Get("X") != value || !strings.HasPrefix(header.Get("Y"), "value-number-") {
					t.Errorf("put in %v: %q", names, header)
				}
				s.ScrubHeader(header)
				if got := header.Get("X"); got != a && got != "" {
					t.Errorf("scrubbed to %q", got)
				}
				if got := header.Get("Y"); got != b && got != "" {
					t.Errorf("scrubbed to %q", got)
				}
			}
		})
	}
	writer.Go(func() {
		for i := range 20 {
			write(t, path, "value-number-"+strings.Repeat("x", i))
		}
	})
	writer.Wait()
	must(t, s.Close())
	users.Wait()
	if got, err := swapped(t, s, "h.example", a); err == nil || got != a {
		t.Errorf("after Close: %q, %v", got, err)
	}
}
