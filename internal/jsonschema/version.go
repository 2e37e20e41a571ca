package jsonschema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// VersionKey is the property of a schema that holds its version.
const VersionKey = "x-version"

// Check returns an error unless the version of the schema now goes with what
// has changed since the schema base: a change that breaks clients of base needs
// a greater first number, an addition a greater second one. Both are JSON
// documents with a [VersionKey] and an $id that ends in :v and the first
// number.
func Check(base, now []byte, d Direction) error {
	old, err := read(base)
	if err != nil {
		return fmt.Errorf("base: %w", err)
	}
	cur, err := read(now)
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(old.id, ":v")
	if curName, _, _ := strings.Cut(cur.id, ":v"); name != curName {
		return fmt.Errorf("%s is not %s", cur.id, old.id)
	}
	var broken, more []string
	for _, c := range Compare(old.root, cur.root, d) {
		if c.Breaking {
			broken = append(broken, c.String())
		} else {
			more = append(more, c.String())
		}
	}
	v, w := old.version, cur.version
	switch {
	case w[0] < v[0] || w[0] == v[0] && w[1] < v[1] || w[0] == v[0] && w[1] == v[1] && w[2] < v[2]:
		return fmt.Errorf("version %s is before %s", cur, old)
	case len(broken) > 0 && w[0] == v[0]:
		return fmt.Errorf("version %s breaks %s, which takes a new major version:\n\t%s", cur, old, strings.Join(broken, "\n\t"))
	case len(more) > 0 && w[0] == v[0] && w[1] == v[1]:
		return fmt.Errorf("version %s adds to %s, which takes a new minor version:\n\t%s", cur, old, strings.Join(more, "\n\t"))
	}
	return nil
}

// A document is a schema with its version.
type document struct {
	root    map[string]any
	id      string
	version [3]int
}

func (d document) String() string {
	return fmt.Sprintf("%d.%d.%d", d.version[0], d.version[1], d.version[2])
}

func read(data []byte) (document, error) {
	var d document
	var err error
	if d.root, err = Parse(data); err != nil {
		return d, err
	}
	text, _ := d.root[VersionKey].(string)
	parts := strings.Split(text, ".")
	if len(parts) != len(d.version) {
		return d, fmt.Errorf("%q is no version", text)
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || strconv.FormatUint(n, 10) != p {
			return d, fmt.Errorf("%q is no version", text)
		}
		d.version[i] = int(n)
	}
	d.id, _ = d.root["$id"].(string)
	if !strings.HasSuffix(d.id, ":v"+parts[0]) {
		return d, errors.New("the $id " + strconv.Quote(d.id) + " does not end in :v" + parts[0])
	}
	return d, nil
}
