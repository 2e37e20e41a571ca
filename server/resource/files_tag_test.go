package resource

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestReadCondition(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		values []string
		given  bool
		any    bool
		tags   string // joined by spaces
		ok     bool
	}{
		{"none", nil, false, false, "", true},
		{"star", []string{"*"}, true, true, "", true},
		{"one", []string{`"a"`}, true, false, `"a"`, true},
		{"weak and strong", []string{`W/"a", "b"`}, true, false, `W/"a" "b"`, true},
		{"two headers", []string{`"a"`, `"b"`}, true, false, `"a" "b"`, true},
		{"a comma in a tag", []string{`"a,b"`}, true, false, `"a,b"`, true},
		{"empty places", []string{`, ,"a",,`}, true, false, `"a"`, true},
		{"empty", []string{""}, true, false, "", false},
		{"no quotes", []string{"a"}, true, false, "", false},
		{"one quote", []string{`"a`}, true, false, "", false},
		{"star among tags", []string{`"a", *`}, true, false, "", false},
		{"nothing between", []string{`"a""b"`}, true, false, "", false},
		{"lower w", []string{`w/"a"`}, true, false, "", false},
		{"a space in it", []string{`"a b"`}, true, false, "", false},
		{"too many", []string{strings.Repeat(`"a",`, maxTags+1)}, true, false, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, ok := readCondition(tt.values)
			var tags []string
			for _, tag := range c.tags {
				tags = append(tags, tag.String())
			}
			if ok != tt.ok || c.given != tt.given || c.any != tt.any || ok && strings.Join(tags, " ") != tt.tags {
				t.Errorf("%+v %v", c, ok)
			}
		})
	}
}

func TestTagsCompare(t *testing.T) {
	t.Parallel()
	strong, weak := tag{value: "a"}, tag{weak: true, value: "a"}
	for _, tt := range []struct {
		name             string
		a, b             tag
		strongly, weakly bool
	}{
		{"strong", strong, strong, true, true},
		{"one weak", strong, weak, false, true},
		{"both weak", weak, weak, false, true},
		{"others", strong, tag{value: "b"}, false, false},
	} {
		if tt.a.strongly(tt.b) != tt.strongly || tt.a.weakly(tt.b) != tt.weakly {
			t.Errorf("%s: %v %v", tt.name, tt.a.strongly(tt.b), tt.a.weakly(tt.b))
		}
	}
}

func TestReadRange(t *testing.T) {
	t.Parallel()
	const size = 10
	for _, tt := range []struct {
		header string
		want   span
		kind   ranged
	}{
		{"bytes=0-0", span{0, 1}, part},
		{"bytes=2-5", span{2, 4}, part},
		{"bytes=5-", span{5, 5}, part},
		{"bytes=9-100", span{9, 1}, part},
		{"bytes=-3", span{7, 3}, part},
		{"bytes=-100", span{0, 10}, part},
		{"Bytes = 1-2", span{1, 2}, part},
		{"bytes=9-99999999999999999999999999", span{9, 1}, part},
		{"bytes=-99999999999999999999999999", span{0, 10}, part},
		{"bytes=00-01", span{0, 2}, part},
		{"bytes=10-", span{}, unsatisfiable},
		{"bytes=10-20", span{}, unsatisfiable},
		{"bytes=-0", span{}, unsatisfiable},
		{"bytes=9223372036854775807-9223372036854775807", span{}, unsatisfiable},
		{"bytes=99999999999999999999-", span{}, unsatisfiable},
		{"bytes=5-4", span{}, whole},
		{"bytes=99999999999999999999-1", span{}, whole},
		{"bytes=0-1,3-4", span{}, whole},
		{"bytes=-", span{}, whole},
		{"bytes=", span{}, whole},
		{"bytes", span{}, whole},
		{"lines=0-1", span{}, whole},
		{"bytes=+1-2", span{}, whole},
		{"bytes=1--2", span{}, whole},
		{"bytes=0x1-2", span{}, whole},
		{"bytes=1-2-3", span{}, whole},
	} {
		if got, kind := readRange([]string{tt.header}, size); got != tt.want || kind != tt.kind {
			t.Errorf("%q: %+v %v, want %+v %v", tt.header, got, kind, tt.want, tt.kind)
		}
	}
	if _, kind := readRange([]string{"bytes=0-1", "bytes=0-1"}, size); kind != whole {
		t.Errorf("two headers: %v", kind)
	}
	if _, kind := readRange([]string{"bytes=-1"}, 0); kind != unsatisfiable {
		t.Errorf("of nothing: %v", kind)
	}
}

// FuzzReadRange holds that the answered range is always within the content.
func FuzzReadRange(f *testing.F) {
	for _, s := range []string{"bytes=0-0", "bytes=-5", "bytes=5-", "bytes=9999999999999999999-", "bytes=1-0", ""} {
		f.Add(s, int64(10))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		got, kind := readRange([]string{header}, size)
		if kind == part && (got.start < 0 || got.length <= 0 || got.start > size-got.length) {
			t.Errorf("%q of %d: %+v", header, size, got)
		}
		if kind != part && got != (span{}) {
			t.Errorf("%q of %d: %+v without a part", header, size, got)
		}
	})
}

// FuzzReadCondition holds that a parsed list has a text form that parses to the
// same list.
func FuzzReadCondition(f *testing.F) {
	for _, s := range []string{"*", `"a"`, `W/"a", "b"`, `"`, `W/`, `,,,`, "\"a\" \t,\"b\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		c, ok := readCondition([]string{header})
		if !ok || c.any {
			return
		}
		var again []string
		for _, tag := range c.tags {
			again = append(again, tag.String())
		}
		d, ok := readCondition(again)
		if !ok || len(d.tags) != len(c.tags) {
			t.Fatalf("%q became %q", header, again)
		}
		for i := range c.tags {
			if c.tags[i] != d.tags[i] {
				t.Errorf("%q: %v and %v", header, c.tags[i], d.tags[i])
			}
		}
	})
}

func TestPath(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 256)
	for _, tt := range []struct {
		rest, want string
	}{
		{"", "/"}, {"workspace", "/workspace"}, {"workspace/", "/workspace"}, {"workspace/a b", "/workspace/a b"},
		{"workspace/...", "/workspace/..."}, {"workspace/-rf", "/workspace/-rf"}, {`workspace/a\b`, `/workspace/a\b`},
		{"workspace/\u202ex", "/workspace/\u202ex"}, {"workspace/\xff", "/workspace/\xff"},
		{"..", ""}, {"workspace/..", ""}, {"workspace/../etc", ""}, {"./workspace", ""}, {"/etc", ""}, {"workspace//a", ""},
		{"workspace/a//", ""}, {"workspace/\x00", ""}, {"workspace/" + long, ""}, {strings.Repeat("a/", 2100), ""},
	} {
		got, err := pathFiles(tt.rest)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %q %v", tt.rest, got, err)
		}
	}
}

func TestInside(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, want string }{
		{".", "/workspace"}, {"a b", "/workspace/a b"}, {"/tmp/x", "/tmp/x"}, {"file:///workspace/a%20b", "/workspace/a b"}, {"sandbox:///workspace/x", "/workspace/x"},
		{"", ""}, {"file:x", ""}, {"file://host/x", ""}, {"https://example.com/x", ""}, {"file:///workspace/%2e%2e/etc", ""}, {"file:///workspace/%00", ""},
	} {
		got, err := insideFiles("from", tt.name)
		var e *sandbox.Error
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && (!errors.As(err, &e) || e.Field != "from") {
			t.Errorf("%q: %q %v", tt.name, got, err)
		}
	}
}
