// Package bot is greenward on GitHub: webhooks come in, verdicts go out.
//
// It owns what is read from and written to one repository's pull requests and
// issues: who asked for what, which commit the request speaks of, one check run
// and one comment that say what became of it. It does not own the queue, runs or
// git: Queue and Runs are filled by the command line.
//
// Nothing acts on a webhook's contents. A webhook wakes Reconcile, which reads
// GitHub and the queue again and does what is missing; so a lost, repeated or
// reordered delivery changes nothing but the time.
package bot
