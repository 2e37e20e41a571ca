package page

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/bulkhead-dev/sandbox/browser"
)

// worldName is the name of the isolated world in a page.
const worldName = "sandbox"

// prelude starts every function that is run in the isolated world. A page
// cannot change what that world sees of the browser, but its forms and
// pictures can shadow properties of the document by their names; so properties
// are read by the getters of the browser's own prototypes.
const prelude = `
const of = (type, name) => Object.getOwnPropertyDescriptor(type.prototype, name).get;
const find = sel => Document.prototype.querySelector.call(document, sel);
const body = () => of(Document, 'body').call(document);
const textOf = el => el instanceof HTMLElement ? of(HTMLElement, 'innerText').call(el) : of(Node, 'textContent').call(el) || '';
const shown = el => Element.prototype.checkVisibility.call(el, {visibilityProperty: true, contentVisibilityAuto: true}) &&
	[...Element.prototype.getClientRects.call(el)].some(r => r.width > 0 && r.height > 0);
`

// world returns the isolated world in the current main document.
func (t *tab) world(ctx context.Context) (runtime.ExecutionContextID, error) {
	made, err := call(ctx, t, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: cdp.FrameID(t.id), WorldName: worldName})
	return made.ExecutionContextID, err
}

// run calls a function in the isolated world. Arguments are plain values. The
// result is an object unless byValue is set.
func (t *tab) run(ctx context.Context, params, code string, byValue bool, arguments ...any) (*runtime.RemoteObject, error) {
	world, err := t.world(ctx)
	if err != nil {
		return nil, err
	}
	return t.callIn(ctx, runtime.CallFunctionOnParams{ExecutionContextID: world, ReturnByValue: new(byValue)}, params, code, arguments)
}

// on calls a function with an element of the page as "this".
func (t *tab) on(ctx context.Context, el runtime.RemoteObjectID, into any, params, code string, arguments ...any) error {
	object, err := t.callIn(ctx, runtime.CallFunctionOnParams{ObjectID: el, ReturnByValue: new(true)}, params, code, arguments)
	if err != nil || into == nil {
		return err
	}
	return decode(object, into)
}

func (t *tab) callIn(ctx context.Context, p runtime.CallFunctionOnParams, params, code string, arguments []any) (*runtime.RemoteObject, error) {
	p.FunctionDeclaration = "function(" + params + ") {" + prelude + code + "}"
	p.Silent, p.ObjectGroup = new(true), worldName
	for _, a := range arguments {
		data, err := json.Marshal(a)
		if err != nil {
			return nil, invalid("argument", "it cannot be given to a page")
		}
		p.Arguments = append(p.Arguments, &runtime.CallArgument{Value: jsonv2.Value(data)})
	}
	done, err := call(ctx, t, runtime.CallFunctionOn, p)
	if err != nil {
		return nil, err
	}
	if e := done.ExceptionDetails; e != nil {
		if e.Exception != nil && (strings.Contains(e.Exception.Description, "is not a valid selector") || strings.HasPrefix(e.Exception.Description, "SyntaxError")) {
			return nil, invalid("selector", "it is no selector of CSS")
		}
		return nil, failed("the page cannot be read")
	}
	if done.Result == nil {
		return nil, failed("the page gives no answer")
	}
	return done.Result, nil
}

// moves is how often a page may navigate during one call.
const moves = 10

// ask calls a function and decodes its result. If the page navigates
// meanwhile, the function is called again.
func (t *tab) ask(ctx context.Context, into any, params, code string, arguments ...any) error {
	for n := 1; ; n++ {
		object, err := t.run(ctx, params, code, true, arguments...)
		if err == nil {
			return decode(object, into)
		}
		if !moved(err) {
			return err
		}
		if n == moves {
			return changed()
		}
	}
}

// moved reports whether an error says that the document of a call is gone.
func moved(err error) bool {
	var refused *cdproto.Error
	if !errors.As(err, &refused) {
		return false
	}
	for _, says := range []string{"Cannot find context", "context was destroyed", "navigated or closed", "Could not find object", "Cannot find object"} {
		if strings.Contains(refused.Message, says) {
			return true
		}
	}
	return false
}

func decode(object *runtime.RemoteObject, into any) error {
	if err := jsonv2.Unmarshal(object.Value, into); err != nil {
		return failed("the page gives an answer that cannot be read")
	}
	return nil
}

// element finds the first element that matches.
func (t *tab) element(ctx context.Context, selector string) (runtime.RemoteObjectID, error) {
	if selector == "" || len(selector) > maxSelector {
		return "", invalid("selector", "a selector of CSS is needed, of at most "+count(maxSelector)+" bytes")
	}
	object, err := t.run(ctx, "sel", "return find(sel)", false, selector)
	if err != nil {
		return "", err
	}
	if object.ObjectID == "" {
		return "", noMatch(selector)
	}
	return object.ObjectID, nil
}

// maxSelector is the longest selector, in bytes.
const maxSelector = 4 << 10

// title is the title of the document.
func (t *tab) title(ctx context.Context) (string, error) {
	var title string
	err := t.ask(ctx, &title, "most", "return of(Document, 'title').call(document).slice(0, most)", maxTitle)
	return cut(title, maxTitle), err
}

// maxTitle is the longest title that is returned, in bytes.
const maxTitle = 1 << 10

// holds reports whether a condition is met now.
func (t *tab) holds(ctx context.Context, c browser.Condition) (bool, error) {
	var so bool
	var err error
	switch {
	case c.Visible != "":
		err = t.ask(ctx, &so, "sel", "return [...Document.prototype.querySelectorAll.call(document, sel)].some(shown)", c.Visible)
	case c.Gone != "":
		err = t.ask(ctx, &so, "sel", "return find(sel) === null", c.Gone)
	default:
		err = t.ask(ctx, &so, "text", "const b = body(); return b !== null && textOf(b).includes(text)", c.Text)
	}
	return so, err
}
