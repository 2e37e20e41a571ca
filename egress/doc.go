// Package egress is the only way out of a sandbox without a network: one proxy
// in the orchestrator's process, with a policy for each sandbox.
package egress
