// Package attack tries the known ways out of a local wall, each by a program
// or script that runs as an ordinary command inside, and then looks from the
// host whether anything has happened.
//
// An attempt that a typing error keeps from doing anything would pass, so
// nearly each is also made where nothing stands in its way: on the host
// itself, in namespaces of its own, or in a wall without the rule. There it
// has to succeed.
package attack
