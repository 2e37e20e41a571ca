package manager

import (
	"sync"

	"github.com/bulkhead-dev/sandbox/config"
)

// settingsCacheMax bounds for how many sessions a [settingsCache] remembers.
const settingsCacheMax = 256

// A settingsCache caches what settings say of sessions, which changes with the
// settings alone: a client of a daemon needs it with each request, and laying
// the settings over each other takes longer than the rest of the request. It is
// safe for concurrent use. Callers share the cached values and must not change
// them.
type settingsCache[T any] struct {
	mu       sync.Mutex
	settings *config.Settings // that all that is known follows from
	known    map[config.Who]T
}

// of returns what say makes of the settings for who, from memory where it has
// said it of these settings before. An error is not remembered.
func (s *settingsCache[T]) of(settings *config.Settings, who config.Who, say func(config.Resolved) (T, error)) (T, error) {
	s.mu.Lock()
	v, ok := s.known[who]
	ok = ok && s.settings == settings
	s.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := saying(settings, who, nil, say)
	if err != nil {
		return v, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settings != settings || s.known == nil || len(s.known) >= settingsCacheMax {
		s.settings, s.known = settings, map[config.Who]T{}
	}
	s.known[who] = v
	return v, nil
}

// saying is what say makes of the settings for who.
func saying[T any](settings *config.Settings, who config.Who, flags *config.SandboxSettings, say func(config.Resolved) (T, error)) (v T, err error) {
	res, err := config.Resolve(settings, who, flags)
	if err != nil {
		return v, err
	}
	return say(res)
}

// resolved is [config.Resolve], from memory where there are no flags, with what
// becomes of a folder of root.
func (d *describer) resolved(settings *config.Settings, who config.Who, flags *config.SandboxSettings) (config.Resolved, error) {
	res, err := d.asWritten(settings, who, flags)
	if err != nil {
		return res, err
	}
	return d.copies(res), nil
}

// asWritten is [config.Resolve], from memory where there are no flags.
func (d *describer) asWritten(settings *config.Settings, who config.Who, flags *config.SandboxSettings) (config.Resolved, error) {
	if flags != nil {
		return config.Resolve(settings, who, flags)
	}
	if settings != nil && settings.Request != nil {
		if res, ok, err := d.m.creations.resolved(settings, who); ok {
			return res, err
		}
		return config.Resolve(settings, who, nil)
	}
	return d.layered.of(settings, who, func(res config.Resolved) (config.Resolved, error) { return res, nil })
}
