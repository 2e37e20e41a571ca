package e2b

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"
)

// keys make and read access tokens. The data plane has no token of the caller, so an
// access token holds it, with the name of the one sandbox that it is for, encrypted
// for this server alone. It gives no right of its own: the server verifies the token
// in it for each request, so it ends when that is revoked.
//
// One caller always gets the same access token for one sandbox: addresses of files
// are signed with it, and would change otherwise.
type keys struct {
	box cipher.AEAD
	mac []byte

	mu    sync.Mutex
	given map[string]grantedAccess // by access token: those whose signatures can be verified
}

// grantedAccess is what an access token holds.
type grantedAccess struct {
	token, name string
	used        time.Time
}

// maxGiven is how many access tokens are remembered. Above that the one that was used
// longest ago is forgotten, and addresses that were signed with it are refused until
// it is used again.
const maxGiven = 4096

const accessPrefix = "ea_"

func newKeys(key []byte) (*keys, error) {
	if len(key) != 32 {
		return nil, errors.New("e2b: the key of access tokens has not 32 bytes")
	}
	derive := func(what string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(what))
		return m.Sum(nil)
	}
	block, err := aes.NewCipher(derive("e2b access token: encryption"))
	if err != nil {
		return nil, err
	}
	box, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &keys{box: box, mac: derive("e2b access token: nonce"), given: map[string]grantedAccess{}}, nil
}

// seal returns the access token of a caller's token for one sandbox. The nonce
// depends on all of the content, so no nonce is used for two contents.
func (k *keys) seal(token, name string) string {
	access := accessPrefix + k.encrypt(nil, token, name)
	k.remember(access, token, name)
	return access
}

// encrypt returns the parts, encrypted and for one purpose.
func (k *keys) encrypt(purpose []byte, parts ...string) string {
	plain := []byte(strings.Join(parts, "\x00"))
	m := hmac.New(sha256.New, k.mac)
	m.Write(purpose)
	m.Write(plain)
	nonce := m.Sum(nil)[:k.box.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(k.box.Seal(nonce, nonce, plain, purpose))
}

// decrypt returns that many parts.
func (k *keys) decrypt(purpose []byte, text string, parts int) ([]string, bool) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	n := k.box.NonceSize()
	if err != nil || len(data) < n {
		return nil, false
	}
	plain, err := k.box.Open(nil, data[:n], data[n:], purpose)
	if err != nil {
		return nil, false
	}
	all := strings.SplitN(string(plain), "\x00", parts)
	return all, len(all) == parts
}

const trafficPrefix = "et_"

var trafficPurpose = []byte("traffic")

// sealTraffic returns the traffic access token of a caller's token for the ports of
// one sandbox: with it a client reaches the ports, for which it holds the secret of
// their share, and the contexts of the code interpreter, with whose requests SDKs
// send no other token. secret is empty where ports are public.
func (k *keys) sealTraffic(token, name, secret string) string {
	return trafficPrefix + k.encrypt(trafficPurpose, token, name, secret)
}

// openTraffic returns what a traffic access token holds.
func (k *keys) openTraffic(traffic string) (token, name, secret string, ok bool) {
	text, found := strings.CutPrefix(traffic, trafficPrefix)
	parts, ok := k.decrypt(trafficPurpose, text, 3)
	if !found || !ok {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}

// open returns what an access token holds.
func (k *keys) open(access string) (token, name string, ok bool) {
	text, found := strings.CutPrefix(access, accessPrefix)
	parts, ok := k.decrypt(nil, text, 2)
	if !found || !ok {
		return "", "", false
	}
	return parts[0], parts[1], true
}

func (k *keys) remember(access, token, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.given[access]; !ok && len(k.given) >= maxGiven {
		oldest := ""
		for a, g := range k.given {
			if oldest == "" || g.used.Before(k.given[oldest].used) {
				oldest = a
			}
		}
		delete(k.given, oldest)
	}
	k.given[access] = grantedAccess{token, name, time.Now()}
}

// forget drops the access tokens of a sandbox that is no more.
func (k *keys) forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for a, g := range k.given {
		if g.name == name {
			delete(k.given, a)
		}
	}
}

// admit finds the caller of a request of the data plane. name is the sandbox that
// the request names; where it names none, the access token does.
func (k *keys) admit(c *call, name string) error {
	access := c.r.Header.Values(headerAccess)
	var token, of string
	switch {
	case len(access) > 1:
		return unauthorized("the header " + headerAccess + " is there more than once")
	case len(access) == 1:
		var ok bool
		if token, of, ok = k.open(access[0]); !ok {
			return unauthorized("the access token is not one of this server; connect to the sandbox for a new one")
		}
		k.remember(access[0], token, of)
	default:
		var err error
		if token, of, err = k.signed(c.r, name); err != nil {
			return err
		}
	}
	if name != "" && name != of {
		return unauthorized("the access token is for another sandbox")
	}
	c.token, c.name = token, of
	return nil
}

