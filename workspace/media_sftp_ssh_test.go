package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

func host() Host {
	return Host{Name: "node", Address: "192.0.2.1", Port: 2200, User: "media", Identity: "/k/id", KnownHosts: "/k/known", Folders: []string{"/srv/media"}}
}

// stranger returns a source whose ssh is a script.
func stranger(t *testing.T, script string) *Remote {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ssh")
	sftpMust(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o700))
	r, err := NewSFTP(SFTPOptions{Hosts: []Host{host()}, Program: program})
	sftpMust(t, err)
	return r
}

// TestArguments holds what ssh is called with: the ref adds nothing to it, and
// neither does the environment.
func TestArguments(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "/tmp/agent")
	t.Setenv("LD_PRELOAD", "")
	out := filepath.Join(t.TempDir(), "out")
	r := stranger(t, fmt.Sprintf(`printf '%%s\n' "$@" >%[1]s; env >>%[1]s`, out))
	_, _, err := r.Open(t.Context(), "node:/srv/media/-oProxyCommand=id")
	sftpWantCode(t, "Open", err, sandbox.CodeUnavailable)
	data, err := os.ReadFile(out)
	sftpMust(t, err)
	said := string(data)
	for _, want := range []string{
		"-F\nnone\n", "BatchMode=yes\n", "StrictHostKeyChecking=yes\n", "UserKnownHostsFile=/k/known\n", "GlobalKnownHostsFile=none\n",
		"ProxyCommand=none\n", "IdentityAgent=none\n", "ClearAllForwardings=yes\n", "-p\n2200\n-l\nmedia\n-i\n/k/id\n", "-s\n--\n192.0.2.1\nsftp\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not among the arguments:\n%s", want, said)
		}
	}
	for _, never := range []string{"ProxyCommand=id", "/srv/media", "SSH_AUTH_SOCK", "HOME="} {
		if strings.Contains(said, never) {
			t.Errorf("%q came through:\n%s", never, said)
		}
	}
}

// TestNothingIsLeftRunning ends a call whose ssh has started programs and says
// nothing. Each of them holds a pipe open, whose end tells that all are gone.
func TestNothingIsLeftRunning(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	sftpMust(t, unix.Mkfifo(pipe, 0o600))
	r := stranger(t, fmt.Sprintf("exec 9>%s\necho started >&9\nsleep 1000 &\nsleep 1000\n", pipe))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, _, err := r.Open(ctx, "node:/srv/media/a")
		done <- err
	}()
	held, err := os.Open(pipe)
	sftpMust(t, err)
	defer held.Close()
	buf := make([]byte, 8)
	_, err = io.ReadFull(held, buf)
	sftpMust(t, err)
	cancel()
	sftpWantCode(t, "Open", <-done, sandbox.CodeTimeout)
	if _, err := io.ReadAll(held); err != nil {
		t.Error(err)
	}
}

func TestWhatSSHSays(t *testing.T) {
	for name, script := range map[string]string{
		"complains":     `echo first >&2; printf 'no \033[31mway\n' >&2; exit 255`,
		"talks a lot":   `i=0; while [ $i -lt 2000 ]; do echo "no way, $i no way" >&2; i=$((i+1)); done; exit 255`,
		"greets":        `echo "no way" >&2; echo Welcome to this machine; exit 0`,
		"ends in peace": `exit 0`,
	} {
		_, _, err := stranger(t, script).Open(t.Context(), "node:/srv/media/a")
		sftpWantCode(t, name, err, sandbox.CodeUnavailable)
		if err != nil && (len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\x1b\n")) {
			t.Errorf("%s: cannot be shown: %q", name, err)
		}
		if name == "complains" && !strings.Contains(err.Error(), "way") {
			t.Errorf("the reason is not told: %v", err)
		}
	}
	r, err := NewSFTP(SFTPOptions{Hosts: []Host{host()}, Program: "/none/ssh"})
	sftpMust(t, err)
	_, _, err = r.Open(t.Context(), "node:/srv/media/a")
	sftpWantCode(t, "no ssh", err, sandbox.CodeUnavailable)
}

func TestRefs(t *testing.T) {
	r := stranger(t, "exit 1")
	for ref, want := range map[string]sandbox.Code{
		"": sandbox.CodeValidation, "node": sandbox.CodeValidation, "node:": sandbox.CodeValidation, "node:a": sandbox.CodeValidation,
		"/srv/media/a": sandbox.CodeValidation, "node:/srv/media/a\x00": sandbox.CodeValidation, "node:/srv/media/a\nb": sandbox.CodeValidation,
		"node:/srv/media/\xff": sandbox.CodeValidation, "node:/" + strings.Repeat("a", 5000): sandbox.CodeValidation,
		"node:/srv/media": sandbox.CodeCapabilityBlocked, "node:/srv/media/": sandbox.CodeCapabilityBlocked, "node:/srv/mediax/a": sandbox.CodeCapabilityBlocked,
		"node:/srv/media/../a": sandbox.CodeCapabilityBlocked, "node://srv/media/a": sandbox.CodeCapabilityBlocked, "node:/etc/passwd": sandbox.CodeCapabilityBlocked,
		"-oProxyCommand=id:/srv/media/a": sandbox.CodeCapabilityBlocked, "media@node:/srv/media/a": sandbox.CodeCapabilityBlocked, "NODE:/srv/media/a": sandbox.CodeCapabilityBlocked,
	} {
		_, _, err := r.Open(t.Context(), ref)
		sftpWantCode(t, fmt.Sprintf("%.60q", ref), err, want)
	}
}

func TestSftpOptions(t *testing.T) {
	for _, tt := range []struct {
		field  string
		change func(*Host)
	}{
		{"Name", func(h *Host) { h.Name = "-oProxyCommand=id" }},
		{"Name", func(h *Host) { h.Name = "" }},
		{"Address", func(h *Host) { h.Address = "-oProxyCommand=id" }},
		{"Address", func(h *Host) { h.Address = "a b" }},
		{"Address", func(h *Host) { h.Address = "fe80::1%eth0" }},
		{"Port", func(h *Host) { h.Port = 65536 }},
		{"User", func(h *Host) { h.User = "-l" }},
		{"User", func(h *Host) { h.User = "a@b" }},
		{"Identity", func(h *Host) { h.Identity = "id" }},
		{"Identity", func(h *Host) { h.Identity = "/k/%d/id" }},
		{"KnownHosts", func(h *Host) { h.KnownHosts = "" }},
		{"KnownHosts", func(h *Host) { h.KnownHosts = "/k/a /k/b" }},
		{"KnownHosts", func(h *Host) { h.KnownHosts = "/k/../x" }},
		{"Folders", func(h *Host) { h.Folders = nil }},
		{"Folders[0]", func(h *Host) { h.Folders = []string{"/"} }},
		{"Folders[0]", func(h *Host) { h.Folders = []string{"/a/../b"} }},
	} {
		h := host()
		tt.change(&h)
		_, err := NewSFTP(SFTPOptions{Hosts: []Host{h}})
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != "Hosts[0]."+tt.field {
			t.Errorf("%s: %v", tt.field, err)
		}
	}
	for name, o := range map[string]SFTPOptions{"none": {}, "twice": {Hosts: []Host{host(), host()}}, "program": {Hosts: []Host{host()}, Program: "ssh"}} {
		_, err := NewSFTP(o)
		sftpWantCode(t, name, err, sandbox.CodeValidation)
	}
}
