// The picture files read the size of a picture from its header, without
// decoding it. They do no I/O; the data is untrusted.

package tools

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"

	"github.com/bulkhead-dev/sandbox"
)

// The bounds of a picture for agents. The recipient decodes it, so a few bytes
// must not stand for very many pixels.
const (
	pictureMaxBytes = 5 << 20
	maxSide         = 16384    // pixels of one side
	maxPixels       = 64 << 20 // of all of it
)

// A Size is that of a picture in pixels.
type pictureSize struct{ Width, Height int }

// Measure returns the size of a picture of the given media type: image/png,
// image/jpeg, image/gif or image/webp. What is none, or breaks off before its
// size, is [sandbox.CodeValidation]; what is beyond the bounds is
// [sandbox.CodeCapabilityBlocked].
func measurePicture(mime string, data []byte) (pictureSize, error) {
	if len(data) > pictureMaxBytes {
		return pictureSize{}, sandbox.Errorf(sandbox.CodeCapabilityBlocked, "picture", "the picture has more than %d bytes, which is the most that is shown", pictureMaxBytes)
	}
	s, err := measure(mime, data)
	if err != nil {
		return pictureSize{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "picture", Message: "this begins like a picture and is none that can be read", Err: err}
	}
	switch {
	case s.Width <= 0 || s.Height <= 0:
		return pictureSize{}, sandbox.Errorf(sandbox.CodeValidation, "picture", "the picture says that it has %d by %d pixels", s.Width, s.Height)
	case s.Width > maxSide || s.Height > maxSide || s.Width*s.Height > maxPixels:
		return pictureSize{}, sandbox.Errorf(sandbox.CodeCapabilityBlocked, "picture", "the picture has %d by %d pixels, and at most %d a side and %d in all are shown", s.Width, s.Height, maxSide, maxPixels)
	}
	return s, nil
}

func measure(mime string, data []byte) (pictureSize, error) {
	r := bytes.NewReader(data)
	var c image.Config
	var err error
	switch mime {
	case "image/png":
		c, err = png.DecodeConfig(r)
	case "image/jpeg":
		c, err = jpeg.DecodeConfig(r)
	case "image/gif":
		c, err = gif.DecodeConfig(r)
	case "image/webp":
		return webp(data)
	default:
		err = fmt.Errorf("%q is no type of picture that is known", mime)
	}
	return pictureSize{c.Width, c.Height}, err
}

// webp reads the first chunk of a WebP file, by RFC 9649.
func webp(b []byte) (pictureSize, error) {
	if len(b) < 30 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WEBP" {
		return pictureSize{}, fmt.Errorf("a WebP picture begins with 30 bytes that say how large it is")
	}
	body := b[20:]
	switch string(b[12:16]) {
	case "VP8X": // section 2.7: both sides less one, in 24 bits each
		return pictureSize{1 + int(uint24(body[4:])), 1 + int(uint24(body[7:]))}, nil
	case "VP8L": // section 3.4: a signature, then 14 bits less one for each side
		if body[0] != 0x2f {
			return pictureSize{}, fmt.Errorf("the lossless stream has no signature")
		}
		n := binary.LittleEndian.Uint32(body[1:])
		return pictureSize{1 + int(n&0x3fff), 1 + int(n>>14&0x3fff)}, nil
	case "VP8 ": // RFC 6386, section 9.1: a key frame's start code, then 14 bits for each side
		if body[0]&1 != 0 || string(body[3:6]) != "\x9d\x01\x2a" {
			return pictureSize{}, fmt.Errorf("the lossy stream does not begin with a key frame")
		}
		return pictureSize{int(binary.LittleEndian.Uint16(body[6:]) & 0x3fff), int(binary.LittleEndian.Uint16(body[8:]) & 0x3fff)}, nil
	}
	return pictureSize{}, fmt.Errorf("the first chunk is none that a WebP picture begins with")
}

func uint24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }
