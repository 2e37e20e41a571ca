package page

import (
	"math"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
)

func TestCleanName(t *testing.T) {
	for suggested, want := range map[string]string{
		"report.txt": "report.txt", "": "download", "..": "download", "../../etc/passwd": "passwd", `C:\x\y.exe`: "y.exe",
		".bashrc": "bashrc", "-rf": "rf", "@file": "file", "~x": "x", "a\x00b\n.txt": "ab.txt", "a\u202etxt.exe": "atxt.exe",
		"a\u00a0b": "a b", "x. . .": "x", "a:b*c?": "a_b_c_", "é漢.pdf": "é漢.pdf", "\xff\xfe": "download", "/": "download",
		strings.Repeat("x", 500) + ".tar":                         strings.Repeat("x", 196) + ".tar",
		strings.Repeat("é", 300):                                  strings.Repeat("é", 100),
		strings.Repeat("x", 300) + "." + strings.Repeat("y", 300): strings.Repeat("x", 200),
	} {
		if got := cleanName(suggested); got != want {
			t.Errorf("%q is %q, want %q", suggested, got, want)
		}
	}
}

func FuzzCleanName(f *testing.F) {
	for _, seed := range []string{"report.txt", "../x", "a\x00", ".x", strings.Repeat("é", 200) + ".x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, suggested string) {
		got := cleanName(suggested)
		if got == "" || len(got) > maxName || !utf8.ValidString(got) || strings.ContainsAny(got, `/\`) || strings.ContainsAny(got[:1], ".-@~ ") {
			t.Errorf("%q is %q", suggested, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("%q is %q", suggested, got)
			}
		}
	})
}

func TestEndpoint(t *testing.T) {
	says := func(url string) string { return `{"Browser":"x","webSocketDebuggerUrl":"` + url + `"}` }
	if got, err := endpointIn(200, []byte(says("ws://127.0.0.1:9222/devtools/browser/4c70ae9a-0cd0"))); err != nil || got != "/devtools/browser/4c70ae9a-0cd0" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []struct {
		status int
		says   string
	}{
		{500, says("ws://127.0.0.1:9222/devtools/browser/4c70")}, {200, ""}, {200, "{}"}, {200, says("ws://other/devtools/page/4c70")},
		{200, says("ws://x/devtools/browser/")}, {200, says("ws://x/devtools/browser/a/../../b")}, {200, says("ws://x/devtools/browser/a?b")},
		{200, says("ws://x/devtools/browser/" + strings.Repeat("a", 65))}, {200, `{"webSocketDebuggerUrl":7}`},
	} {
		if got, err := endpointIn(bad.status, []byte(bad.says)); err == nil {
			t.Errorf("%+v leads to %q", bad, got)
		}
	}
}

func TestCenter(t *testing.T) {
	nan := math.NaN()
	if x, y, ok := center([]dom.Quad{{0, 0, 0, 0, 0, 0, 0, 0}, {1}, {nan, 0, 2, 0, 2, 2, 0, 2}, {10, 10, 20, 10, 20, 30, 10, 30}}); !ok || x != 15 || y != 20 {
		t.Error(x, y, ok)
	}
	if _, _, ok := center(nil); ok {
		t.Error("nothing has a middle")
	}
}

// TestFlatten checks that what is no tree is not followed for ever.
func TestFlatten(t *testing.T) {
	node := func(id, role string, children ...accessibility.NodeID) *accessibility.Node {
		v := jsonv2.Value(`"` + role + `"`)
		return &accessibility.Node{NodeID: accessibility.NodeID(id), Role: &accessibility.Value{Value: v}, ChildIDs: children}
	}
	root := node("1", "main", "2", "3")
	wrap := node("2", "none", "4", "1")
	wrap.ParentID = "1"
	leaf := node("3", "link", "3", "2")
	leaf.ParentID = "1"
	deep := node("4", "button")
	deep.ParentID = "2"
	out, more := flatten([]*accessibility.Node{root, nil, wrap, leaf, deep}, 10)
	if more || len(out) != 3 || out[0].Role != "main" || out[1].Role != "button" || out[1].Depth != 1 || out[2].Role != "link" {
		t.Errorf("%+v, %v", out, more)
	}
	if out, more = flatten([]*accessibility.Node{root, wrap, leaf, deep}, 2); !more || len(out) != 2 {
		t.Errorf("%+v, %v", out, more)
	}
	circle := node("5", "main", "6")
	circle.ParentID = "6"
	other := node("6", "main", "5")
	other.ParentID = "5"
	if out, _ = flatten([]*accessibility.Node{circle, other}, 10); len(out) != 0 {
		t.Errorf("%+v", out)
	}
}
