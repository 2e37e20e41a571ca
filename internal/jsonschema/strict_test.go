package jsonschema_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
)

type part struct {
	N int64 `json:"n,omitempty" min:"1" max:"5"`
}

type whole struct {
	Text  string            `json:"text" required:"true" minlen:"1" maxlen:"4"`
	Word  string            `json:"word,omitempty" enum:"a,b"`
	Bytes []byte            `json:"bytes,omitempty" maxlen:"2"`
	List  []string          `json:"list,omitempty" maxitems:"2"`
	Map   map[string]string `json:"map,omitempty" maxitems:"1"`
	Parts []part            `json:"parts,omitempty"`
	Free  json.RawMessage   `json:"free,omitempty"`
	Time  time.Time         `json:"time,omitzero"`
	Yes   *bool             `json:"yes,omitempty"`
	X     float64           `json:"x,omitempty" min:"0" max:"1"`
	part
}

func TestDecode(t *testing.T) {
	var w whole
	err := jsonschema.Decode([]byte(`{"text":"abc","word":"b","bytes":"AAE=","list":["x"],"map":{"k":"v"},"parts":[{"n":5}],"free":{"a":[null,1]},"time":"2026-11-22T01:00:00Z","yes":true,"x":0.5,"n":2}`), &w)
	if err != nil || w.Text != "abc" || len(w.Bytes) != 2 || w.Parts[0].N != 5 || w.N != 2 || !*w.Yes || w.Time.IsZero() || string(w.Free) != `{"a":[null,1]}` {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestHalves holds that half a character is refused wherever it stands, whatever
// else the body has, and that whole ones are taken.
func TestHalves(t *testing.T) {
	for input, field := range map[string]string{
		`{"text":"\ud800"}`: "text", `{"text":"\uD800"}`: "text", `{"text":"a\udfff"}`: "text", `{"text":"\ud83d\u0041"}`: "text", `{"text":"\ud83d\ud83d\ude00"}`: "text",
		`{"text":"\ude00\ud83d"}`: "text", `{"text":"\ud83dA"}`: "text", `{"text":"\\\ud800"}`: "text", `{"text":"a","map":{"\ud800":"x"}}`: "map.\ufffd", `{"text":"a","list":["\ufffd","\ud800"]}`: "list[0]",
		`{"text":"a","free":{"b":["\udc00"]}}`: "free.b[0]", `{"text":"a","free":{"\udc00":1}}`: "free.\ufffd", `{"\ud800":"a"}`: "\ufffd",
	} {
		var w whole
		var e *sandbox.Error
		if err := jsonschema.Decode([]byte(input), &w); !errors.As(err, &e) || e.Field != field || !strings.Contains(e.Message, "half a character") {
			t.Errorf("%s: %v; want the field %q", input, err, field)
		}
	}
	for input, want := range map[string]string{
		`{"text":"\ud83d\ude00"}`: "\U0001f600", `{"text":"\ufffd"}`: "\ufffd", `{"text":"�"}`: "\ufffd", `{"text":"\\ud8"}`: `\ud8`, `{"text":"\ue000"}`: "\ue000",
	} {
		var w whole
		if err := jsonschema.Decode([]byte(input), &w); err != nil || w.Text != want {
			t.Errorf("%s: %q, %v", input, w.Text, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for input, field := range map[string]string{
		``: "text", `{}`: "text", `{"text":""}`: "text", `{"text":"abcde"}`: "text", `{"text":"a","word":"c"}`: "word",
		`{"text":"a","bytes":"AAAA"}`: "bytes", `{"text":"a","bytes":"%"}`: "bytes", `{"text":"a","bytes":[1]}`: "bytes",
		`{"text":"a","list":["x","y","z"]}`: "list", `{"text":"a","list":[1]}`: "list[0]", `{"text":"a","map":{"a":"b","c":"d"}}`: "map", `{"text":"a","map":{"a":1}}`: "map.a",
		`{"text":"a","parts":[{"n":0}]}`: "parts[0].n", `{"text":"a","parts":[{"m":1}]}`: "parts[0].m", `{"text":"a","n":9}`: "n", `{"text":"a","part":{}}`: "part",
		`{"text":"a","free":{"a":1,"a":2}}`: "free.a", `{"text":"a","time":"yesterday"}`: "time", `{"text":"a","time":5}`: "time", `{"text":"a","time":{}}`: "time", `{"text":"a","x":2}`: "x", `{"text":"a","x":1e999}`: "x", `{"text":"a","yes":1}`: "yes",
		`{"text":"a","n":1e0}`: "n", `{"text":"a","n":99999999999999999999}`: "n", `{"text":"a","text":"b"}`: "text", `{"TEXT":"a"}`: "TEXT", `{"text":"a"}{}`: "", `{"text":"a",}`: "", `[]`: "", `null`: "",
		`{"text":"a","free":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`: "free" + strings.Repeat("", 0),
	} {
		var w whole
		err := jsonschema.Decode([]byte(input), &w)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation {
			t.Errorf("%s: %v", input, err)
			continue
		}
		if strings.HasPrefix(input, `{"text":"a","free":[[`) {
			if !strings.HasPrefix(e.Field, "free[0]") {
				t.Errorf("%s: field %q", input, e.Field)
			}
		} else if e.Field != field {
			t.Errorf("%s: field %q, want %q (%s)", input, e.Field, field, e.Message)
		}
	}
}

// FuzzDecode holds that what is taken is what encoding/json reads, with no
// field that the type has not, and that nothing makes it fail in another way.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"text":"a"}`, `{"text":"a","parts":[{"n":1}],"free":[1,{"a":null}]}`, `{"text":"\ud800"}`, `{"text":"a","map":{"\u0000":"x"}}`, "{\"text\":\"\xff\"}", `{"text":null}`, strings.Repeat(`[`, 100)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want whole
		err := jsonschema.Decode(data, &got)
		if err != nil {
			if sandbox.CodeOf(err) != sandbox.CodeValidation {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		dec := json.NewDecoder(strings.NewReader(string(data)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("%q is taken, and is no JSON of the type: %v", data, err)
		}
		if len(got.Text) < 1 || len(got.Text) > 12 || len(got.List) > 2 || len(got.Map) > 1 || got.X < 0 || got.X > 1 {
			t.Errorf("%q is beyond its bounds: %+v", data, got)
		}
	})
}
