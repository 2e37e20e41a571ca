package picture_test

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox/tools/picture"
)

func ExampleMeasure() {
	fmt.Println(picture.Measure("image/webp", []byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x0f\x00\x00\x08\x00\x00")))
	// Output: {16 9} <nil>
}
