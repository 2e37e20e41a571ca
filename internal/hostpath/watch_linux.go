package hostpath

// newWatcher returns nil where the kernel gives none.
func newWatcher() watcher {
	w, err := NewDirWatch()
	if err != nil {
		return nil
	}
	return w
}

func (w *DirWatch) full() bool { return len(w.paths)+len(w.files.of) >= dirwatchMaxFolders }

func (w *DirWatch) poll(changed func(path string)) (ok bool) {
	w.changed = changed
	defer func() { w.changed = nil }()
	return w.Now() != Lost
}
