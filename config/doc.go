// Package config turns a settings file into the one description of a sandbox
// that a call needs.
//
// The way has three steps, all of them pure, so that the same input always
// gives the same sandbox:
//
//   - [Parse] reads the file into [Settings], where every field is optional so
//     that layers stay distinguishable, and reports every problem with its path.
//   - [Resolve] lays the layers over each other for one tenant, agent and
//     session and remembers which layer each value came from.
//   - [BuildSpec] adds what depends on the machine ([Facts]: image identity,
//     user id, canonical paths) and returns the Spec that a provider builds.
//
// The layers are, from weak to strong: built-in defaults, preset,
// agents.defaults, agents.list[ID], the flags of the call. A later layer wins,
// except that docker.env and docker.ulimits merge by key, and binds, the lists
// of filesystem and commands.excluded are appended, so that a built-in deny
// can be added to and never removed. Permission rules are added too: what they
// allow above their own layer, what they deny above all. Of the budget of a
// tenant, which all its agents share, the least that a layer says holds. With
// scope "shared" the docker, browser and prune settings of an agent do not
// count, since they would change a sandbox that other agents use too.
//
// Package hardening is asked at load and again about the finished Spec.
package config
