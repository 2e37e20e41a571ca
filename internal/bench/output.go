//go:build linux

package main

import (
	"encoding/json"
	"io"
	"os"

	"github.com/google/renameio/v2"
)

// hand prints the report and writes it where the flags say.
func (o options) hand(rep Report, stdout io.Writer) error {
	if _, err := io.WriteString(stdout, rep.Text()); err != nil {
		return err
	}
	if o.json != "" {
		text, err := json.MarshalIndent(rep, "", "  ")
		if err != nil {
			return err
		}
		if err := replaceFile(o.json, string(text)+"\n"); err != nil {
			return err
		}
	}
	if o.doc == "" {
		return nil
	}
	old, err := os.ReadFile(o.doc)
	if err != nil {
		return err
	}
	text, err := Splice(string(old), rep.Page())
	if err != nil {
		return err
	}
	return replaceFile(o.doc, text)
}

// replaceFile writes the file as one step.
func replaceFile(path, text string) error { return renameio.WriteFile(path, []byte(text), 0o644) }
