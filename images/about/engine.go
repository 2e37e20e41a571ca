package about

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// DefaultEngine is where the engine of a machine listens unless a user has one of
// their own.
const DefaultEngine = "unix:///var/run/docker.sock"

// An Engine says where a container engine listens.
type Engine struct {
	Address string // as in DOCKER_HOST
	From    string // what names it: DOCKER_HOST, DOCKER_CONTEXT, the file config.json; empty for a socket that was found
	Certs   string // folder of ca.pem, cert.pem and key.pem that a context of Docker has; empty where it has none
}

// maxContext bounds the files of Docker's command line that FindEngine reads.
const maxContext = 1 << 20

// FindEngine returns the address of the container engine that a user means. It is,
// as for Docker's command line, that of DOCKER_HOST, else that of the context which
// DOCKER_CONTEXT or currentContext of Docker's config.json names. Without either it
// is the first of these sockets that exists and that the user may write to:
//
//   - /var/run/docker.sock
//   - docker.sock in XDG_RUNTIME_DIR, of a Docker without root
//   - podman/podman.sock there, of a Podman without root
//   - /run/podman/podman.sock, of Podman's service
//
// A socket below XDG_RUNTIME_DIR must belong to the user, because it is given folders
// of the user. FindEngine connects to nothing: an engine that has ended is not
// replaced by another one, which has other sandboxes. It returns
// [sandbox.CodeValidation] for a context that does not exist or cannot be read.
func FindEngine(env func(string) string) (Engine, error) {
	if address := env("DOCKER_HOST"); address != "" {
		return Engine{Address: address, From: "DOCKER_HOST"}, nil
	}
	name, from, dir, err := currentContext(env)
	if err != nil {
		return Engine{}, err
	}
	if name != "" && name != "default" {
		return contextEngine(dir, name, from)
	}
	for _, s := range engineSockets(env) {
		if s.usable() {
			return Engine{Address: "unix://" + s.path}, nil
		}
	}
	return Engine{Address: DefaultEngine}, nil
}

// NamesEngine reports whether the user names an engine, so that FindEngine looks for
// no socket. A configuration of Docker that cannot be read counts as naming one.
func NamesEngine(env func(string) string) bool {
	if env("DOCKER_HOST") != "" {
		return true
	}
	name, _, _, err := currentContext(env)
	return err != nil || name != "" && name != "default"
}

// currentContext returns the context of Docker's command line, what names it, and
// the folder of its configuration.
func currentContext(env func(string) string) (name, from, dir string, err error) {
	dir = env("DOCKER_CONFIG")
	if dir == "" {
		if env("HOME") == "" {
			return env("DOCKER_CONTEXT"), "DOCKER_CONTEXT", "", nil
		}
		dir = filepath.Join(env("HOME"), ".docker")
	}
	if name := env("DOCKER_CONTEXT"); name != "" {
		return name, "DOCKER_CONTEXT", dir, nil
	}
	at := filepath.Join(dir, "config.json")
	var c struct {
		CurrentContext string `json:"currentContext"`
	}
	err = readJSON(at, &c)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "", "", dir, nil
	case errors.Is(err, fs.ErrPermission): // the folder of another user, as after su
		return "", "", dir, nil
	case err != nil:
		return "", "", dir, badContext(at, "Docker's configuration cannot be read", err)
	}
	return c.CurrentContext, at, dir, nil
}

// contextEngine returns the engine of the context name, from Docker's folder dir.
func contextEngine(dir, name, from string) (Engine, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	var c struct {
		Name      string
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	err := readJSON(filepath.Join(dir, "contexts", "meta", id, "meta.json"), &c)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Engine{}, badContext(from, fmt.Sprintf("there is no context %q of Docker", name), nil)
	case err != nil:
		return Engine{}, badContext(from, fmt.Sprintf("the context %q of Docker cannot be read", name), err)
	case c.Endpoints["docker"].Host == "":
		return Engine{}, badContext(from, fmt.Sprintf("the context %q of Docker names no address", name), nil)
	case c.Endpoints["docker"].SkipTLSVerify:
		return Engine{}, badContext(from, fmt.Sprintf("the context %q of Docker is not to verify the engine, which could then be any server", name), nil)
	}
	e := Engine{Address: c.Endpoints["docker"].Host, From: from}
	certs := filepath.Join(dir, "contexts", "tls", id, "docker")
	if _, err := os.Stat(certs); err == nil {
		e.Certs = certs
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Engine{}, badContext(from, fmt.Sprintf("the certificates of the context %q of Docker cannot be read", name), err)
	}
	return e, nil
}

func badContext(field, message string, err error) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "find engine", Field: field, Message: message, Err: err,
		Hint: "see docker context ls, or name the engine in DOCKER_HOST"}
}

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return errors.New(path + " is no file")
	case st.Size() > maxContext:
		return errors.New(path + " is too large")
	}
	return json.NewDecoder(f).Decode(v)
}

// A socket is a place where an engine may listen.
type socket struct {
	path string
	own  bool // must belong to the user
}

func engineSockets(env func(string) string) []socket {
	dir := env("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) { // as after su, or in a job of cron
		dir = "/run/user/" + strconv.Itoa(os.Geteuid())
	}
	return []socket{
		{path: strings.TrimPrefix(DefaultEngine, "unix://")},
		{path: filepath.Join(dir, "docker.sock"), own: true},
		{path: filepath.Join(dir, "podman", "podman.sock"), own: true},
		{path: "/run/podman/podman.sock"},
	}
}

func (s socket) usable() bool {
	var st unix.Stat_t
	if err := unix.Stat(s.path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false
	}
	if s.own && int(st.Uid) != os.Geteuid() {
		return false
	}
	return unix.Faccessat(unix.AT_FDCWD, s.path, unix.W_OK, unix.AT_EACCESS) == nil
}
