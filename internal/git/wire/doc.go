// Package wire speaks the part of git's smart http protocol in which leases on
// tasks are moved: pushes of commits that stand alone, the list of refs, and
// fetches of such commits. A claim is one small commit; a git process at each end,
// and three more below them, cost a hundred times what it does. It knows neither a
// repository nor what a ref means. What it does not understand is left to git.
package wire
