package e2b

import (
	"encoding/json"

	"github.com/bulkhead-dev/sandbox/server/compat"
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

// decode reads one JSON object into v. A field that v does not have is an error.
func decode(data []byte, v any) error { return compat.Decode(data, v) }
