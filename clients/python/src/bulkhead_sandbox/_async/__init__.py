"""One of the two surfaces: _sync is generated from _async."""
