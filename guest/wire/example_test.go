package wire_test

import (
	"bytes"
	"fmt"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

func Example() {
	var stream bytes.Buffer
	w := wire.NewWriter(&stream)
	_ = w.Write(wire.Frame{Type: wire.TypeStart, Stream: 1, Payload: wire.Start{Args: []string{"echo", "hi"}}.Encode()})

	r := wire.NewReader(&stream, wire.MaxRequest)
	f, _ := r.Next()
	m, _ := wire.DecodeStart(f.Payload)
	fmt.Println(f.Type == wire.TypeStart, f.Stream, m.Args)
	// Output: true 1 [echo hi]
}
