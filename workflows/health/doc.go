// Package health closes the loop between what a run does to its repository and how
// the run goes on: it measures main, the queue's log and green's log, and answers
// what it finds with reactions of rising grade, each of which ends when its signal
// does. It decides; workflows and its pool obey.
//
//	main, log/queue, log/green ──Read──▶ Past ──Detect──▶ readings
//	                                                        │ Step
//	refs/greenward/log/run/<run> ◀── begun, raised, eased, ended
//	        │ Fold
//	        ▼
//	   State: who is told, which files are taken one task at a time, what share of
//	          the workers takes on work, which slices and whether the run rests
//
// Nothing is remembered that the log of the run does not say, so any process may
// look, twice or never. Detect and Step are pure.
package health
