//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// TestExec holds that the yardstick is a correct client: what it measures
// would otherwise not be what programs need.
func TestExec(t *testing.T) {
	w := dockertest.New(t)
	_, s := w.Open("plain")
	e, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	tests := []struct {
		name     string
		c        plainCommand
		code     int
		out, err string
	}{
		{"true", plainCommand{Args: []string{"/bin/true"}}, 0, "", ""},
		{"exit status", plainCommand{Args: []string{"sh", "-c", "exit 3"}}, 3, "", ""},
		{"both outputs", plainCommand{Args: []string{"sh", "-c", "echo out; echo err >&2"}}, 0, "out\n", "err\n"},
		{"empty input", plainCommand{Args: []string{"cat"}, Stdin: []byte{}}, 0, "", ""},
		{"1 MiB through", plainCommand{Args: []string{"cat"}, Stdin: big}, 0, string(big), ""},
		{"input that nobody wants", plainCommand{Args: []string{"sh", "-c", "exec <&-; echo done"}, Stdin: []byte("x")}, 0, "done\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			tt.c.Stdout, tt.c.Stderr = &out, &errOut
			code, err := e.Exec(t.Context(), s.Name, tt.c)
			if err != nil || code != tt.code || errOut.String() != tt.err {
				t.Errorf("%d, errors %q, %v", code, errOut.String(), err)
			}
			if sha256.Sum256(out.Bytes()) != sha256.Sum256([]byte(tt.out)) {
				t.Errorf("%d bytes of output are not the %d expected", out.Len(), len(tt.out))
			}
		})
	}
}

// TestExecEndsWithItsContext holds that a cancelled call returns at once and
// leaves no goroutine. The program inside runs on: the API cannot end it.
func TestExecEndsWithItsContext(t *testing.T) {
	w := dockertest.New(t)
	_, s := w.Open("cancel")
	before := goleak.IgnoreCurrent()
	e, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	for _, stdin := range [][]byte{nil, make([]byte, 8<<20)} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		var out, errOut bytes.Buffer
		begun := time.Now()
		_, err = e.Exec(ctx, s.Name, plainCommand{Args: []string{"sleep", "60"}, Stdin: stdin, Stdout: &out, Stderr: &errOut})
		cancel()
		if err == nil || time.Since(begun) > 30*time.Second {
			t.Errorf("after %v it says %v", time.Since(begun), err)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	testenv.None(t, before)
}

func TestNoSuchContainer(t *testing.T) {
	dockertest.New(t)
	e, err := Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, err = e.Exec(t.Context(), "sbx-that-is-not-there", plainCommand{Args: []string{"true"}})
	var own *sandbox.Error
	if !errors.As(err, &own) || own.Code != sandbox.CodeUnavailable {
		t.Errorf("it says %v", err)
	}
}
