//go:build ignore

// Command mirror is the package mirror of the demo: it serves one Python
// package at a loopback address that is its argument, and says where. Each
// request is a line of its error output.
package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// wheel is the package's file name, as Python's package tools name it.
const wheel = "greeting-1.0-py3-none-any.whl"

const source = `def hello():
    return "greetings from the mirror"
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mirror:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: mirror ADDRESS:PORT")
	}
	pack, err := build()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Printf("%s %s\n", l.Addr(), wheel)
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(os.Stderr, "%s %q\n", r.Method, r.URL.Path)
		if r.URL.Path != "/"+wheel {
			http.NotFound(w, r)
			return
		}
		w.Write(pack)
	})}
	return s.Serve(l)
}

// build makes the package, which is a zip archive.
func build() ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("greeting.py")
	if err == nil {
		_, err = io.WriteString(w, source)
	}
	if err == nil {
		err = z.Close()
	}
	return b.Bytes(), err
}
