package manager

import (
	"reflect"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// maxDescriptions bounds for how many sandboxes a description is kept.
const maxDescriptions = 1024

// Descriptions keep the Spec and the hash that were made last from settings and
// facts, which are all that they depend on. It is safe for concurrent use.
type descriptions struct {
	mu sync.Mutex
	of map[descriptionKey]description
}

// A descriptionKey is what a description is kept for, the last one of each.
type descriptionKey struct {
	provider, identity string
	kind               sandbox.Kind
	intent             intent
}

// A description is what was built, and what from.
type description struct {
	res   config.Resolved
	facts config.Facts
	spec  sandbox.Spec
	hash  string
}

// get returns the Spec and the hash that follow from res and f, where they were
// made from the same before. The Spec is the caller's own.
func (d *descriptions) get(of descriptionKey, res config.Resolved, f config.Facts) (s sandbox.Spec, hash string, ok bool) {
	d.mu.Lock()
	have, ok := d.of[of]
	d.mu.Unlock()
	if !ok || !reflect.DeepEqual(have.facts, f) || !reflect.DeepEqual(have.res, res) {
		return s, "", false
	}
	return copied(have.spec), have.hash, true
}

// put keeps a copy of what was built.
func (d *descriptions) put(of descriptionKey, n description) {
	n.spec = copied(n.spec)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil || len(d.of) >= maxDescriptions {
		d.of = map[descriptionKey]description{}
	}
	d.of[of] = n
}

// copied returns s with maps and slices of its own: providers and callers may
// change theirs.
func copied(s sandbox.Spec) sandbox.Spec {
	own(reflect.ValueOf(&s).Elem())
	return s
}

// own replaces the maps and slices in v, which can be set, by copies.
func own(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			own(v.Field(i))
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			own(c.Index(i))
		}
		v.Set(c)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(it.Value())
			own(e)
			c.SetMapIndex(it.Key(), e)
		}
		v.Set(c)
	case reflect.Interface:
		if !v.IsNil() {
			e := reflect.New(v.Elem().Type()).Elem()
			e.Set(v.Elem())
			own(e)
			v.Set(e)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			p := reflect.New(v.Type().Elem())
			p.Elem().Set(v.Elem())
			own(p.Elem())
			v.Set(p)
		}
	}
}
