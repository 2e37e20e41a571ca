package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

// spellings returns encodings of v by servers, made by other code than the
// package's own where there is any.
func spellings(v string) map[string]string {
	quoted, _ := json.Marshal(v)
	out := map[string]string{
		"as it is": v, "hex": hex.EncodeToString([]byte(v)), "hex in capitals": fmt.Sprintf("%X", v), "query": url.QueryEscape(v), "path": url.PathEscape(v),
		"JSON": strings.Trim(string(quoted), `"`), "HTML": html.EscapeString(v),
		"lower percent": strings.NewReplacer("%2F", "%2f", "%2B", "%2b", "%3C", "%3c", "%C3", "%c3", "%A9", "%a9", "%3E", "%3e", "%5C", "%5c").Replace(url.QueryEscape(v)),
	}
	if v == value {
		out["encodeURIComponent"] = "s3cr3t%2F%2B%22%26%3C%C3%A9%3E%5C'~"
		out["encodeURI"] = "s3cr3t/+%22&%3C%C3%A9%3E%5C'~"
		out["JSON of PHP"] = `s3cr3t\/+\"&<\u00e9>\\'~`
		out["JSON of Python"] = `s3cr3t/+\"&<\u00e9>\\'~`
		out["JSON of JavaScript"] = `s3cr3t/+\"&<é>\\'~`
		out["HTML of Python"] = "s3cr3t/+&quot;&amp;&lt;é&gt;\\&#x27;~"
	}
	return out
}

func TestScrub(t *testing.T) {
	const plain = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	r := newRig()
	r.env["PLAIN"] = plain
	s := r.set(t, "A=env:TOKEN@h.example", "P=env:PLAIN@h.example")
	for name, v := range map[string]string{"A": value, "P": plain} {
		for kind, spelled := range spellings(v) {
			for _, around := range [][2]string{{"", ""}, {"x", "y"}, {"{\"token\":\"", "\"}"}, {spelled[:1], spelled[:3]}} {
				text := around[0] + spelled + around[1]
				want := around[0] + s.Env()[name] + around[1]
				if got := s.ScrubString(text); got != want {
					t.Errorf("%s of %s: %q, want %q", kind, name, got, want)
				}
			}
		}
	}
}

// TestScrubBase64 checks that the value cannot be read from base64 of a text
// that contains it, at any offset.
func TestScrubBase64(t *testing.T) {
	s := newRig().set(t, "A=env:TOKEN@h.example")
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 7 {
			for after := range 7 {
				text := e.EncodeToString([]byte(strings.Repeat("u", before) + value + strings.Repeat("z", after)))
				got := s.ScrubString(text)
				i := strings.Index(got, s.Env()["A"])
				if i < 0 {
					t.Fatalf("%d and %d: %q is left", before, after, got)
				}
				rest := len(got) - len(s.Env()["A"])
				if most := (before+after+4)*4/3 + 4; rest > most {
					t.Errorf("%d and %d: %d digits are left beside the stand-in: %q", before, after, rest, got)
				}
			}
		}
	}
}

func TestScrubHeader(t *testing.T) {
	s := newRig().set(t, "A=env:TOKEN@h.example", "B=env:OTHER@h.example")
	header := http.Header{
		"Set-Cookie":            {"a=1", "t=another-secret-0815; Path=/"},
		"Location":              {"https://evil.example/?t=" + url.QueryEscape(value)},
		"X-Another-Secret-0815": {"x"},
		"another-secret-0815":   {"x"},
		"Content-Type":          {"text/plain"},
	}
	s.ScrubHeader(header)
	text := fmt.Sprint(header)
	if strings.Contains(strings.ToLower(text), "another-secret") || strings.Contains(text, "s3cr3t") {
		t.Errorf("a value is left: %s", text)
	}
	if header.Get("Content-Type") != "text/plain" || header["Set-Cookie"][0] != "a=1" || header["Set-Cookie"][1] != "t="+s.Env()["B"]+"; Path=/" {
		t.Errorf("too much was changed: %s", text)
	}
}

