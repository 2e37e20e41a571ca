package sdk

import "github.com/bulkhead-dev/sandbox"

// can is what a sandbox is able to beside running commands.
type can struct{ dial, listen, files bool }

// able is h with the abilities that it has, and no others: whoever asks by
// type gets the truth.
func (h *handle) able() sandbox.Sandbox {
	d, l, f := providerDialer{h}, listener{h}, fileServer{h}
	switch h.can {
	case can{dial: true, listen: true, files: true}:
		return struct {
			*handle
			providerDialer
			listener
			fileServer
		}{h, d, l, f}
	case can{dial: true, listen: true}:
		return struct {
			*handle
			providerDialer
			listener
		}{h, d, l}
	case can{dial: true, files: true}:
		return struct {
			*handle
			providerDialer
			fileServer
		}{h, d, f}
	case can{listen: true, files: true}:
		return struct {
			*handle
			listener
			fileServer
		}{h, l, f}
	case can{dial: true}:
		return struct {
			*handle
			providerDialer
		}{h, d}
	case can{listen: true}:
		return struct {
			*handle
			listener
		}{h, l}
	case can{files: true}:
		return struct {
			*handle
			fileServer
		}{h, f}
	}
	return h
}
