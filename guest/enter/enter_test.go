//go:build linux

package enter

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestOrders(t *testing.T) {
	good := `{"uid":1000,"gid":1000,"sources":["/usr","/home/a b"],"program":"/usr/bin/bwrap","args":["bwrap"],"limits":null}`
	if _, err := parse([]byte(good)); err != nil {
		t.Errorf("a good order: %v", err)
	}
	for name, change := range map[string][2]string{
		"root":              {`"uid":1000`, `"uid":0`},
		"root's group":      {`"gid":1000`, `"gid":0`},
		"no id":             {`"uid":1000`, `"uid":4294967295`},
		"negative":          {`"uid":1000`, `"uid":-1`},
		"relative source":   {`"/usr"`, `"usr"`},
		"climbing source":   {`"/usr"`, `"/a/../usr"`},
		"trailing slash":    {`"/usr"`, `"/usr/"`},
		"NUL":               {`"/usr"`, `"/u\u0000sr"`},
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

func FuzzOrder(f *testing.F) {
	f.Add([]byte(`{"uid":1,"gid":1,"sources":["/a"],"program":"/b","args":["b"]}`))
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
