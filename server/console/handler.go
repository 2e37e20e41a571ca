package console

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
)

// Path is where the console is served.
const Path = "/ui/"

// loginPath takes the secret of a link.
const loginPath = Path + "login"

// maxLogin bounds the body of a login in bytes.
const maxLogin = 1 << 10

// policyText is the content security policy of every answer. The page loads its own
// files alone, speaks to its own daemon alone, has no inline script or style, and
// no string becomes markup or code in it. Of its frames [displayPage] alone can be one:
// every other answer refuses it.
const policyText = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'"

// Claims implements the Translator of package server.
func (c *Console) Claims(r *http.Request) bool {
	path := r.URL.Path
	if path != strings.TrimSuffix(Path, "/") && !strings.HasPrefix(path, Path) {
		return false
	}
	return c.o.Named == nil || !c.o.Named(r.Host)
}

// Translate implements the Translator of package server. Nothing that it serves needs an
// identity: the files are the same for everyone.
func (c *Console) Translate(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	secure(w.Header())
	if err := c.serve(w, r); err != nil {
		api.Write(w, err)
	}
}

// secure sets the headers that restrict what a browser does with an answer.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policyText)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY") // for browsers without frame-ancestors
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Embedder-Policy", "require-corp")
	h.Set("Origin-Agent-Cluster", "?1")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), usb=(), serial=(), display-capture=()")
	h.Set("Cache-Control", "no-store")
}

func (c *Console) serve(w http.ResponseWriter, r *http.Request) error {
	var hosts []string
	if c.o.Hosts != nil {
		hosts = c.o.Hosts()
	}
	if err := auth.Admit(r, hosts); err != nil && !follows(r, hosts) {
		return err
	}
	path := r.URL.EscapedPath()
	if path == strings.TrimSuffix(Path, "/") {
		w.Header().Set("Location", Path)
		w.WriteHeader(http.StatusPermanentRedirect)
		return nil
	}
	if path == loginPath {
		return c.login(w, r)
	}
	f, ok := c.files[strings.TrimPrefix(path, Path)]
	if !ok {
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "serve", Message: "the console has no such file", Hint: "open " + Path}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil
	}
	f.write(w, r)
	return nil
}

// follows reports whether a request is a link to the console that a person follows
// from another page, or from a mail. That shows the page and does nothing else: it
// is in no frame, and its requests are its own.
func follows(r *http.Request, hosts []string) bool {
	without := r.Clone(r.Context())
	without.Header.Del("Sec-Fetch-Site")
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		r.Header.Get("Origin") == "" && auth.Admit(without, hosts) == nil
}

// loginRequest is the body of a login.
type loginRequest struct {
	Secret string `json:"secret" required:"true" minlen:"1" maxlen:"64"`
}

// loginAnswer is the answer to a login.
type loginAnswer struct {
	Key string `json:"key"`
}

// login takes the secret of a link, and answers with the cookie and the key.
func (c *Console) login(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil
	}
	if err := auth.OwnPage(r); err != nil {
		return err
	}
	if r.Header.Get("Content-Type") != api.ContentJSON {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "log in", Field: "Content-Type", Message: "the body is no JSON", Hint: "open the link in a browser"}
	}
	safe, err := overTLS(r)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogin))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "log in", Message: "the body is too large", Hint: "open the link in a browser"}
	}
	if err != nil {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "log in", Message: "the body did not come", Err: err}
	}
	var in loginRequest
	if err := jsonschema.Decode(data, &in); err != nil {
		return err
	}
	cookie, key, _, err := c.use(in.Secret, remote(r))
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{
		Name: nameOf(r.Host, safe), Value: cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: safe, MaxAge: int(maxLife.Seconds()),
	})
	w.Header().Set("Content-Type", api.ContentJSON)
	return json.NewEncoder(w).Encode(loginAnswer{Key: key})
}

// overTLS reports whether the browser speaks TLS, to a proxy in front of the daemon.
// Without, the host has to be this machine: everybody on the way could read the
// secrets.
func overTLS(r *http.Request) (bool, error) {
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err == nil && u.Scheme == "https" {
			return true, nil
		}
	}
	if r.TLS != nil {
		return true, nil
	}
	if auth.Loopback(r.Host) {
		return false, nil
	}
	return false, &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: "log in", Field: "Origin", Message: "the console needs https, except on this machine", Hint: "put a proxy with TLS before the daemon, or reach it at a loopback address",
	}
}
