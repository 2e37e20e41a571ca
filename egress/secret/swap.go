package secret

import (
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// maxSwapped bounds the fields of one request after replacement, in bytes: a
// stand-in is short and can be repeated often.
const maxSwapped = 256 << 10

// Swap replaces stand-ins with values in header, which is to be sent to port
// of h, over TLS or not. It returns the names of the inserted secrets, sorted.
// Only secrets bound to that host and port are inserted, and over plain HTTP
// only if the binding names the port. Other stand-ins stay.
//
// Stand-ins are replaced in the values of fields, also repeatedly, and in the
// user name and password of Basic authorization. Names of fields, and fields
// for a proxy (Proxy-…), are not changed.
//
// If a value cannot be read, header is not changed and the request must not be
// sent; the error is a *sandbox.Error.
func (s *Set) Swap(ctx context.Context, h network.Host, port uint16, tls bool, header http.Header) (names []string, err error) {
	if s == nil {
		return nil, nil
	}
	var used []*held
	for _, e := range s.in.secrets {
		if e.open(h, port, tls) && e.within(header) {
			used = append(used, e)
		}
	}
	if len(used) == 0 {
		return nil, nil
	}
	for _, e := range used {
		if err := s.in.refresh(ctx, e); err != nil {
			return nil, err
		}
		names = append(names, e.Name)
	}
	x, err := s.in.exchange(used)
	if err == nil {
		err = x.header(header)
	}
	if err != nil {
		return nil, err
	}
	return names, nil
}

// within reports whether the stand-in of e occurs in a field that may carry
// it.
func (e *held) within(header http.Header) bool {
	for name, values := range header {
		if toProxy(name) {
			continue
		}
		for _, value := range values {
			if strings.Contains(value, e.standIn) {
				return true
			}
			if _, login, ok := basic(name, value); ok && strings.Contains(login, e.standIn) {
				return true
			}
		}
	}
	return false
}

// An exchange replaces stand-ins with values, in one pass: inserted values are
// not searched again.
type exchange struct {
	standIns, values []string
	replacer         *strings.Replacer
}

func (v *vault) exchange(used []*held) (x exchange, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.closed {
		return x, errClosed()
	}
	var pairs []string
	for _, e := range used {
		x.standIns, x.values = append(x.standIns, e.standIn), append(x.values, string(e.value))
		pairs = append(pairs, e.standIn, x.values[len(x.values)-1])
	}
	x.replacer = strings.NewReplacer(pairs...)
	return x, nil
}

// apply returns text with values inserted, and whether it contained stand-ins.
// It returns an error if the result would be longer than room bytes.
func (x exchange) apply(text string, room int) (string, bool, error) {
	found, size := false, len(text)
	for i, standIn := range x.standIns {
		if n := strings.Count(text, standIn); n > 0 {
			found = true
			size += n * (len(x.values[i]) - len(standIn))
		}
	}
	if !found {
		return text, false, nil
	}
	if size > room {
		return "", false, tooLong()
	}
	return x.replacer.Replace(text), true, nil
}

// field returns the value of a field with values of secrets inserted, and
// whether it has changed.
func (x exchange) field(name, value string, room int) (string, bool, error) {
	if scheme, login, ok := basic(name, value); ok {
		inner, found, err := x.apply(login, room)
		if found {
			inner = scheme + base64.StdEncoding.EncodeToString([]byte(inner))
		}
		if found || err != nil {
			return inner, found, err
		}
	}
	return x.apply(value, room)
}

// header changes all fields of header, or none if they would become too long.
func (x exchange) header(header http.Header) error {
	changed, room := http.Header{}, maxSwapped
	for name, values := range header {
		if toProxy(name) {
			continue
		}
		for i, value := range values {
			now, found, err := x.field(name, value, room)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			if changed[name] == nil {
				changed[name] = slices.Clone(values)
			}
			changed[name][i] = now
			room -= len(now)
		}
	}
	maps.Copy(header, changed)
	return nil
}

func tooLong() error {
	e := sandbox.Errorf(sandbox.CodeValidation, "put in secrets", "the request's fields would have more than %d bytes", maxSwapped)
	e.Hint = "name a secret once in a request"
	return e
}

// toProxy reports whether a field is meant for a proxy and not for the host.
func toProxy(name string) bool {
	return len(name) >= 6 && strings.EqualFold(name[:6], "Proxy-")
}

// basic splits a field of Basic authorization into the scheme, with the spaces
// after it, and the decoded base64.
func basic(name, value string) (scheme, login string, ok bool) {
	const word = "Basic "
	if !strings.EqualFold(name, "Authorization") || len(value) < len(word) || !strings.EqualFold(value[:len(word)], word) {
		return "", "", false
	}
	text := strings.TrimLeft(value[len(word):], " ")
	scheme = value[:len(value)-len(text)]
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(text), "="))
	return scheme, string(data), err == nil
}
