//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/sdk"
)

// drainWithin is how long the daemon may take to end before it is killed.
const drainWithin = time.Minute

// A Daemon is `sandbox serve` in a process of its own, with a state folder of
// its own, at a unix socket and at a loopback address.
type rigDaemon struct {
	Unix *sdk.API     // as the daemon's own user
	TCP  *sdk.API     // with the token of an admin
	HTTP *http.Client // over the unix socket, for other protocols
	PID  int

	flags, env []string // of sandbox(1) for the same state
	instance   string
	r          *rig
}

// OpenDaemon starts the daemon of program, which is sandbox(1), the same one
// each time. Close ends it.
func (r *rig) OpenDaemon(ctx context.Context, program, guest string) (*rigDaemon, error) {
	if r.daemon != nil {
		return r.daemon, nil
	}
	d, _, _, err := r.startDaemon(ctx, program, guest, "served", 0)
	if err == nil {
		r.daemon = d
	}
	return d, err
}

// startDaemon starts a daemon with a pool of that size in a state folder of that
// name. It returns its loopback address and the secret of an admin's token too.
func (r *rig) startDaemon(ctx context.Context, program, guest, name string, pool int) (d *rigDaemon, tcp, secret string, err error) {
	s, err := r.newSite(name, pool)
	if err != nil {
		return nil, "", "", err
	}
	common := []string{"--config", s.settings, "--state-dir", s.state}
	env := append(os.Environ(), "SANDBOX_GUEST="+guest, "SANDBOX_HOST=", "SANDBOX_TOKEN=")
	socket := filepath.Join(filepath.Dir(s.state), name+".sock")
	c := exec.Command(program, append(common, "serve", "--listen", "unix:"+socket, "--listen", "tcp:127.0.0.1:0")...)
	c.Env = env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal of the terminal is for us, who end it
	said, err := c.StderrPipe()
	if err != nil {
		return nil, "", "", err
	}
	if err := c.Start(); err != nil {
		return nil, "", "", err
	}
	addresses, rest := listening(said, 2)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, rest) // so that it never waits for us; its end is the process's
	}()
	r.later(func(context.Context) error { return end(c, drained) })
	if len(addresses) != 2 {
		return nil, "", "", sandbox.Errorf(sandbox.CodeUnavailable, "start the daemon", "it says of %d of 2 addresses that it listens there", len(addresses))
	}
	issue := exec.CommandContext(ctx, program, append(common, "token", "create", "--role", "admin", "--format", "json", "--expires", "1h")...)
	issue.Env = env
	secret, err = tokenOf(issue)
	if err != nil {
		return nil, "", "", err
	}
	d = &rigDaemon{PID: c.Process.Pid, flags: common, env: env, instance: s.instance, r: r}
	if err := d.connect(socket, addresses[1], secret); err != nil {
		return nil, "", "", err
	}
	return d, addresses[1], secret, nil
}

// connect makes the clients.
func (d *rigDaemon) connect(socket, tcp, secret string) (err error) {
	if d.Unix, err = sdk.NewAPI("unix:"+socket, sdk.APIOptions{}); err != nil {
		return err
	}
	if d.TCP, err = sdk.NewAPI(tcp, sdk.APIOptions{Token: secret}); err != nil {
		return err
	}
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	d.HTTP = &http.Client{Transport: t}
	d.r.later(func(context.Context) error {
		t.CloseIdleConnections()
		return errors.Join(d.Unix.Close(), d.TCP.Close())
	})
	return nil
}

// listening reads the daemon's output until it has printed n addresses, or has
// ended, and returns what follows.
func listening(said io.Reader, n int) (addresses []string, rest io.Reader) {
	in := bufio.NewReader(said)
	for len(addresses) < n {
		line, err := in.ReadString('\n')
		if _, at, ok := strings.Cut(line, "listening at "); ok {
			addresses = append(addresses, strings.TrimSpace(at))
		}
		if err != nil {
			break
		}
	}
	return addresses, in
}

// end asks the daemon to end, and kills it where it does not.
func end(c *exec.Cmd, drained <-chan struct{}) error {
	if err := c.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.AfterFunc(drainWithin, func() { c.Process.Kill() })
	defer late.Stop()
	<-drained
	return c.Wait()
}

// tokenOf runs what makes a token and returns its secret.
func tokenOf(c *exec.Cmd) (string, error) {
	out, err := c.Output()
	if err != nil {
		return "", sandbox.Errorf(sandbox.CodeUnavailable, "make a token", "%w", err)
	}
	return secretIn(out)
}

// Empty removes every sandbox of the daemon behind its back.
func (d *rigDaemon) Empty() error { return d.r.removeAll(d.instance) }

// secretIn finds the secret in what the program tells of a new token.
func secretIn(text []byte) (string, error) {
	var reported struct{ Token string }
	if err := json.Unmarshal(text, &reported); err != nil || reported.Token == "" {
		return "", sandbox.Errorf(sandbox.CodeInternal, "make a token", "what the program tells of it is not understood")
	}
	return reported.Token, nil
}
