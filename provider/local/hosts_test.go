//go:build linux

package local_test

import "testing"

// TestOwnHostName holds that programs find the sandbox's own name, as they do
// in a container, and no name of the host's file.
func TestOwnHostName(t *testing.T) {
	r := newRig(t)
	p := r.provider(t)
	sb := r.open(p, r.spec("hostname"))
	for line, want := range map[string]string{
		`python3 -c 'import socket; print(socket.gethostname(), socket.gethostbyname(socket.gethostname()))'`:          "sandbox 127.0.0.1",
		`python3 -c 'import socket; print(socket.create_server(("::1", 0), family=socket.AF_INET6).getsockname()[0])'`: "::1",
		`grep -vc -e localhost -e sandbox /etc/hosts`:                                                                  "0",
		`(echo 10.0.0.1 x >> /etc/hosts) 2>/dev/null || echo refused`:                                                  "refused",
	} {
		if out, _ := sh(t, sb, line); out != want {
			t.Errorf("%s printed %q, want %q", line, out, want)
		}
	}
}
