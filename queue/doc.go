// Package queue owns how changes land on main: the queue/ branches, the lander,
// the mechanical gate, fencing of hand-offs, and the audit of what has landed.
//
// It runs no checks itself (that is a Judge), repairs nothing, and knows of no
// forge. Git is its only state. A branch queue/<name> waits; a commit on
// refs/greenward/log/queue says what became of it and moves in the same ref
// transaction as main. Whatever wakes the lander only makes it read again.
//
// The state machine of an entry, as Step walks it:
//
//	             frozen, held, embargo, put off
//	              ┌────┐
//	              │    ▼
//	branch ──▶ waiting ──merge──▶ merged ──no tests asked──▶ planned ──record──▶ landed
//	              ▲  │               │                          ▲
//	              │  │               └─▶ gated ──round──▶ building ──passed──┐
//	              │  │                     ▲                │   │           │
//	              │  │                     └─not sure yet───┘   │ bad, sure  ▼
//	              │◀─┼──open end────────────────────────────────┤      landed as tested,
//	              │  └──conflict, gate, …──▶ planned ◀──────────┘      or merged as proven
//	              │                              └──record──▶ ejected
//	              └── every planned entry, when the record loses a race: read again, plan again
//
// A branch that moves or goes while its entry waits ends the entry as withdrawn:
// the new head is a new entry.
//
// Order. Entries land by priority (trailer Priority:, 0 first, 5 where it is
// absent; green's repairs have 0), then in the order in which this lander first saw
// them; those seen in the same pass, and all after a restart, in the order of the
// committer dates of their heads (a date in the future counts as now), then by
// name. Git keeps no time of arrival, and a date alone would let one skewed clock
// starve its owner. What is tested before it lands is taken up fairly: the first
// entry of every lane before the second of any.
//
// Policies. tolerant lands what merges, after the smoke checks if there are any.
// gated lands only what passed the required checks as the very commit that was
// tested. adaptive is tolerant, but a lane over its error budget is gated until it
// recovers, and the whole is slowed while culprits come faster than repairs; main
// does not wait for what is tested, which then is merged onto a main that moved.
// Which lanes those are, room lane says; what is built next, room plan. Rounds of
// tests go on beside the passes, one round at a time on a hub.
//
// Crashes. git applies a committed ref transaction one ref after the other, the
// log first. A lander therefore begins each pass by rolling the newest log line
// forward when main did not follow, or, when main moved elsewhere meanwhile, by
// putting its entries back in the queue; see recover.go.
package queue
