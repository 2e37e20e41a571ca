//go:build linux

package main

import (
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func TestListening(t *testing.T) {
	tests := []struct {
		name, said string
		want       []string
		rest       string
	}{
		{"both", "warning: x\nsandbox: listening at unix:/s\nsandbox: listening at tcp:127.0.0.1:1\nmore\n", []string{"unix:/s", "tcp:127.0.0.1:1"}, "more\n"},
		{"it ends after one", "sandbox: listening at unix:/s\n", []string{"unix:/s"}, ""},
		{"it fails", "sandbox: no engine\n", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, in := listening(strings.NewReader(tt.said), 2)
			rest, err := io.ReadAll(in)
			if !slices.Equal(got, tt.want) || string(rest) != tt.rest || err != nil {
				t.Errorf("%q, then %q, %v", got, rest, err)
			}
		})
	}
}

func TestSecretIn(t *testing.T) {
	if got, err := secretIn([]byte(`{"id":"a","token":"sbx_x"}`)); got != "sbx_x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"", "{}", `{"token":1}`, "sbx_x"} {
		if got, err := secretIn([]byte(text)); sandbox.CodeOf(err) != sandbox.CodeInternal {
			t.Errorf("%q gives %q, %v", text, got, err)
		}
	}
}

// TestOfAProcess asks about this one, of which more is known.
func TestOfAProcess(t *testing.T) {
	d := &rigDaemon{PID: os.Getpid()}
	if rss, err := d.RSS(); err != nil || rss < 1<<20 {
		t.Errorf("it holds %d bytes, %v", rss, err)
	}
	from, err := d.CPU()
	if err != nil || from <= 0 {
		t.Fatalf("it has taken %v, %v", from, err)
	}
	for to := from; to-from < 5*time.Millisecond; { // ends because it takes time itself
		if to, err = d.CPU(); err != nil || to < from {
			t.Fatalf("then it has taken %v, %v", to, err)
		}
	}
	before, err := d.Sockets()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if after, err := d.Sockets(); err != nil || after != before+1 {
		t.Errorf("%d sockets and then %d, %v", before, after, err)
	}
}

func TestOfNoProcess(t *testing.T) {
	d := &rigDaemon{PID: 1 << 25}
	if _, err := d.RSS(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("memory: %v", err)
	}
	if _, err := d.CPU(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("time: %v", err)
	}
}
