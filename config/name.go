package config

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

const (
	maxName = 63 // of a DNS label, which engines and networks take
	maxSlug = 32
	hashHex = 16
)

// Name returns the name of the sandbox of o: prefix, a readable slug of the
// scope key, a dash and 16 hex digits of a SHA-1 over instance, tenant, scope
// and scope key. It has at most 63 of the characters a-z, 0-9 and "-"; the
// slug is cut to fit, the hash never.
//
// The parts are hashed with their lengths, so that moving a character from one
// to the next gives another name, and the scope is among them, so that a
// session called "shared" never meets the shared sandbox. Agent and session
// count as far as the scope key names them: in a wide scope many of them share
// one sandbox.
//
// A prefix that is not a lower-case letter or digit followed by at most 13
// letters, digits and dashes is [sandbox.CodeValidation].
func Name(prefix string, o sandbox.Owner) (string, error) {
	if !isNamePrefix(prefix) {
		e := sandbox.Errorf(sandbox.CodeValidation, "name sandbox", "prefix %s is not valid", quoted(prefix))
		e.Field, e.Hint = "docker.containerPrefix", "use a letter or digit and up to 13 of a-z 0-9 -"
		return "", e
	}
	h := sha1.New()
	for _, part := range []string{o.Instance, o.Tenant, string(o.Scope), o.ScopeKey} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	sum := hex.EncodeToString(h.Sum(nil))[:hashHex]
	room := min(maxSlug, maxName-len(prefix)-1-hashHex)
	if s := slug(readable(o), room); s != "" {
		return prefix + s + "-" + sum, nil
	}
	return prefix + sum, nil
}

// readable is what the slug shows of the scope key: a session of another agent
// than the default one begins with that agent.
func readable(o sandbox.Owner) string {
	if o.Scope != sandbox.ScopeSession {
		return o.ScopeKey
	}
	agent, session := sandbox.SplitSessionKey(o.ScopeKey)
	if agent == DefaultAgent {
		return session
	}
	return agent + "-" + session
}

// slug keeps the safe characters of s in lower case and puts one dash for each
// run of others; it starts and ends with none and has at most most bytes.
func slug(s string, most int) string {
	var b strings.Builder
	dash := false
	for _, r := range s {
		switch {
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		default:
			dash = b.Len() > 0
			continue
		}
		if dash {
			b.WriteByte('-')
			dash = false
		}
		b.WriteRune(r)
		if b.Len() >= most {
			break
		}
	}
	out := b.String()
	return strings.TrimRight(out[:min(len(out), most)], "-")
}
