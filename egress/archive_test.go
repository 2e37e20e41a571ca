package egress_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// packed returns text as gzip, with a name in its header.
func packed(t *testing.T, name string, texts ...string) string {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	z.Name = name
	for _, text := range texts {
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// noise is n bytes that cannot be compressed.
func noise(n int) string {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{'n'}).Read(b)
	return string(b)
}

// TestArchives checks that archives are passed on byte for byte unless a value
// is in them, at any position, and that no value ever passes.
func TestArchives(t *testing.T) {
	large := noise(3 << 19) // more than is held back
	whole := packed(t, "a.tar", large)
	// An empty stored DEFLATE block that is not the last one.
	nothing := packed(t, "")[:10] + strings.Repeat("\x00\x00\x00\xff\xff", 1<<19) // and more than twice of it
	bodies := map[string]string{
		"empty":          packed(t, ""),
		"small":          packed(t, "a.tar", "content"),
		"large":          whole,
		"flat":           packed(t, "", strings.Repeat("t", 1<<20)), // each byte could begin the value
		"two members":    packed(t, "a", "one") + packed(t, "b", large) + packed(t, "c", "two"),
		"with an end":    packed(t, "", "content") + strings.Repeat("\x00", 512),
		"cut":            whole[:5<<18],
		"no archive":     "\x1f\x8b\x08\x00" + noise(1<<20),
		"bad sum":        strings.TrimSuffix(packed(t, "", "content"), "\x00\x00\x00\x00") + "xxxx",
		"early":          packed(t, "a", "some "+value+" here", large[:256<<10]),
		"in the middle":  packed(t, "a", large[:256<<10], value, "more"),
		"late":           packed(t, "a", large, value, large[:256<<10]),
		"at the end":     packed(t, "a", large, value),
		"second member":  packed(t, "a", "one") + packed(t, "b", value),
		"in the name":    packed(t, "the "+value, "content"),
		"behind the end": packed(t, "", "content") + "\x00\x00" + value,
		"nothing":        nothing,
	}
	v := openVault(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		io.WriteString(w, bodies[r.URL.Query().Get("of")])
	})
	same := []string{"empty", "small", "large", "flat", "two members", "with an end", "cut", "no archive", "bad sum"}
	for name, body := range bodies {
		req, err := http.NewRequest("GET", "https://example.com:"+v.port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.RawQuery = "of=" + strings.ReplaceAll(name, " ", "+")
		req.Header.Set("Authorization", "Bearer "+v.standIn)
		resp, err := v.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		for _, is := range same {
			if is == name && (err != nil || string(got) != body) {
				t.Errorf("%s: %d bytes became %d, %v", name, len(body), len(got), err)
			}
		}
		held := got
		if z, zerr := gzip.NewReader(bytes.NewReader(got)); zerr == nil {
			inside, _ := io.ReadAll(z)
			held = append(held, inside...)
		}
		if bytes.Contains(held, []byte(value)) {
			t.Errorf("%s: the value comes through", name)
		}
		if replaced := bytes.Contains(held, []byte(v.standIn)); (name == "early" || name == "in the middle" || name == "second member" || strings.HasPrefix(name, "in the name")) && (!replaced || err != nil) {
			t.Errorf("%s: no stand-in, %v", name, err)
		}
		if (name == "late" || name == "at the end" || name == "nothing") && err == nil {
			t.Errorf("%s: ends without an error", name)
		}
	}
}
