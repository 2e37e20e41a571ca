package page

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/chromedp"

	"github.com/bulkhead-dev/sandbox/browser"
)

// Bounds of what Extract returns.
const (
	defaultText  = 256 << 10
	defaultLinks = 500
	defaultNodes = 2000
	mostText     = 16 << 20
	mostLinks    = 20000
	mostNodes    = 50000
	maxLinkText  = 512 // bytes
	maxNodeText  = 1 << 10
)

// Extract implements [browser.Reader]. Links are those to the web and to files
// of the workspace.
func (s *session) Extract(ctx context.Context, o browser.Extraction) (browser.Content, error) {
	for _, b := range []struct {
		field         string
		value         *int
		usual, utmost int
	}{{"maxText", &o.MaxText, defaultText, mostText}, {"maxLinks", &o.MaxLinks, defaultLinks, mostLinks}, {"maxNodes", &o.MaxNodes, defaultNodes, mostNodes}} {
		if *b.value < 0 || *b.value > b.utmost {
			return browser.Content{}, invalid(b.field, "it is none from 0 to "+count(b.utmost))
		}
		if *b.value == 0 {
			*b.value = b.usual
		}
	}
	var out browser.Content
	err := s.act(ctx, s.settings.Limits.Navigation, func(ctx context.Context, t *tab) error {
		var err error
		out, err = t.extract(ctx, o)
		return err
	})
	return out, err
}

// found is the result of the finder function.
type found struct {
	URL   string `json:"url"`
	Title string `json:"title"`
	Text  string `json:"text"`
	Links []struct {
		Text string `json:"text"`
		URL  string `json:"url"`
	} `json:"links"`
	More    bool `json:"more"`
	Missing bool `json:"missing"`
}

// finder reads title, text and links. Lengths are those of JavaScript, which
// are never more than bytes.
const finder = `
const out = {url: document.URL.slice(0, o.url), title: of(Document, 'title').call(document).slice(0, o.title), text: '', links: [], more: false};
const b = o.selector ? find(o.selector) : body() || Document.prototype.querySelector.call(document, ':root');
out.missing = b === null && o.selector !== '';
if (o.text > 0 && b !== null) {
	const text = textOf(b);
	out.text = text.slice(0, o.text);
	out.more = text.length > o.text;
}
if (o.links > 0) {
	for (const a of Document.prototype.querySelectorAll.call(document, 'a[href], area[href]')) {
		const type = a instanceof HTMLAnchorElement ? HTMLAnchorElement : a instanceof HTMLAreaElement ? HTMLAreaElement : null;
		if (type === null) continue;
		const url = of(type, 'href').call(a);
		if (!/^https?:/.test(url)) continue;
		if (out.links.length >= o.links || url.length > o.url) { out.more = true; if (url.length > o.url) continue; break; }
		out.links.push({text: textOf(a).trim().replace(/\s+/g, ' ').slice(0, o.label), url});
	}
}
return out;`

func (t *tab) extract(ctx context.Context, o browser.Extraction) (browser.Content, error) {
	ask := map[string]any{"url": maxURL, "title": maxTitle, "label": maxLinkText, "selector": o.Selector}
	if o.Text {
		ask["text"] = o.MaxText
	}
	if o.Links {
		ask["links"] = o.MaxLinks
	}
	var f found
	if err := t.ask(ctx, &f, "o", finder, ask); err != nil {
		return browser.Content{}, err
	}
	if f.Missing {
		return browser.Content{}, noMatch(o.Selector)
	}
	out := browser.Content{URL: spoken(f.URL), Title: cut(f.Title, maxTitle), Text: cut(f.Text, o.MaxText), Truncated: f.More || len(f.Text) > o.MaxText}
	if !o.Links {
		f.Links = nil
	} else if len(f.Links) > o.MaxLinks {
		f.Links, out.Truncated = f.Links[:o.MaxLinks], true
	}
	for _, l := range f.Links {
		out.Links = append(out.Links, browser.Link{Text: cut(l.Text, maxLinkText), URL: spoken(l.URL)})
	}
	if o.Tree {
		nodes, left, err := t.tree(ctx)
		if err != nil {
			return browser.Content{}, err
		}
		var more bool
		out.Tree, more = flatten(nodes, o.MaxNodes)
		out.Truncated = out.Truncated || left || more
	}
	return out, nil
}