// TestBodyPassesAtOnce checks that a response that arrives in parts is passed
// on in parts: only a possible beginning of a value is held back.
func TestBodyPassesAtOnce(t *testing.T) {
	s := newRig().set(t, "B=env:OTHER@h.example")
	r, w := io.Pipe()
	body := s.ScrubBody(r)
	go func() {
		for _, part := range []string{"data: hello\n\n", "data: anoth", "er day\n\n", "another-", "secret-0815!", "another-secret-081"} {
			_, _ = io.WriteString(w, part)
		}
		w.Close()
	}()
	buf := make([]byte, 1000)
	for _, want := range []string{"data: hello\n\n", "data: ", "another day\n\n", s.Env()["B"] + "!", "another-secret-081"} {
		if n, err := body.Read(buf); err != nil || string(buf[:n]) != want {
			t.Fatalf("read %q, %v; want %q", buf[:n], err, want)
		}
	}
	if n, err := body.Read(buf); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

// nothing is a reader that returns neither bytes nor an error.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

func TestBodyEnds(t *testing.T) {
	s := newRig().set(t, "B=env:OTHER@h.example")
	broken := errors.New("connection reset")
	for name, tt := range map[string]struct {
		from io.Reader
		want string
		err  error
	}{
		"empty":               {strings.NewReader(""), "", nil},
		"error at once":       {iotest.ErrReader(broken), "", broken},
		"error after a part":  {io.MultiReader(strings.NewReader("x another-sec"), iotest.ErrReader(broken)), "x another-sec", broken},
		"data with the end":   {iotest.DataErrReader(strings.NewReader("another-secret-0815")), s.Env()["B"], nil},
		"one byte at a time":  {iotest.OneByteReader(strings.NewReader("<another-secret-0815>")), "<" + s.Env()["B"] + ">", nil},
		"nothing for ever":    {io.MultiReader(strings.NewReader("another-"), nothing{}), "another-", io.ErrNoProgress},
		"longer than a chunk": {strings.NewReader(strings.Repeat(".", chunk-5) + "another-secret-0815" + strings.Repeat("-", 2*chunk)), strings.Repeat(".", chunk-5) + s.Env()["B"] + strings.Repeat("-", 2*chunk), nil},
	} {
		got, err := io.ReadAll(s.ScrubBody(tt.from))
		if string(got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %.60q, %v", name, got, err)
		}
	}
	body := s.ScrubBody(strings.NewReader("another-secret-0815"))
	must(t, s.Close())
	if got, err := io.ReadAll(body); len(got) > 0 || err == nil {
		t.Errorf("after Close: %q, %v", got, err)
	}
}

// FuzzScrub checks that a body in parts of any size is scrubbed like the whole
// text with every encoding replaced, the leftmost and longest first.
func FuzzScrub(f *testing.F) {
	f.Add([]byte(value+"x"+value), "s3cr3t", "another-secret-0815", uint8(3))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), "aaaaaaaa", "aaaaaaaaa", uint8(1))
	f.Add([]byte("ababababababababab"), "abababab", "babababab", uint8(2))
	f.Add([]byte("xx12345678123456789"), "12345678", "2345678123456789", uint8(5))
	f.Add([]byte(base64.StdEncoding.EncodeToString([]byte("me:"+value))), value, "12345678", uint8(7))
	f.Fuzz(func(t *testing.T, text []byte, one, two string, step uint8) {
		if len(one) < minValue || len(two) < minValue || len(one) > 200 || len(two) > 200 {
			return
		}
		secrets := []*held{{standIn: "<1>", seen: [][]byte{[]byte(one)}}, {standIn: "<2>", seen: [][]byte{[]byte(two)}}}
		v := &vault{secrets: secrets, match: newMatcher(secrets)}
		want := whole(v.match, text)
		for _, from := range []io.Reader{bytes.NewReader(text), &stepped{text, int(step)%40 + 1}} {
			got, err := io.ReadAll(&scrubber{set: v, from: from})
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%q with %q and %q: got %q, %v; want %q", text, one, two, got, err, want)
			}
		}
	})
}

// whole replaces values by trying every pattern at every position.
func whole(m *matcher, text []byte) (out []byte) {
	for len(text) > 0 {
		var best *pattern
		for i, p := range m.patterns {
			if bytes.HasPrefix(text, p.text) && (best == nil || len(p.text) > len(best.text)) {
				best = &m.patterns[i]
			}
		}
		if best == nil {
			out, text = append(out, text[0]), text[1:]
			continue
		}
		out, text = append(out, best.standIn...), text[len(best.text):]
	}
	return out
}

// stepped reads at most so many bytes at a time.
type stepped struct {
	text []byte
	step int
}

