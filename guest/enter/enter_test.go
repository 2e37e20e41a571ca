//go:build linux

package enter

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func order() Order {
	return Order{
		UID: 1000, GID: 1000, Sources: []string{"/usr", "/home/a b"}, Program: "/usr/bin/bwrap", Args: []string{"bwrap", ""},
		Limits: []Limit{{Resource: 7, Soft: 1, Hard: 1<<64 - 1}},
	}
}

func TestOrders(t *testing.T) {
	good, err := order().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parse(good); err != nil || !reflect.DeepEqual(got, order()) {
		t.Errorf("a good order is %+v, %v", got, err)
	}
	for name, change := range map[string]func(*Order){
		"root":             func(o *Order) { o.UID = 0 },
		"root's group":     func(o *Order) { o.GID = 0 },
		"no id":            func(o *Order) { o.UID = 1<<32 - 1 },
		"negative":         func(o *Order) { o.UID = -1 },
		"relative source":  func(o *Order) { o.Sources[0] = "usr" },
		"climbing source":  func(o *Order) { o.Sources[0] = "/a/../usr" },
		"trailing slash":   func(o *Order) { o.Sources[0] = "/usr/" },
		"NUL":              func(o *Order) { o.Sources[0] = "/u\x00sr" },
		"relative program": func(o *Order) { o.Program = "bwrap" },
		"no arguments":     func(o *Order) { o.Args = nil },
		"many sources":     func(o *Order) { o.Sources = make([]string, maxSources+1) },
	} {
		o := order()
		change(&o)
		if _, err := o.Encode(); err == nil {
			t.Errorf("%s is written", name)
		}
	}
	// What is read is checked by itself.
	for name, change := range map[string][2]string{
		"root":             {"\x00\x00\x03\xe8\x00\x00\x03\xe8", "\x00\x00\x00\x00\x00\x00\x03\xe8"},
		"no id":            {"\x00\x00\x03\xe8\x00\x00\x03\xe8", "\xff\xff\xff\xff\x00\x00\x03\xe8"},
		"relative program": {"/usr/bin/bwrap", "_usr/bin/bwrap"},
		"relative source":  {"/home/a b", "_home/a b"},
		"climbing source":  {"/home/a b", "/home/../"},
		"more to come":     {"/home/a b", "/home/a b!"},
		"a huge string":    {"\x00\x00\x00\x0e/usr", "\xff\xff\xff\xff/usr"},
	} {
		b := []byte(strings.Replace(string(good), change[0], change[1], 1))
		if o, err := parse(b); err == nil || bytes.Equal(b, good) {
			t.Errorf("%s is taken: %+v", name, o)
		}
	}
	for n := range len(good) {
		if o, err := parse(good[:n]); err == nil {
			t.Errorf("the first %d bytes are taken: %+v", n, o)
		}
	}
}

// TestSourcesArriveAsTheyAre holds that a path that is no text is not
// exchanged for another one.
func TestSourcesArriveAsTheyAre(t *testing.T) {
	want := order()
	want.Sources = []string{"/a\xff", "/a\ufffd", "/a\nb\"", "/\xed\xa0\x80"}
	b, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parse(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v", got.Sources, err)
	}
}

func FuzzOrder(f *testing.F) {
	b, err := order().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parse(b)
		if err != nil {
			return
		}
		if o.UID <= 0 || o.GID <= 0 || !strings.HasPrefix(o.Program, "/") {
			t.Errorf("%q is %+v", b, o)
		}
		if again, err := o.Encode(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%q is an order, and written again %q, %v", b, again, err)
		}
	})
}
