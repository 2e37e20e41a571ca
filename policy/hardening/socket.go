package hardening

import (
	"fmt"
	"path"
)

// UnixSocket refuses a socket of the host that no sandbox may reach, judged by
// its spelling and by the canonical path that w knows for it: a container
// engine's, our own, and those in the workspaces of other sandboxes. There is
// no switch for it. It also refuses a socket reached by a link, because a
// program that can exchange the link chooses the socket.
func UnixSocket(field, socket string, w World) error {
	if err := shape(field, socket); err != nil {
		return err
	}
	canonical, err := canonicalOf(socket, w)
	if err != nil {
		return refuse(field, socket, "what it leads to is not known: "+err.Error(), "make every folder above it readable")
	}
	spelled := path.Clean(socket)
	for _, p := range []string{spelled, canonical} {
		if why := closedSocket(p, w); why != "" {
			if !same(p, spelled) {
				why = fmt.Sprintf("it leads to %q, and %s", p, why)
			}
			return refuse(field, socket, why, "list only sockets of services that may do what code inside asks of them")
		}
	}
	if canonical != spelled {
		return refuse(field, socket, fmt.Sprintf("it leads to %q by a link", canonical), "list the socket itself")
	}
	return nil
}

// closedSocket returns why the socket at the clean path p is closed to every
// sandbox, or "".
func closedSocket(p string, w World) string {
	if len(parts(p)) == 0 {
		return "it is the root of the host's file system"
	}
	if why := engineSocket(p); why != "" {
		return why
	}
	if why := listening(p, w); why != "" {
		return why
	}
	for _, s := range w.Sensitive {
		if within(p, s) {
			return fmt.Sprintf("%q is part of what runs the sandboxes", s)
		}
	}
	for _, dir := range w.Workspaces {
		if within(p, dir) {
			return fmt.Sprintf("%q holds the workspaces of sandboxes", dir)
		}
	}
	return ""
}
