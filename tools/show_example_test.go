package tools

import (
	"fmt"
	"strings"
)

func ExampleLines() {
	l, err := linesShow(strings.NewReader("one\r\ntwo\r\nthree\r\n"), showSpan{Offset: 2, Limit: 1})
	fmt.Print(l.Text)
	fmt.Println(l.Hint)
	fmt.Println(l.Notes, err)
	// Output:
	//      2	two
	// lines 2 to 2 of 3; go on with offset 3
	// [the lines end with carriage return and newline] <nil>
}
