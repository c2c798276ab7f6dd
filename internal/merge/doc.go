// Package merge owns how the commits of a change become commits on another tip,
// and how one commit is taken out of a tree again. Landings and green's subsets
// both use it.
//
// Every tree comes from git's own three-way merge. The package writes objects
// and moves no ref; whether a change may land is decided above it.
package merge
