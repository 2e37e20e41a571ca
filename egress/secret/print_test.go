package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestNothingIsPrinted checks that no usual printed form of a Set, or of a
// struct with one, contains a value.
func TestNothingIsPrinted(t *testing.T) {
	s := newRig().set(t, "A=env:TOKEN@h.example", "B=env:OTHER@h.example")
	type holder struct {
		Secrets *Set
		private *Set
		copied  Set
	}
	h := holder{s, s, Set{in: s.in}}
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%t", "%08b"} {
		texts = append(texts, fmt.Sprintf(verb, s), fmt.Sprintf(verb, h), fmt.Sprintf(verb, &h), fmt.Sprintf(verb, []any{s}))
		if got := fmt.Sprintf(verb, s); got != "secrets A, B" {
			t.Errorf("%s prints %q", verb, got)
		}
	}
	for _, v := range []any{s, h, &h} {
		data, err := json.Marshal(v)
		must(t, err)
		texts = append(texts, string(data))
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "set", s, "holder", h)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "set", s, "holder", h)
	texts = append(texts, log.String())
	for _, text := range texts {
		for _, v := range []string{value, "s3cr3t", "another-secret", fmt.Sprintf("%x", "another"), fmt.Sprintf("%d", []byte("another")), strings.Trim(fmt.Sprintf("%d", []byte("s3cr3t")), "[]")} {
			if strings.Contains(strings.ToLower(text), v) {
				t.Errorf("a value is printed: %s", text)
			}
		}
	}
}

// TestCloseOverwrites checks that Close overwrites all copies of values in the
// Set.
func TestCloseOverwrites(t *testing.T) {
	s := newRig().set(t, "A=env:TOKEN@h.example")
	kept := [][]byte{s.in.secrets[0].value}
	for _, p := range s.in.match.patterns {
		kept = append(kept, p.text)
	}
	must(t, s.Close())
	for _, b := range kept {
		if strings.Trim(string(b), "\x00") != "" {
			t.Errorf("%q is left", b)
		}
	}
	must(t, s.Close())
}
