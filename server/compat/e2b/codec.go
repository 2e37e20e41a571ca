package e2b

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// A codec is the JSON of messages that are structs. It is registered under the name
// of protobuf's JSON, whose form the structs have: names in camel case, bytes in
// base64, 64-bit numbers as texts.
type codec struct{}

// Name implements connect.Codec.
func (codec) Name() string { return "json" }

// Marshal implements connect.Codec.
func (codec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal implements connect.Codec.
func (codec) Unmarshal(data []byte, v any) error { return decode(data, v) }

// decode reads one JSON object into v. A field that v does not have is an error: it
// could ask for something that would not happen then.
func decode(data []byte, v any) error {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("the message is no JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}
