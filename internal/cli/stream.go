package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// maxHeld is how many bytes a stream holds back before it writes, so that a
// short list is written whole or, where it cannot be read to its end, not at
// all.
const maxHeld = 1 << 20

// maxRows is how many rows of a table share their widths. Later ones are as
// wide, or wider.
const maxRows = 1000

// A stream writes a list that may be longer than memory: as one JSON object
// with the list as its first member, or as a table.
type stream struct {
	to      io.Writer
	json    bool
	name    string // of the list in JSON
	table   *table
	held    bytes.Buffer
	entries int
}

// newStream begins a list called name. leaves names the columns that can be
// left out of the table where the terminal is narrow.
func (a *app) newStream(name string, columns []string, leaves ...string) *stream {
	return &stream{to: a.Stdout, json: a.globals.json(), name: name, table: a.newTable(columns, leaves...)}
}

// row adds a row to a table.
func (s *stream) row(cells ...string) error {
	s.table.add(cells...)
	if len(s.table.rows) < maxRows {
		return nil
	}
	return s.rows()
}

func (s *stream) rows() error {
	if len(s.table.rows) == 0 {
		return nil
	}
	err := s.table.write(&s.held)
	s.table = &table{widths: s.table.widths, limit: s.table.limit, leaves: s.table.leaves, out: s.table.out}
	if err != nil || s.held.Len() < maxHeld {
		return err
	}
	return s.flush()
}

// entry adds a value to the list in JSON.
func (s *stream) entry(v any) error {
	text, err := elementJSON(v, "    ")
	if err != nil {
		return err
	}
	if s.entries++; s.entries == 1 {
		s.held.WriteString("{\n  " + quotedJSON(s.name) + ": [\n    ")
	} else {
		s.held.WriteString(",\n    ")
	}
	s.held.Write(text)
	if s.held.Len() < maxHeld {
		return nil
	}
	return s.flush()
}

// A member is one of a JSON object, behind the list.
type member struct {
	name  string
	value any
}

// end writes what is left, and the further members of the object.
func (s *stream) end(members ...member) error {
	if !s.json {
		if err := s.rows(); err != nil {
			return err
		}
		return s.flush()
	}
	if s.entries == 0 {
		s.held.WriteString("{\n  " + quotedJSON(s.name) + ": []")
	} else {
		s.held.WriteString("\n  ]")
	}
	for _, m := range members {
		text, err := elementJSON(m.value, "  ")
		if err != nil {
			return err
		}
		s.held.WriteString(",\n  " + quotedJSON(m.name) + ": ")
		s.held.Write(text)
	}
	s.held.WriteString("\n}\n")
	return s.flush()
}

func (s *stream) flush() error {
	_, err := s.to.Write(s.held.Bytes())
	s.held.Reset()
	return err
}

// elementJSON is a value as [writeJSON] writes it, inside of something.
func elementJSON(v any, prefix string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return escapeJSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// quotedJSON quotes the name of a member, which is one of ours.
func quotedJSON(name string) string { return `"` + strings.ReplaceAll(name, `"`, "") + `"` }
