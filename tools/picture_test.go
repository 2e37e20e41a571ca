package tools

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func drawn(w, h int) *image.Paletted {
	return image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
}

// Smallest pictures of the three kinds of WebP, 1 by 1, 1 by 1 and 17 by 3.
func webps(t testing.TB) map[string][]byte {
	lossy, err := base64.StdEncoding.DecodeString("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
	if err != nil {
		t.Fatal(err)
	}
	lossless, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	extended := append([]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00"), 16, 0, 0, 2, 0, 0)
	return map[string][]byte{"lossy": lossy, "lossless": append(lossless, 0, 0), "extended": extended}
}

func TestMeasure(t *testing.T) {
	var asPNG, asJPEG, asGIF bytes.Buffer
	for _, err := range []error{png.Encode(&asPNG, drawn(31, 7)), jpeg.Encode(&asJPEG, drawn(31, 7), nil), gif.Encode(&asGIF, drawn(31, 7), nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w := webps(t)
	for _, tt := range []struct {
		name, mime string
		data       []byte
		want       pictureSize
	}{
		{"png", "image/png", asPNG.Bytes(), pictureSize{Width: 31, Height: 7}},
		{"jpeg", "image/jpeg", asJPEG.Bytes(), pictureSize{Width: 31, Height: 7}},
		{"gif", "image/gif", asGIF.Bytes(), pictureSize{Width: 31, Height: 7}},
		{"lossy webp", "image/webp", w["lossy"], pictureSize{Width: 1, Height: 1}},
		{"lossless webp", "image/webp", w["lossless"], pictureSize{Width: 1, Height: 1}},
		{"extended webp", "image/webp", w["extended"], pictureSize{Width: 17, Height: 3}},
	} {
		got, err := measurePicture(tt.mime, tt.data)
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if _, err := measurePicture(tt.mime, tt.data[:12]); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s that breaks off: %v", tt.name, err)
		}
	}
}

func TestMeasureRefuses(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, drawn(1, 1)); err != nil {
		t.Fatal(err)
	}
	sized := func(w, h uint32) []byte {
		out := bytes.Clone(b.Bytes())
		binary.BigEndian.PutUint32(out[16:], w)
		binary.BigEndian.PutUint32(out[20:], h)
		return crc(out)
	}
	for _, tt := range []struct {
		name string
		data []byte
		want sandbox.Code
	}{
		{"very wide", sized(maxSide+1, 1), sandbox.CodeCapabilityBlocked},
		{"very many pixels", sized(maxSide, maxSide), sandbox.CodeCapabilityBlocked},
		{"sides that no picture has", sized(1<<31-1, 1<<31-1), sandbox.CodeValidation},
		{"no pixels", sized(0, 1), sandbox.CodeValidation},
		{"too many bytes", append(sized(1, 1), make([]byte, pictureMaxBytes)...), sandbox.CodeCapabilityBlocked},
	} {
		if _, err := measurePicture("image/png", tt.data); sandbox.CodeOf(err) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := measurePicture("image/tiff", b.Bytes()); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("another type: %v", err)
	}
}

// crc mends the sum of the first chunk.
func crc(b []byte) []byte {
	sum := uint32(0xffffffff)
	for _, c := range b[12:29] {
		sum ^= uint32(c)
		for range 8 {
			sum = sum>>1 ^ 0xedb88320&-(sum&1)
		}
	}
	binary.BigEndian.PutUint32(b[29:], ^sum)
	return b
}

func FuzzMeasure(f *testing.F) {
	for _, b := range webps(f) {
		f.Add("image/webp", b)
	}
	f.Add("image/png", []byte("\x89PNG\r\n\x1a\n"))
	f.Add("image/jpeg", []byte("\xff\xd8\xff\xe0"))
	f.Add("image/gif", []byte("GIF89a"))
	f.Fuzz(func(t *testing.T, mime string, data []byte) {
		s, err := measurePicture(mime, data)
		if err != nil {
			if c := sandbox.CodeOf(err); c != sandbox.CodeValidation && c != sandbox.CodeCapabilityBlocked {
				t.Fatal(err)
			}
			return
		}
		if s.Width <= 0 || s.Height <= 0 || s.Width > maxSide || s.Height > maxSide || s.Width*s.Height > maxPixels {
			t.Fatalf("%+v", s)
		}
	})
}
