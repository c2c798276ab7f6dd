// Package sample owns the repository and the goal that `greenward demo` works
// on: a small Go module whose checks are real, the tasks that its goal divides
// into, and a script that answers in the place of a model. Everything else of
// the demo is the code that a real run uses. Nothing here knows git.
package sample
