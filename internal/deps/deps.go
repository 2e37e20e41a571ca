// Package deps holds no code. Its tests hold the architecture: who may import
// whom, which packages stay pure, and the habits that keep the house in order
// (see docs/ARCHITECTURE.md). The rules are one table in rules_test.go.
package deps
