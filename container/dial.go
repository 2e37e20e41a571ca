package container

import (
	"cmp"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/docker/client"
	"github.com/docker/go-connections/sockets"
	"github.com/docker/go-connections/tlsconfig"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
)

const opDial = "connect to engine"

// Dial prepares a connection to the engine that [about.FindEngine] finds, with the
// certificates of DOCKER_CERT_PATH, or those of its context, where it is reached over
// TCP. It does not talk to the engine yet; the API version is negotiated with the
// first call. Every failure is [sandbox.CodeValidation] with the variable as its Field.
//
// An address with a password, which engines do not ask for, is refused: it
// would be in every message about the engine. DOCKER_TLS_VERIFY without
// certificates is refused too, because the client of Docker would speak without
// TLS then. With certificates the engine's own is always verified, also where
// DOCKER_TLS_VERIFY is not set, because a server that impersonates the engine
// would control all containers.
func Dial() (*client.Client, error) {
	at, err := about.FindEngine(os.Getenv)
	if err != nil {
		return nil, err
	}
	address, field := at.Address, cmp.Or(at.From, client.EnvOverrideHost)
	if holdsPassword(address) {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: opDial, Field: field, Message: "the address holds a password", Hint: "give it without: engines identify their users by certificates"}
	}
	transport := &http.Transport{}
	if overTCP(address) {
		if err := secure(transport, at.Certs); err != nil {
			return nil, err
		}
	}
	c, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithHost(address),
		client.WithVersionFromEnv(), client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		bad := &sandbox.Error{Code: sandbox.CodeValidation, Op: opDial, Field: field, Message: "bad engine address", Hint: "unset DOCKER_HOST for the local engine", Err: err}
		if errors.Is(err, sockets.ErrProtocolNotAvailable) {
			bad.Message, bad.Hint = "this system cannot connect to an address of that kind", "name a socket or a port: unix:///var/run/docker.sock, tcp://127.0.0.1:2376"
		}
		return nil, bad
	}
	return c, nil
}

// overTCP reports whether an engine's address is a port. Sockets and pipes do
// not leave the machine, and engines speak no TLS there.
func overTCP(address string) bool {
	u, err := client.ParseHostURL(address)
	return err == nil && (u.Scheme == "tcp" || u.Scheme == "http" || u.Scheme == "https")
}

// secure makes a transport use the certificates in the folder of a context, or else
// those of DOCKER_CERT_PATH. Without them it stays as it is.
func secure(t *http.Transport, ofContext string) error {
	dir := cmp.Or(ofContext, os.Getenv(client.EnvOverrideCertPath))
	if dir == "" {
		if os.Getenv(client.EnvTLSVerify) == "" {
			return nil
		}
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: opDial, Field: client.EnvOverrideCertPath, Message: "DOCKER_TLS_VERIFY is set, and DOCKER_CERT_PATH names no certificates", Hint: "set DOCKER_CERT_PATH to the folder of ca.pem, cert.pem and key.pem"}
	}
	config, err := tlsconfig.Client(tlsconfig.Options{
		CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		ExclusiveRootPools: true, // what signs certificates of web sites does not sign those of an engine
	})
	if err != nil {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: opDial, Field: client.EnvOverrideCertPath, Resource: dir, Message: "the certificates for the engine cannot be used", Hint: "DOCKER_CERT_PATH names a folder of ca.pem, cert.pem and key.pem, the key without a passphrase", Err: err}
	}
	t.TLSClientConfig = config
	return nil
}

// holdsPassword reports whether an address has something between a colon and
// the at sign after it. It need not be a valid password to be kept out of
// messages.
func holdsPassword(address string) bool {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		rest = address
	}
	user, _, at := strings.Cut(rest, "@")
	return at && scheme != "unix" && scheme != "npipe" && strings.Contains(user, ":")
}
