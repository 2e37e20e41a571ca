package page

import (
	"context"
	"math"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
)

// maxTyped is the longest text that is typed, in bytes.
const maxTyped = 1 << 20

// Click implements [browser.Writer]. It scrolls the element into view and
// clicks on its middle, which must not be covered.
func (s *session) Click(ctx context.Context, selector string) error {
	if !s.rights.Write {
		return denied("click")
	}
	return s.act(ctx, s.settings.Limits.Navigation, func(ctx context.Context, t *tab) error {
		return t.lead(ctx, func() error { return t.click(ctx, selector) })
	})
}

func (t *tab) click(ctx context.Context, selector string) error {
	el, err := t.element(ctx, selector)
	if err != nil {
		return err
	}
	x, y, err := t.middle(ctx, el)
	if err != nil {
		return err
	}
	move := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y}
	press := input.DispatchMouseEventParams{
		Type: input.DispatchMouseEventTypeMousePressed, X: x, Y: y,
		Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1,
	}
	release := press
	release.Type, release.Buttons = input.DispatchMouseEventTypeMouseReleased, 0
	for _, e := range []input.DispatchMouseEventParams{move, press, release} {
		if _, err := call(ctx, t, input.DispatchMouseEvent, e); err != nil {
			return err
		}
	}
	return nil
}

// middle scrolls an element into view and returns the point to click.
func (t *tab) middle(ctx context.Context, el runtime.RemoteObjectID) (x, y float64, err error) {
	hidden := failed("the element is not shown")
	if _, err := call(ctx, t, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{ObjectID: el}); err != nil {
		if ctx.Err() != nil {
			return 0, 0, err
		}
		return 0, 0, hidden
	}
	boxes, err := call(ctx, t, dom.GetContentQuads, dom.GetContentQuadsParams{ObjectID: el})
	if err != nil {
		if ctx.Err() != nil {
			return 0, 0, err
		}
		return 0, 0, hidden
	}
	x, y, ok := center(boxes.Quads)
	if !ok {
		return 0, 0, hidden
	}
	var state string
	if err := t.on(ctx, el, &state, "x, y", `
		if (!shown(this)) return 'hidden';
		const hit = Document.prototype.elementFromPoint.call(document, x, y);
		const holds = (a, b) => Node.prototype.contains.call(a, b);
		if (hit === null) return 'hidden';
		if (holds(this, hit)) return '';
		if (this instanceof HTMLElement && hit instanceof HTMLLabelElement && of(HTMLLabelElement, 'control').call(hit) === this) return '';
		return 'covered';`, x, y); err != nil {
		return 0, 0, err
	}
	switch state {
	case "":
		return x, y, nil
	case "covered":
		return 0, 0, failed("another element covers the element")
	}
	return 0, 0, hidden
}

// center returns the middle of the first box with an area.
func center(quads []dom.Quad) (x, y float64, ok bool) {
	for _, q := range quads {
		if len(q) != 8 {
			continue
		}
		area := 0.0
		x, y = 0, 0
		for i := 0; i < 8; i += 2 {
			j := (i + 2) % 8
			area += q[i]*q[j+1] - q[j]*q[i+1]
			x += q[i] / 4
			y += q[i+1] / 4
		}
		if math.Abs(area) >= 2 && !math.IsNaN(x) && !math.IsInf(x, 0) && !math.IsNaN(y) && !math.IsInf(y, 0) {
			return x, y, true
		}
	}
	return 0, 0, false
}

// Type implements [browser.Writer]. The text replaces the content of the
// field; an empty text clears it. Line breaks are typed as such and submit no
// form.
func (s *session) Type(ctx context.Context, selector, text string) error {
	if !s.rights.Write {
		return denied("type")
	}
	if len(text) > maxTyped {
		return invalid("text", "it is longer than "+count(maxTyped)+" bytes")
	}
	return s.act(ctx, s.settings.Limits.Navigation, func(ctx context.Context, t *tab) error {
		return t.lead(ctx, func() error { return t.typeInto(ctx, selector, text) })
	})
}

// selectAll selects the content of a field.
const selectAll = `
if (!shown(this)) return 'hidden';
const field = this instanceof HTMLInputElement ? HTMLInputElement : this instanceof HTMLTextAreaElement ? HTMLTextAreaElement : null;
if (field !== null) {
	if (of(field, 'disabled').call(this) || of(field, 'readOnly').call(this)) return 'closed';
	const kinds = ['text', 'search', 'url', 'tel', 'email', 'password', 'number', 'textarea'];
	if (!kinds.includes(of(field, 'type').call(this))) return 'other';
	HTMLElement.prototype.focus.call(this);
	field.prototype.select.call(this);
} else if (this instanceof HTMLElement && of(HTMLElement, 'isContentEditable').call(this)) {
	HTMLElement.prototype.focus.call(this);
	getSelection().selectAllChildren(this);
} else return 'other';
const active = of(Document, 'activeElement').call(document);
return active === this || active !== null && Node.prototype.contains.call(active, this) ? '' : 'closed';`

func (t *tab) typeInto(ctx context.Context, selector, text string) error {
	el, err := t.element(ctx, selector)
	if err != nil {
		return err
	}
	if _, err := call(ctx, t, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{ObjectID: el}); err != nil && ctx.Err() != nil {
		return err
	}
	var state string
	if err := t.on(ctx, el, &state, "", selectAll); err != nil {
		return err
	}
	switch state {
	case "":
	case "hidden":
		return failed("the element is not shown")
	case "closed":
		return failed("the field takes no text now")
	default:
		return failed("the element is no field for text")
	}
	if text == "" {
		return t.erase(ctx)
	}
	_, err = call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
	return err
}

// erase presses the key that deletes the selection.
func (t *tab) erase(ctx context.Context) error {
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
		if _, err := call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{
			Type: kind, Key: "Delete", Code: "Delete", WindowsVirtualKeyCode: 46,
		}); err != nil {
			return err
		}
	}
	return nil
}
