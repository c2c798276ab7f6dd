// Package workflows owns what runs when: the pursuit of one goal from its first
// task to its last hand-off, the workers that live meanwhile, the landing loop,
// the schedule of green, and the exchange with the remote. It decides nothing
// about a change, a snapshot or a task: those belong to queue, green and agents.
//
// All of it is woken by a Bell and reads git anew; nothing is remembered that a
// killed process would miss. A run is
//
//	begin ── GOAL.md lands ──▶ plan ◀── hand-offs, what green did ──┐
//	                            │ task files land                   │
//	                            ▼                                   │
//	                         workers ── changes land ───────────────┘
//	                            │ the planner finishes: GOAL.md is gone
//	                            ▼
//	                          done ── a last snapshot
package workflows
