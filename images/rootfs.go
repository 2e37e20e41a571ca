package images

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// toolGrace is how long a tool may take to clean up after it was asked to end,
// before it is killed.
const toolGrace = 10 * time.Second

// makeRootfs runs the tool of p and writes the new root folder as a tar
// stream to w. log gets what the tool says, line by line. The end of ctx ends
// the tool and everything it started.
func makeRootfs(ctx context.Context, p plan, log func(string), w io.Writer) error {
	// The tools unpack a whole system; this folder goes with whatever they
	// left in it.
	scratch, err := os.MkdirTemp("", "sandbox-bootstrap-")
	if err != nil {
		return err
	}
	defer removeScratch(scratch, log)
	if err := os.Chmod(scratch, 0o755); err != nil { // an unprivileged apt looks in
		return err
	}
	if p.toolName() == "mmdebstrap" {
		cmd := command(ctx, p, scratch, log, mmdebstrapArgs(p, aptOptions(ctx))...)
		cmd.Stdin = strings.NewReader(renderDeb822(p.sources))
		cmd.Stdout = w
		return run(cmd)
	}
	return debootstrap(ctx, p, scratch, log, w)
}

// mmdebstrapArgs makes mmdebstrap read its sources from standard input and
// write a tar stream to standard output. What apt and dpkg say shows that it makes
// progress: many packages take longer than silence may last.
func mmdebstrapArgs(p plan, aptOptions []string) []string {
	args := []string{"--verbose", "--variant=minbase", "--format=tar", "--include=" + strings.Join(p.packages, ",")}
	for _, o := range aptOptions {
		args = append(args, "--aptopt="+o)
	}
	return append(args, p.distro.suite, "-", "-")
}

// debootstrap knows one mirror and one suite; the newest fixes come with the
// first setup command that upgrades. It mounts things in the folder it fills,
// so it gets a mount namespace of its own.
func debootstrap(ctx context.Context, p plan, scratch string, log func(string), w io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("debootstrap needs root; mmdebstrap does not")
	}
	root := filepath.Join(scratch, "root")
	mirror, components := firstMirror(p)
	if mirror == "" {
		return errors.New("no package source is known for " + p.distro.id + " " + p.distro.suite)
	}
	cmd := command(ctx, p, scratch, log, "--variant=minbase", "--include="+strings.Join(p.packages, ","),
		"--components="+strings.Join(components, ","), p.distro.suite, root, mirror)
	ownMounts(cmd)
	cmd.Stdout = &lineWriter{log: log}
	if err := run(cmd); err != nil {
		return err
	}
	pack := plan{tool: "tar"}
	cmd = command(ctx, pack, scratch, log, "--create", "--numeric-owner", "--one-file-system", "--xattrs", "--directory", root, ".")
	cmd.Stdout = w
	return run(cmd)
}

// firstMirror is the source of the suite itself.
func firstMirror(p plan) (uri string, components []string) {
	for _, src := range p.sources {
		if slices.Contains(src.suites, p.distro.suite) && slices.Contains(src.components, "main") {
			return src.uris[0], src.components
		}
	}
	return "", nil
}

// command prepares a tool with an environment of its own: nothing of the
// caller's but the proxies and the certificate settings that package mirrors
// may need.
func command(ctx context.Context, p plan, scratch string, log func(string), args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.tool, args...)
	cmd.Env = append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + scratch, "TMPDIR=" + scratch, "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
	}, p.env...)
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"} {
		if v := os.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Dir = scratch
	cmd.Stderr = &lineWriter{log: log}
	cmd.WaitDelay = toolGrace
	ownGroup(cmd)
	return cmd
}

// run runs the tool and ends whatever it left running.
func run(cmd *exec.Cmd) error {
	err := cmd.Run()
	killGroup(cmd)
	if lw, ok := cmd.Stderr.(*lineWriter); ok {
		lw.flush()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}

// aptOptions returns the host's settings for reaching mirrors: proxies,
// timeouts, certificates, clock checks of frozen mirrors. Settings that
// weaken signature checks are not among them.
func aptOptions(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return nil // no apt on this host: nothing is set
	}
	return reachOptions(bytes.NewReader(out))
}

func reachOptions(r io.Reader) []string {
	var opts []string
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		line := strings.TrimSuffix(strings.TrimSpace(sc.Text()), ";")
		key, value, ok := strings.Cut(line, " ")
		if !ok || value == `""` {
			continue
		}
		lower := strings.ToLower(key)
		if strings.Contains(lower, "verify") { // Verify-Peer "false"
			continue
		}
		for _, prefix := range []string{"acquire::http::", "acquire::https::", "acquire::retries", "acquire::forceipv",
			"acquire::check-valid-until", "acquire::check-date", "acquire::max-futuretime"} {
			if strings.HasPrefix(lower, prefix) {
				opts = append(opts, line)
				break
			}
		}
	}
	return opts
}

// lineWriter calls log for each line written to it.
type lineWriter struct {
	log func(string)
	buf []byte
}

func (l *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			if l.buf = append(l.buf, b...); len(l.buf) > 8<<10 {
				l.flush()
			}
			break
		}
		l.buf = append(l.buf, b[:i]...)
		l.flush()
		b = b[i+1:]
	}
	return n, nil
}

func (l *lineWriter) flush() {
	if line := strings.TrimSpace(string(l.buf)); line != "" {
		l.log(line)
	}
	l.buf = l.buf[:0]
}

// removeScratch removes the folder unless something is still mounted below
// it: then removing would reach through the mount.
func removeScratch(dir string, log func(string)) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && strings.Contains(string(mounts), " "+dir+"/") {
		log("something is still mounted below " + dir + "; it is left there")
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		log("cannot remove " + dir + ": " + err.Error())
	}
}
