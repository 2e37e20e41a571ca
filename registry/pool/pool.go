// Package pool decides about sandboxes that are started before a session needs
// them: which of them can become which, how many to start, what to remove and
// what to keep after a restart. It is pure and starts nothing; package manager
// carries the decisions out.
//
// The decisions are valid only if the package that carries them out keeps
// these rules:
//
//   - Labels of a slot say kind pool, its instance and no tenant, which never
//     change. Only the registry says which session a slot belongs to.
//   - A claim is made by creating its record under the slot's name, where the
//     creation fails if there is one, before the slot is used for anything.
//     [Pick] only proposes: the record decides between two callers. It is
//     synced before the use is reported as done. The use need not wait for
//     that: what loses a record that has been made is a loss of power, after
//     which no slot runs, and one that does not run is Broken and goes.
//   - That a slot was ever claimed shows for good: its own record goes when the
//     claim is kept, and one without a record has no owner and is Broken.
//   - A claim is removed after the slot, never before, except to say that the
//     slot is given up. It may outlast the slot, for the workspace's sake: what
//     has claimed it is then made anew where it was.
//   - Before a slot is removed its claim is looked for once more, under the
//     lock that making claims takes: a plan is old as soon as it is made.
//   - The View is read slots first and claims after, so that a slot which is
//     claimed meanwhile is seen with its claim. When the engine or the
//     registry does not answer there is no View and nothing is done: no
//     answer is not the same as no slots, or no claims.
//   - After a restart, of the orchestrator or of the engine, a slot is what it
//     is found to be: stopped or without a guest is Broken. One with a claim
//     is adopted and brought up by the ordinary way of a sandbox in use, with
//     its workspace, which is named by the slot and never moved.
//   - Starts are noted when they begin, failed ones too, so that an image that
//     cannot start is not tried at full speed for ever.
//   - Where [CanBindLate] says no, or nothing is ready, the sandbox is made
//     anew, and the caller receives a notice that says so and why.
package pool
