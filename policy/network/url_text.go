package network

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
)

// legible refuses text that two programs may read differently, or that looks
// like something else than it is.
func legible(address string) error {
	limit := maxAddress
	if len(address) >= len("data:") && strings.EqualFold(address[:len("data:")], "data:") {
		limit = maxData
	}
	switch {
	case address == "":
		return malformed("the address is empty", "")
	case len(address) > limit:
		return malformed("the address is longer than "+strconv.Itoa(limit)+" bytes", "")
	case !utf8.ValidString(address):
		return malformed("the address is no valid UTF-8", "")
	case strings.TrimSpace(address) != address:
		return malformed("the address has blanks around it", "leave them out")
	}
	for _, c := range address {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || c == '\u2028' || c == '\u2029' {
			return malformed("the address has a control character in it", "leave it out")
		}
	}
	return nil
}

// cutScheme splits "scheme:rest" and returns the scheme in lower case. ok is
// false for text without a scheme.
func cutScheme(address string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(address, ":")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/\\?#") {
		return "", "", false
	}
	for i, c := range []byte(scheme) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			// A browser would take such text for a relative address, or
			// find another scheme in it: it is no file either.
			return strings.ToLower(scheme), rest, true
		}
	}
	return strings.ToLower(scheme), rest, true
}

// looksLikeHost reports whether what stands before a colon or a slash was
// meant as a host.
func looksLikeHost(text string) bool {
	return strings.Contains(text, ".") || strings.HasPrefix(text, "[") || text == "localhost"
}

// quotedText returns text quoted and bounded, without anything that a terminal
// obeys.
func quotedText(text string) string { return strconv.QuoteToASCII(bound(text)) }

// bound cuts text that is too long to be shown.
func bound(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// malformed says what is wrong with the spelling of an address.
func malformed(message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "judge address", Field: "address", Message: message, Hint: hint}
}

// blocked says that a resource may not be opened.
func blocked(resource, message, hint string) error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: "judge address", Field: "address",
		Resource: bound(resource), Message: message, Hint: hint,
	}
}
