package stream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// A Text is an argument, a value or a path: bytes that are nearly always UTF-8.
// Its JSON form is a string, and {"base64": "…"} where it is not UTF-8, because
// JSON would change it.
type Text string

type encoded struct {
	Base64 string `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(encoded{base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var e encoded
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			return err
		}
		raw, err := base64.StdEncoding.DecodeString(e.Base64)
		*t = Text(raw)
		return err
	}
	var s string
	err := json.Unmarshal(b, &s)
	*t = Text(s)
	return err
}

// Texts returns s as texts.
func Texts(s []string) []Text {
	if s == nil {
		return nil
	}
	out := make([]Text, len(s))
	for i, v := range s {
		out[i] = Text(v)
	}
	return out
}

// Strings returns t as strings.
func Strings(t []Text) []string {
	if t == nil {
		return nil
	}
	out := make([]string, len(t))
	for i, v := range t {
		out[i] = string(v)
	}
	return out
}
