// Package visit decides which addresses a browser may open. It is pure.
package visit
