//go:build linux

package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// languageProjects holds a small project for each language. A name that ends in
// ".txt" has it taken off, since a Go module inside another one cannot be embedded.
//
//go:embed all:testdata/languages
var languageProjects embed.FS

// A languageProject is how the tests of a project are run.
type languageProject struct {
	image, registry, cache string
	test                   string // a shell line
	env                    string // that names the cache below /cache, for a plain container
}

// languageOf returns that of an operation.
func languageOf(op string) languageProject {
	switch op {
	case OpNode:
		return languageProject{"node", "npm", "npm", "npm ci --no-audit --no-fund --silent && npm test --silent", "npm_config_cache=/cache"}
	case OpPython:
		return languageProject{"python", "pypi", "pip", "pip install --quiet --disable-pip-version-check -r requirements.txt && pytest -q -p no:cacheprovider", "PIP_CACHE_DIR=/cache"}
	case OpGo:
		return languageProject{"go", "go", "go", "go test -count=1 ./...", "GOMODCACHE=/cache/mod GOCACHE=/cache/build"}
	case OpRust:
		return languageProject{"rust", "cargo", "cargo", "cargo test --quiet", "CARGO_HOME=/cache"}
	}
	return languageProject{"java", "maven", "maven", "mvn -q -B test", "MAVEN_OPTS=-Dmaven.repo.local=/cache"}
}

// languageOps are the operations with projects, in the order of the table.
func (s *Session) languageOps() []prepared {
	var out []prepared
	for _, op := range []string{OpNode, OpPython, OpGo, OpRust, OpJava} {
		out = append(out, prepared{op, s.project(op)})
	}
	return out
}

// copyProject writes the project of a language to dir, which it empties first, as
// the user uid.
func copyProject(language, dir string, uid int) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	from := path.Join("testdata/languages", language)
	return fs.WalkDir(languageProjects, from, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimSuffix(strings.TrimPrefix(name, from), ".txt"))
		if e.IsDir() {
			if err := os.Mkdir(to, 0o755); err != nil {
				return err
			}
			return os.Chown(to, uid, uid)
		}
		data, err := languageProjects.ReadFile(name)
		if err == nil && strings.HasSuffix(name, "requirements.txt") {
			to = filepath.Join(dir, strings.TrimPrefix(name, from))
		}
		if err == nil {
			err = os.WriteFile(to, data, 0o644)
		}
		return errors.Join(err, os.Chown(to, uid, uid))
	})
}

// registrySettings are settings in which the hosts of a registry may have the addresses
// that they have here: where these are not public ones a rule has to name them.
func registrySettings(ctx context.Context, registry string) []byte {
	r, err := config.Resolve(nil, config.Who{Agent: config.DefaultAgent, Session: config.DefaultSession}, config.Overrides{Registries: []string{registry}}.Layer())
	if err != nil {
		return nil // and the program says what is wrong
	}
	rules := r.Network.AllowedDomains
	for _, rule := range r.Network.AllowedDomains {
		host := rule[strings.LastIndex(rule, "/")+1:]
		addresses, _ := net.DefaultResolver.LookupHost(ctx, host) // the client says what is wrong
		for _, a := range addresses {
			rules = append(rules, net.JoinHostPort(a, "443"))
		}
	}
	text, _ := json.Marshal(map[string]any{"agents": map[string]any{"defaults": map[string]any{"sandbox": map[string]any{
		"network": map[string]any{"allowPrivate": true, "registryHosts": map[string][]string{registry: rules}}}}}}) // strings always encode
	return text
}

// project runs the tests of a project whose dependencies are in a kept cache: in a
// plain container of the image with the network of the host, and in a sandbox that
// reaches the registry of the language alone. Each sample begins with a fresh copy of
// the project, and both make and remove their container.
func (s *Session) project(op string) func(context.Context) (operation, error) {
	return func(ctx context.Context) (operation, error) {
		l := languageOf(op)
		lacks := func(why string) operation {
			return operation{ways: []way{{name: WayEngine, lacks: why}, {name: WayRun, lacks: why}}}
		}
		image := sandbox.LanguageImage(l.image)
		if err := exec.CommandContext(ctx, "docker", "image", "inspect", image).Run(); err != nil {
			return lacks("there is no image " + image + "; sandbox images build --language " + l.image + " makes it"), nil
		}
		const uid = 1000 // that of the user in the image
		base := filepath.Join(filepath.Dir(s.Rig.StateDir()), "project-"+l.image)
		dir, cache, state, settings := filepath.Join(base, "work"), filepath.Join(base, "cache"), filepath.Join(base, "state"), filepath.Join(base, "settings.json")
		if err := errors.Join(os.MkdirAll(cache, 0o755), os.Chown(cache, uid, uid), os.Chmod(filepath.Dir(base), 0o711),
			os.WriteFile(settings, registrySettings(ctx, l.registry), 0o600)); err != nil {
			return operation{}, err
		}
		plain := []string{"docker", "run", "--rm", "--network", "host", "--user", fmt.Sprint(uid), "--memory", "2g", "--cpus", "2",
			"-v", dir + ":/workspace", "-v", cache + ":/cache", "-v", "/etc/ssl/certs:/etc/ssl/certs:ro", "-w", "/workspace"}
		for _, v := range strings.Fields(l.env) {
			plain = append(plain, "-e", v)
		}
		plain = append(plain, image, "sh", "-c", l.test)
		inside := []string{s.Program, "--config", settings, "--state-dir", state, "--provider", "docker", "run", "--rm", "--workspace", dir,
			"--image", l.image, "--allow", l.registry, "--cache", l.cache, "--", "sh", "-c", l.test}
		fresh := func() error { return copyProject(l.image, dir, uid) }
		run := func(args []string) sample {
			return timedAfter(fresh, func(ctx context.Context) error {
				cmd := exec.CommandContext(ctx, args[0], args[1:]...)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				cmd.Env = append(os.Environ(), "SANDBOX_GUEST="+s.Guest)
				if file := os.Getenv("SSL_CERT_FILE"); file != "" && os.Getenv("SANDBOX_CA_FILE") == "" {
					cmd.Env = append(cmd.Env, "SANDBOX_CA_FILE="+file)
				}
				if err := cmd.Run(); err != nil {
					return wrong("%s: %v: %s", op, err, out.String())
				}
				return nil
			})
		}
		for _, args := range [][]string{plain, inside} { // fills the caches, which takes longer than a sample may
			if _, err := run(args)(ctx); err != nil {
				return operation{}, err
			}
		}
		return operation{rounds: 5, cold: true, ways: []way{
			{name: WayEngine, turn: 1, take: run(plain)},
			{name: WayRun, turn: 1, take: run(inside)},
		}, done: func() error {
			clear := exec.Command(s.Program, "--config", settings, "--state-dir", state, "prune", "--caches", "--idle", "0s")
			clear.Env = append(os.Environ(), "SANDBOX_GUEST="+s.Guest)
			out, err := clear.CombinedOutput()
			if err != nil {
				return wrong("remove the caches: %v: %s", err, out)
			}
			return nil
		}}, nil
	}
}
