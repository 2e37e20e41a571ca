//go:build linux

package enter

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestOrders(t *testing.T) {
	good := `{"uid":1000,"gid":1000,"sources":["L3Vzcg==","L2hvbWUvYSBi"],"program":"/usr/bin/bwrap","args":["bwrap"],"limits":null}`
	if _, err := parse([]byte(good)); err != nil {
		t.Errorf("a good order: %v", err)
	}
	for name, change := range map[string][2]string{
		"root":              {`"uid":1000`, `"uid":0`},
		"root's group":      {`"gid":1000`, `"gid":0`},
		"no id":             {`"uid":1000`, `"uid":4294967295`},
		"negative":          {`"uid":1000`, `"uid":-1`},
		"relative source":   {`"L3Vzcg=="`, `"dXNy"`},
		"climbing source":   {`"L3Vzcg=="`, `"L2EvLi4vdXNy"`},
		"trailing slash":    {`"L3Vzcg=="`, `"L3Vzci8="`},
		"NUL":               {`"L3Vzcg=="`, `"L3UAc3I="`},
		"relative program":  {`"/usr/bin/bwrap"`, `"bwrap"`},
		"no arguments":      {`["bwrap"]`, `[]`},
		"an unknown wish":   {`"limits"`, `"capabilities"`},
		"what is no object": {good, `[]`},
		"nothing":           {good, ``},
	} {
		if o, err := parse([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("%s is taken: %+v", name, o)
		}
	}
}

// TestSourcesArriveAsTheyAre holds that a path that is no text is not
// exchanged for another one.
func TestSourcesArriveAsTheyAre(t *testing.T) {
	want := Order{UID: 1, GID: 1, Program: "/b", Args: []string{"b"}, Sources: Paths{"/a\xff", "/a\ufffd", "/a\nb\"", "/\xed\xa0\x80"}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parse(b); err != nil || !slices.Equal(got.Sources, want.Sources) {
		t.Errorf("%q, %v", got.Sources, err)
	}
}

func FuzzOrder(f *testing.F) {
	f.Add([]byte(`{"uid":1,"gid":1,"sources":["L2E="],"program":"/b","args":["b"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parse(b)
		if err != nil {
			return
		}
		if o.UID <= 0 || o.GID <= 0 || !strings.HasPrefix(o.Program, "/") {
			t.Errorf("%q is %+v", b, o)
		}
		again, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(again); err != nil {
			t.Errorf("%q is an order and %q is none: %v", b, again, err)
		}
	})
}
