package statedir_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

func ExampleOpen() {
	tmp, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tmp)

	d, err := statedir.Open(filepath.Join(tmp, "state"))
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := statedir.Open(d.Path())
	fmt.Println(len(d.Instance()), err, again.Instance() == d.Instance())
	// Output: 16 <nil> true
}
