package browser

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// The fields of a browser's answers that clients get. Every other field is
// dropped, among them the addresses of the front end, which is hosted on the
// public network.
type (
	about struct {
		Browser   string `json:"Browser"`
		Protocol  string `json:"Protocol-Version"`
		UserAgent string `json:"User-Agent"`
		Paths     string `json:"File-Path-Style,omitempty"`
		V8        string `json:"V8-Version,omitempty"`
		WebKit    string `json:"WebKit-Version,omitempty"`
		WebSocket string `json:"webSocketDebuggerUrl,omitempty"`
	}
	page struct {
		Description string `json:"description"`
		Favicon     string `json:"faviconUrl,omitempty"`
		ID          string `json:"id"`
		Parent      string `json:"parentId,omitempty"`
		Title       string `json:"title"`
		Type        string `json:"type"`
		URL         string `json:"url"`
		WebSocket   string `json:"webSocketDebuggerUrl,omitempty"`
	}
	description struct {
		Version struct {
			Major string `json:"major"`
			Minor string `json:"minor"`
		} `json:"version"`
		Domains []domain `json:"domains"`
	}
	domain struct {
		Domain       string   `json:"domain"`
		Description  string   `json:"description,omitempty"`
		Experimental bool     `json:"experimental,omitempty"`
		Deprecated   bool     `json:"deprecated,omitempty"`
		Dependencies []string `json:"dependencies,omitempty"`
		Types        []any    `json:"types,omitempty"`
		Commands     []any    `json:"commands,omitempty"`
		Events       []any    `json:"events,omitempty"`
	}
)

// errAnswer does not repeat the answer, which is untrusted.
var errAnswer = sandbox.Errorf(sandbox.CodeExecution, proxyOp, "the browser's answer is not as it should be")

// rebuild returns the client's response made from the browser's body. place is
// the prefix of WebSocket URLs.
func rebuild(k proxyKind, body []byte, place string) ([]byte, error) {
	var v any
	var err error
	switch k {
	case version:
		v, err = readVersion(body, place)
	case list:
		v, err = readList(body, place)
	case opened:
		v, err = readPage(body, place)
	case protocol:
		v, err = decode[description](body)
	case activated:
		return []byte("Target activated\n"), nil
	case closed:
		return []byte("Target is closing\n"), nil
	}
	if err != nil || v == nil {
		return nil, errAnswer
	}
	return json.MarshalIndent(v, "", "  ")
}

func decode[T any](body []byte) (T, error) {
	var v *T
	if err := json.Unmarshal(body, &v); err != nil || v == nil {
		return *new(T), errAnswer
	}
	return *v, nil
}

func readVersion(body []byte, place string) (about, error) {
	v, err := decode[about](body)
	if err == nil {
		v.WebSocket, err = moved(v.WebSocket, place)
	}
	if err != nil {
		return about{}, err
	}
	return v, nil
}

// maxPages is how many pages a browser may have.
const maxPages = 4096

// readList decodes the list element by element: a list of nothing but empty
// pages, decoded at once, would take many times its size in memory.
func readList(body []byte, place string) ([]page, error) {
	in := json.NewDecoder(bytes.NewReader(body))
	if first, err := in.Token(); err != nil || first != json.Delim('[') {
		return nil, errAnswer
	}
	pages := []page{}
	for in.More() {
		var one json.RawMessage
		if err := in.Decode(&one); err != nil || len(pages) == maxPages {
			return nil, errAnswer
		}
		p, err := readPage(one, place)
		if err != nil {
			return nil, err
		}
		pages = append(pages, p)
	}
	if _, err := in.Token(); err != nil { // the end of the list
		return nil, errAnswer
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, errAnswer
	}
	return pages, nil
}

func readPage(body []byte, place string) (page, error) {
	p, err := decode[page](body)
	if err != nil {
		return page{}, err
	}
	return p.moved(place)
}

// moved checks a page and points its WebSocket URL to the proxy.
func (p page) moved(place string) (_ page, err error) {
	if !isID(p.ID) || p.Parent != "" && !isID(p.Parent) {
		return page{}, errAnswer
	}
	p.WebSocket, err = moved(p.WebSocket, place)
	return p, err
}

// moved takes the path of a URL that the proxy would accept and puts it below
// place. An empty address stays empty.
func moved(address, place string) (string, error) {
	if address == "" {
		return "", nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "ws" || u.RawQuery != "" || u.Fragment != "" {
		return "", errAnswer
	}
	if kind, _ := route(u.EscapedPath()); kind != socket || !strings.HasSuffix(address, u.Path) {
		return "", errAnswer
	}
	return place + u.Path, nil
}
