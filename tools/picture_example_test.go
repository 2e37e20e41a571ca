package tools

import (
	"fmt"
)

func Example_measurePicture() {
	fmt.Println(measurePicture("image/webp", []byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x0f\x00\x00\x08\x00\x00")))
	// Output: {16 9} <nil>
}
