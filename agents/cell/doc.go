// Package cell confines the commands of agents and of checks that want it. It
// owns what such a command can see and use: with bubblewrap an own view of the
// file system, of processes and of the network, and everywhere bounds on memory,
// processes, processor time, file sizes and disk traffic. It does not know who
// works in a cell, nor git.
//
// # What is seen from inside
//
// The system's programs and settings (/usr, /etc, …) and the toolchains that the
// environment names, read-only; of /etc nothing that others may not read. A home
// and a /tmp that belong to the cell alone. The workspace, writable, always at
// the same path, so that build caches that know files by their paths are of use
// to all cells. What Place.Read and Place.Caches name. Nothing else: no other
// home, no hub, no key, no /sys, no process but the cell's own, no network but a
// loopback of its own unless Place.Network.
package cell
