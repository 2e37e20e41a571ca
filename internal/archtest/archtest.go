// Package archtest has no code of its own: its tests hold the shape of the
// module, which docs/architecture.md describes. They bound the number of
// packages and folders, the directions of imports, and the words that
// identifiers may use.
package archtest