// signed finds the caller that has signed the address of a file.
func (k *keys) signed(r *http.Request, name string) (token, of string, err error) {
	q := r.URL.Query()
	given := q.Get("signature")
	if r.URL.Path != "/files" || given == "" {
		return "", "", unauthorized("the header " + headerAccess + " is missing: it holds the envdAccessToken of the sandbox")
	}
	operation := map[string]string{http.MethodGet: "read", http.MethodHead: "read", http.MethodPost: "write"}[r.Method]
	if operation == "" || len(q["path"]) > 1 || len(q["username"]) > 1 || len(q["signature"]) > 1 || len(q["signature_expiration"]) > 1 {
		return "", "", unauthorized("the signature is not for this request")
	}
	raw, end := q.Get("path")+":"+operation+":"+q.Get("username")+":", ""
	if at := q.Get("signature_expiration"); at != "" {
		seconds, err := strconv.ParseInt(at, 10, 64)
		if err != nil || time.Now().Unix() > seconds {
			return "", "", unauthorized("the signature has expired")
		}
		end = ":" + at
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for access, g := range k.given {
		if name != "" && g.name != name {
			continue
		}
		sum := sha256.Sum256([]byte(raw + access + end))
		want := "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
		if subtle.ConstantTimeCompare([]byte(want), []byte(strings.TrimRight(given, "="))) == 1 {
			return g.token, g.name, nil
		}
	}
	return "", "", unauthorized("the signature is not valid; a server that was started anew knows it as soon as a client has used the sandbox")
}

func unauthorized(message string) *fault {
	return &fault{status: http.StatusUnauthorized, message: message}
}

// bearerOf returns the token of a request of the control plane: as it is, or as
// e2b_ and the hexadecimal digits of its bytes, because older SDKs send no other
// form.
func bearerOf(r *http.Request) (string, error) {
	values := r.Header.Values(headerKey)
	switch len(values) {
	case 1:
	case 0:
		if b, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && len(r.Header.Values("Authorization")) == 1 && b != "" {
			return plainKey(b)
		}
		return "", unauthorized("the header X-API-KEY is missing: set E2B_API_KEY to a token of this server")
	default:
		return "", unauthorized("the header X-API-KEY is there more than once")
	}
	return plainKey(values[0])
}

func plainKey(key string) (string, error) {
	if digits, ok := strings.CutPrefix(key, "e2b_"); ok {
		data, err := hex.DecodeString(digits)
		if err != nil {
			return "", unauthorized("the API key is not e2b_ and the hexadecimal form of a token of this server")
		}
		key = string(data)
	}
	if key == "" || strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != "" {
		return "", unauthorized("the API key is not a token of this server")
	}
	return key, nil
}

// Key returns the form of a token that SDKs accept which check the form of keys:
// e2b_ and its bytes in hexadecimal digits.
func Key(token string) string { return "e2b_" + hex.EncodeToString([]byte(token)) }

// basicUser takes the name of a user from Basic authentication, which has no
// password in this protocol.
func basicUser(c *call) error {
	values := c.r.Header.Values("Authorization")
	if len(values) == 0 {
		return nil
	}
	user, _, ok := c.r.BasicAuth()
	if !ok || len(values) > 1 {
		return unauthorized("the header Authorization holds no name of a user")
	}
	if user != "" {
		c.user = user
	}
	return nil
}

// fileUser refuses what files cannot be used as: /v1 always uses them as the
// sandbox's user.
func (c *call) fileUser() error {
	switch c.user {
	case "", "user", "sandbox":
		return nil
	}
	for name := range strings.SplitSeq(c.user, ":") {
		if name == "root" || name != "" && strings.Trim(name, "0") == "" {
			return &fault{status: http.StatusForbidden, message: "user: files are used as the sandbox's user, never as root; leave the user out"}
		}
	}
	return bad("user", "there is no such user; leave it out, or name user")
}

// LoadKey returns the key in a file, which it makes where there is none.
func LoadKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, 32)
		rand.Read(key)
		if err := renameio.WriteFile(path, key, 0o600); err != nil {
			return nil, fmt.Errorf("e2b: key of access tokens: %w", err)
		}
		return key, nil
	}
	if err != nil {
		return nil, fmt.Errorf("e2b: key of access tokens: %w", err)
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("e2b: key of access tokens: %s has not 32 bytes; remove it, and clients connect anew", path)
	}
	return key, nil
}
