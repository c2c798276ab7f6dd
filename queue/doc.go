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
//	             frozen, held, deferred
//	              ┌────┐
//	              │    ▼
//	branch ──▶ waiting ──merge──▶ merged ──no checks asked──▶ planned ──record──▶ landed
//	              ▲  │               │                           ▲
//	              │  │               └─▶ building ──passed───────┘
//	              │  │                     │   │
//	              │  │      broken,unknown │   │ failed
//	              │◀─┼─────────────────────┘   ▼
//	              │  └──conflict, gate, …──▶ planned ──────────────record──▶ ejected
//	              │
//	              └── every planned entry, when the record loses a race: read again, plan again
//
// A branch that moves or goes while its entry waits ends the entry as withdrawn:
// the new head is a new entry.
//
// Order. Entries land in the order in which this lander first saw them; those
// seen in the same pass, and all after a restart, in the order of the committer
// dates of their heads (a date in the future counts as now), then by name. Git
// keeps no time of arrival, and a date alone would let one skewed clock starve
// its owner.
//
// Policies. tolerant lands what merges, after the smoke checks if there are any;
// gated runs every required check on the merged candidate of one entry at a time
// and lands exactly the tested commit; adaptive is tolerant for now.
//
// Crashes. git applies a committed ref transaction one ref after the other, the
// log first. A lander therefore begins each pass by rolling the newest log line
// forward when main did not follow, or, when main moved elsewhere meanwhile, by
// putting its entries back in the queue; see recover.go.
package queue
