package config

import "sync"

// Following returns a function that computes say of the settings that read
// returns. It caches the result and calls say again only when read returns
// another pointer. The callers share the result and must not change it. The
// function is safe for concurrent use if read is.
func Following[T any](read func() *Settings, say func(*Settings) (T, error)) func() (T, error) {
	var (
		mu    sync.Mutex
		asked bool
		of    *Settings
		value T
		err   error
	)
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if s := read(); !asked || s != of {
			value, err = say(s)
			asked, of = true, s
		}
		return value, err
	}
}