// rawNodes is how many nodes of an accessibility tree are read, before those
// without a role are left out.
const rawNodes = 4 * mostNodes

// tree reads the accessibility tree; more reports that the tree is larger. The
// answer is decoded node by node, and fields that are not returned are
// dropped: a list of empty nodes would take many times its size in memory.
func (t *tab) tree(ctx context.Context) (nodes []*accessibility.Node, more bool, err error) {
	var raw jsonv2.Value
	if err := t.line.Call(ctx, accessibility.GetFullAXTree.Method, accessibility.GetFullAXTreeParams{}, &raw); err != nil {
		return nil, false, err
	}
	return readTree(raw)
}

// readTree reads the answer with the tree.
func readTree(raw []byte) (nodes []*accessibility.Node, more bool, err error) {
	in := json.NewDecoder(bytes.NewReader(raw))
	for _, want := range []json.Token{json.Delim('{'), "nodes", json.Delim('[')} {
		if got, err := in.Token(); err != nil || got != want {
			return nil, false, noTree()
		}
	}
	for in.More() {
		if len(nodes) == rawNodes {
			return nodes, true, nil
		}
		var one json.RawMessage
		var n accessibility.Node
		if in.Decode(&one) != nil || jsonv2.Unmarshal(one, &n, chromedp.DefaultUnmarshalOptions) != nil {
			return nil, false, noTree()
		}
		nodes = append(nodes, &accessibility.Node{
			NodeID: n.NodeID, ParentID: n.ParentID, ChildIDs: n.ChildIDs, Ignored: n.Ignored, Role: n.Role, Name: n.Name, Value: n.Value,
		})
	}
	return nodes, false, nil
}

// noTree is the error for an answer without a tree.
func noTree() error { return failed("the tree of the page cannot be read") }

// flatten returns the nodes of an accessibility tree in document order, at
// most most; nodes without content of their own are left out.
func flatten(nodes []*accessibility.Node, most int) (out []browser.Node, more bool) {
	byID := make(map[accessibility.NodeID]*accessibility.Node, len(nodes))
	for _, n := range nodes {
		if n != nil {
			byID[n.NodeID] = n
		}
	}
	type place struct {
		node  *accessibility.Node
		depth int
	}
	var stack []place
	for i := len(nodes) - 1; i >= 0; i-- {
		if n := nodes[i]; n != nil && byID[n.ParentID] == nil {
			stack = append(stack, place{n, 0})
		}
	}
	for len(stack) > 0 {
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if byID[p.node.NodeID] != p.node {
			continue // already visited: the answer is not a tree
		}
		delete(byID, p.node.NodeID)
		depth := p.depth
		if n := reported(p.node); n.Role != "" {
			if len(out) == most {
				return out, true
			}
			n.Depth = depth
			out = append(out, n)
			depth++
		}
		for i := len(p.node.ChildIDs) - 1; i >= 0; i-- {
			if child := byID[p.node.ChildIDs[i]]; child != nil {
				stack = append(stack, place{child, depth})
			}
		}
	}
	return out, false
}

// A node without a role is not returned to callers.
func reported(n *accessibility.Node) browser.Node {
	out := browser.Node{Role: word(n.Role), Name: word(n.Name), Value: word(n.Value)}
	switch {
	case n.Ignored, out.Role == "InlineTextBox", out.Role == "none",
		out.Role == "generic" && out.Name == "" && out.Value == "":
		return browser.Node{}
	}
	return out
}

// word returns the text of a value, or "" if it has none.
func word(v *accessibility.Value) string {
	if v == nil || len(v.Value) == 0 {
		return ""
	}
	var text string
	if jsonv2.Unmarshal(v.Value, &text) != nil {
		text = strings.TrimSpace(string(v.Value)) // a number
	}
	return cut(text, maxNodeText)
}