func (s *stepped) Read(p []byte) (int, error) {
	if len(s.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.step)], s.text)
	s.text = s.text[n:]
	return n, nil
}

// TestScrubEscapes checks that a value is found with any escaping of its
// bytes: all of them, some, each in another way, and with the text split
// anywhere.
func TestScrubEscapes(t *testing.T) {
	const plain = "ghp_16C7 e42F+92c6/12E7"
	r := newRig()
	r.env["PLAIN"] = plain
	s := r.set(t, "A=env:TOKEN@h.example", "P=env:PLAIN@h.example")
	styles := map[string]func(i int, c byte) string{
		"percent":         func(_ int, c byte) string { return fmt.Sprintf("%%%02X", c) },
		"lower percent":   func(_ int, c byte) string { return fmt.Sprintf("%%%02x", c) },
		"percent twice":   func(_ int, c byte) string { return fmt.Sprintf("%%25%02x", c) },
		"every other":     func(i int, c byte) string { return []string{string([]byte{c}), fmt.Sprintf("%%%02X", c)}[i%2] },
		"the last":        func(i int, c byte) string { return string([]byte{c}) },
		"hex of programs": func(_ int, c byte) string { return fmt.Sprintf(`\x%02x`, c) },
		"octal":           func(_ int, c byte) string { return fmt.Sprintf(`\%03o`, c) },
		"in turn": func(i int, c byte) string {
			return fmt.Sprintf([]string{`%%%02x`, `\x%02X`, `\%03o`, `%%25%02X`}[i%4], c)
		},
	}
	runes := map[string]func(i int, r rune) string{
		`\u00xx`:           func(_ int, r rune) string { return fmt.Sprintf(`\u%04x`, r) },
		`\u00XX`:           func(_ int, r rune) string { return fmt.Sprintf(`\u%04X`, r) },
		`\\u00xx`:          func(_ int, r rune) string { return fmt.Sprintf(`\\u%04x`, r) },
		"decimal of HTML":  func(_ int, r rune) string { return fmt.Sprintf("&#%d;", r) },
		"hex of HTML":      func(_ int, r rune) string { return fmt.Sprintf("&#x%04X;", r) },
		"HTML every other": func(i int, r rune) string { return []string{string(r), fmt.Sprintf("&#%d;", r)}[i%2] },
		"a blank as plus":  func(_ int, r rune) string { return strings.ReplaceAll(string(r), " ", "+") },
		"JSON and HTML":    func(i int, r rune) string { return fmt.Sprintf([]string{`\u%04x`, "&#%d;"}[i%2], r) },
	}
	for name, v := range map[string]string{"A": value, "P": plain} {
		texts := map[string]string{}
		for style, f := range styles {
			var b strings.Builder
			for i, c := range []byte(v) {
				b.WriteString(f(i, c))
			}
			texts[style] = b.String()
		}
		for style, f := range runes {
			var b strings.Builder
			for i, c := range []rune(v) {
				b.WriteString(f(i, c))
			}
			texts[style] = b.String()
		}
		for style, spelled := range texts {
			text := `{"a":"%41\u0041&amp;` + spelled + `%20&\"}` + spelled
			want := strings.ReplaceAll(text, spelled, s.Env()[name])
			if got := s.ScrubString(text); got != want {
				t.Errorf("%s of %s: %q, want %q", style, name, got, want)
				continue
			}
			for _, size := range []int{1, 3, 7} {
				got, err := io.ReadAll(s.ScrubBody(sized{strings.NewReader(text), size}))
				if err != nil || string(got) != want {
					t.Errorf("%s of %s in pieces of %d: %q, %v, want %q", style, name, size, got, err, want)
				}
			}
		}
	}
	for _, text := range []string{"%", "a&", `\`, `\\\\\\\\\\\\`, "&#x;", "100% + more & more", strings.Repeat("%25", 5000), strings.Repeat(`\`, 5000), "%73%33%63%72%33%74", `s3cr3t\u002f`, "&" + strings.Repeat("0", 5000)} {
		got, err := io.ReadAll(s.ScrubBody(strings.NewReader(text)))
		if err != nil || string(got) != text {
			t.Errorf("%.40q has become %.40q, %v", text, got, err)
		}
	}
}

// sized reads so many bytes at once.
type sized struct {
	io.Reader
	most int
}

func (s sized) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), s.most)]) }
