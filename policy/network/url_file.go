package network

import (
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// spelledAsFile returns the path of an address that can only mean a file of
// the workspace.
func spelledAsFile(address string) (file string, ok bool) {
	for _, prefix := range []string{"./", "workspace:", sandbox.WorkspaceDir + "/"} {
		if file, ok = strings.CutPrefix(address, prefix); ok {
			return file, true
		}
	}
	return "", false
}

// bare judges text without a scheme.
func bare(address string) (Address, error) {
	first, _, more := strings.Cut(address, "/")
	switch {
	case strings.HasPrefix(address, "/"), strings.HasPrefix(address, "\\"):
		return Address{}, blocked(address, "only files of the workspace are opened", "name one as ./PATH or "+sandbox.WorkspaceDir+"/PATH")
	case first == "..":
		return workspaceFile(address)
	case more && !looksLikeHost(first), !more && isPage(first):
		return workspaceFile(address)
	}
	return Address{}, malformed(quotedText(address)+" is neither an address with a scheme nor a file", "write https://"+bound(address)+", or ./"+bound(address)+" for a file of the workspace")
}

// isPage reports whether a name without folder is taken for a file: it ends as
// what browsers show.
func isPage(name string) bool {
	return slices.Contains([]string{".html", ".htm", ".xhtml", ".svg", ".pdf", ".txt", ".png", ".jpg", ".jpeg", ".gif", ".webp"}, strings.ToLower(path.Ext(name)))
}

// workspaceFile makes the address of a file, whose path is taken literally.
func workspaceFile(file string) (Address, error) {
	if slices.Contains(strings.Split(file, "/"), "..") {
		return Address{}, blocked(file, "the path leads out of its folder", "name a file of the workspace without ..")
	}
	if strings.HasPrefix(file, "/") || strings.Contains(file, "\\") {
		return Address{}, blocked(file, quotedText(file)+" is no path below the workspace", "name a file of the workspace as ./PATH, with slashes")
	}
	file = path.Clean(file)
	if file == "." || !fs.ValidPath(file) {
		return Address{}, malformed("the address names no file of the workspace", "name one as ./PATH")
	}
	u := url.URL{Scheme: "http", Host: WorkspaceHost, Path: "/" + file}
	return Address{Kind: Workspace, URL: u.String(), File: file}, nil
}

// hopToFile reads the path of an address below [Origin], as a browser spells
// it: dots are resolved by then, so that dots and separators which are still
// there were hidden on purpose.
func hopToFile(u *url.URL) (Address, error) {
	escaped := strings.ToLower(u.EscapedPath())
	for _, hidden := range []string{"%2f", "%5c", "%00", "\\"} {
		if strings.Contains(escaped, hidden) {
			return Address{}, blocked(WorkspaceHost, "the path of a file has a hidden separator in it", "")
		}
	}
	file := strings.TrimPrefix(u.Path, "/")
	if !fs.ValidPath(file) || file == "." {
		return Address{}, blocked(WorkspaceHost, "the path leads to no file of the workspace", "")
	}
	clean := url.URL{Scheme: "http", Host: WorkspaceHost, Path: "/" + file, RawQuery: u.RawQuery, Fragment: u.Fragment}
	return Address{Kind: Workspace, URL: clean.String(), File: file}, nil
}

// FileOf returns the file of the workspace that an address below [Origin]
// names.
func FileOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host != WorkspaceHost {
		return "", malformed("the address is that of no file of the workspace", "")
	}
	a, err := hopToFile(u)
	return a.File, err
}

// File reads the path of a file of the workspace, spelled as in an address or
// as a relative path, and returns it slash-separated and relative.
func File(path string) (string, error) {
	if err := legible(path); err != nil {
		return "", err
	}
	if file, ok := spelledAsFile(path); ok {
		path = file
	}
	a, err := workspaceFile(path)
	return a.File, err
}
