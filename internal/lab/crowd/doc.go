// Package crowd measures what many agents cost one machine: their workspaces,
// their shells, and the loops that drive them against a local model server. It
// uses what a real run uses, and owns only the counting.
package crowd
