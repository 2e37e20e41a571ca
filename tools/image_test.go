package tools

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

func TestPictures(t *testing.T) {
	r := newRig(t, plain)
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewPaletted(image.Rect(0, 0, 31, 7), color.Palette{color.White})))
	r.bytes("a.png", b.Bytes())
	for _, tool := range []string{"image", "read"} {
		a := r.call(tool, obj{"path": "a.png"})
		d := data[schema.ReadResult](t, a)
		if len(a.Pictures) != 1 || a.Pictures[0].MIME != "image/png" || !bytes.Equal(a.Pictures[0].Data, b.Bytes()) || d.Width != 31 || d.Height != 7 || d.Kind != "picture" || d.Size != int64(b.Len()) {
			t.Errorf("%s: %+v", tool, d)
		}
	}
	r.bytes("cut.png", b.Bytes()[:20])
	r.bytes("large.png", append(bytes.Clone(b.Bytes()), make([]byte, pictureMaxBytes)...))
	r.bytes("text.png", []byte("text\n"))
	r.bytes("bin", []byte{0, 1, 2})
	for path, code := range map[string]sandbox.Code{
		"cut.png": sandbox.CodeValidation, "large.png": sandbox.CodeCapabilityBlocked, "text.png": sandbox.CodeValidation, "bin": sandbox.CodeValidation,
		"none": sandbox.CodeNotFound, ".": sandbox.CodeValidation,
	} {
		if e := r.refused(code, "image", obj{"path": path}); e.Field != "path" {
			t.Errorf("%s: %v", path, e)
		}
	}
	if d := data[schema.ReadResult](t, r.call("read", obj{"path": "text.png"})); d.Kind != "text" || d.Lines != 1 {
		t.Errorf("%+v", d)
	}
}
