//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// proxy answers as one does that fetches by itself, and tunnels nothing.
func proxy(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		http.Error(w, "Blocked", http.StatusForbidden)
	case r.URL.Path == "/zeros":
		io.WriteString(w, strings.Repeat("\x00", 5))
	default:
		io.WriteString(w, "ok")
	}
}

func TestLoad(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(proxy))
	defer s.Close()
	at := strings.TrimPrefix(s.URL, "http://")
	tests := []struct {
		name  string
		args  []string
		times int // for each of two lines; 0 is a failure
	}{
		{"requests", []string{"-n", "3", "request"}, 3},
		{"requests through a proxy", []string{"-n", "3", "-proxy", at, "request"}, 3},
		{"connections", []string{"-n", "2", "connect"}, 2},
		{"a proxy that refuses", []string{"-proxy", at, "connect"}, 0},
		{"a proxy that refuses to hold", []string{"-proxy", at, "hold"}, 0},
		{"a download", []string{"-bytes", "5", "fetch"}, 1},
		{"a download through a proxy", []string{"-bytes", "5", "-proxy", at, "fetch"}, 1},
		{"a download that is too short", []string{"-bytes", "6", "tunnel"}, 0},
		{"no work", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			err := load(append([]string{"-at", at}, tt.args...), strings.NewReader("\n\n"), &out)
			if (err != nil) != (tt.times == 0) {
				t.Fatalf("it says %v", err)
			}
			for line := range strings.Lines(out.String()) {
				if words := strings.Fields(line); len(words) != tt.times {
					t.Errorf("%q, want %d times", line, tt.times)
				}
				var ns int64
				if _, err := fmt.Sscan(line, &ns); err != nil || ns <= 0 {
					t.Errorf("%q is no time: %v", line, err)
				}
			}
			if want := 2; tt.times > 0 && strings.Count(out.String(), "\n") != want {
				t.Errorf("%q, want %d lines", out.String(), want)
			}
		})
	}
}
